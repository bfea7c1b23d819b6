"""Protocol Buffers' text format without a schema, with the line of everything.

The format of ``.prototxt`` files: ``name: value`` and ``name { … }``, where a name may come again.
What a field means, and whether it may, the reader of the file decides. Google's own reader needs
the compiled schema of what it reads, and tells no lines once it has read it.
Source: https://protobuf.dev/reference/protobuf/textformat-spec/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from netdyno.errors import NetdynoError

__all__ = ["LineError", "Message", "Scalar", "parse"]

# No network nests deeper than a handful; Python's own stack must not decide.
MAX_DEPTH = 32

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[-+.\w]+)
    |(?P<mark>[][{}<>:,;])""",
    re.VERBOSE | re.ASCII,
)
_CLOSING = {"{": "}", "<": ">"}
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class LineError(NetdynoError):
    """What is wrong in ``line`` of the file that is being read."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True)
class Scalar:
    """A number, a word or a text, as it is written; texts without quotes and escapes."""

    text: str
    line: int


@dataclass
class Message:
    """Fields by name; each has its values in the order of the file.

    The accessors take a field that is written once at most, and raise LineError for a value of
    another type.
    """

    line: int
    fields: dict[str, list[Scalar | Message]] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def line_of(self, name: str) -> int:
        """Where the field is written first, else where the message begins."""
        return self.fields[name][0].line if name in self.fields else self.line

    def messages(self, name: str) -> list[Message]:
        for value in self.fields.get(name, []):
            if not isinstance(value, Message):
                raise LineError(value.line, f"{name} must be a block {{ … }}, not '{value.text}'")
        return self.fields.get(name, [])  # type: ignore[return-value]  # checked above

    def message(self, name: str) -> Message:
        """An empty one if it is not there."""
        found = self.messages(name)
        if len(found) > 1:
            raise LineError(found[1].line, f"{name} is given twice")
        return found[0] if found else Message(self.line)

    def scalars(self, name: str) -> list[Scalar]:
        for value in self.fields.get(name, []):
            if isinstance(value, Message):
                raise LineError(value.line, f"{name} must be a single value, not a block")
        return self.fields.get(name, [])  # type: ignore[return-value]  # checked above

    def texts(self, name: str) -> list[str]:
        return [scalar.text for scalar in self.scalars(name)]

    def integers(self, name: str) -> list[int]:
        return [_integer(name, scalar) for scalar in self.scalars(name)]

    def numbers(self, name: str) -> list[float]:
        return [_number(name, scalar) for scalar in self.scalars(name)]

    def text(self, name: str, default: str) -> str:
        scalar = self._single(name)
        return scalar.text if scalar else default

    def integer(self, name: str, default: int) -> int:
        scalar = self._single(name)
        return _integer(name, scalar) if scalar else default

    def number(self, name: str, default: float) -> float:
        scalar = self._single(name)
        return _number(name, scalar) if scalar else default

    def flag(self, name: str, default: bool) -> bool:
        scalar = self._single(name)
        if scalar is None:
            return default
        if scalar.text not in ("true", "false", "True", "False", "t", "f", "1", "0"):
            raise LineError(scalar.line, f"{name} must be true or false, not '{scalar.text}'")
        return scalar.text in ("true", "True", "t", "1")

    def _single(self, name: str) -> Scalar | None:
        found = self.scalars(name)
        if len(found) > 1:
            raise LineError(found[1].line, f"{name} is given twice")
        return found[0] if found else None


def _integer(name: str, scalar: Scalar) -> int:
    # Nine digits are enough for any size, and too few to build a huge number from.
    if not re.fullmatch(r"[-+]?[0-9]{1,9}", scalar.text):
        raise LineError(scalar.line, f"{name} must be a whole number, not '{scalar.text}'")
    return int(scalar.text)


def _number(name: str, scalar: Scalar) -> float:
    try:
        return float(re.sub("[fF]$", "", scalar.text))
    except ValueError:
        raise LineError(scalar.line, f"{name} must be a number, not '{scalar.text}'") from None


def parse(text: str) -> Message:
    """The whole file as one message.

    Raises:
        LineError: the text is not in this format.
    """
    tokens = _Tokens(text)
    return _message(tokens, Message(1), "", 0)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


class _Tokens:
    """One token ahead; after the last one come ends."""

    def __init__(self, text: str) -> None:
        self._iterator = _tokens(text)
        self.next = next(self._iterator)

    def take(self) -> _Token:
        token = self.next
        self.next = next(self._iterator, token)
        return token

    def at(self, *marks: str) -> bool:
        return self.next.kind == "mark" and self.next.text in marks


def _tokens(text: str) -> Iterator[_Token]:
    line, position = 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            raise LineError(line, f"{text[position]!r} cannot stand here")
        if match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match.group(), line)
        line += match.group().count("\n")
        position = match.end()
    yield _Token("end", "the end of the file", line)


def _message(tokens: _Tokens, message: Message, closing: str, depth: int) -> Message:
    """Reads fields into ``message`` until ``closing``, or the end of the file where that is ''."""
    if depth > MAX_DEPTH:
        raise LineError(message.line, f"more than {MAX_DEPTH} blocks within each other")
    while True:
        token = tokens.take()
        if token.kind == "end" and not closing:
            return message
        if token.kind == "mark" and token.text == closing:
            return message
        if token.kind == "end":
            raise LineError(message.line, f"this block has no '{closing}' at its end")
        if token.kind != "word" or not re.match("[A-Za-z_]", token.text):
            raise LineError(token.line, f"a field's name should stand here, not {token.text}")
        values = message.fields.setdefault(token.text, [])
        colon = tokens.at(":") and tokens.take()
        if tokens.at("["):
            values += _list(tokens, depth)
        elif colon or tokens.at("{", "<"):
            values.append(_value(tokens, depth))
        else:
            found = tokens.next.text
            raise LineError(token.line, f"after '{token.text}' comes ':' or '{{', not {found}")
        if tokens.at(",", ";"):
            tokens.take()


def _list(tokens: _Tokens, depth: int) -> list[Scalar | Message]:
    start = tokens.take()
    values: list[Scalar | Message] = []
    while not tokens.at("]"):
        if values:
            comma = tokens.take()
            if comma.text != ",":
                raise LineError(start.line, f"this list has {comma.text} where ',' should stand")
        values.append(_value(tokens, depth))
    tokens.take()
    return values


def _value(tokens: _Tokens, depth: int) -> Scalar | Message:
    token = tokens.take()
    if token.kind == "mark" and token.text in _CLOSING:
        return _message(tokens, Message(token.line), _CLOSING[token.text], depth + 1)
    if token.kind == "word":
        return Scalar(token.text, token.line)
    if token.kind != "string":
        raise LineError(token.line, f"a value should stand here, not {token.text}")
    text = _unquoted(token)
    while tokens.next.kind == "string":  # as in C, neighbours are one text
        text += _unquoted(tokens.take())
    return Scalar(text, token.line)


def _unquoted(token: _Token) -> str:
    return _ESCAPE.sub(_unescaped, token.text[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _ESCAPED.get(code, code)
