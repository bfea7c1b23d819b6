"""Protocol Buffers' text format: what it may look like, and where it is wrong."""

from __future__ import annotations

import pytest

from netdyno.networks.importers.text_format import LineError, Message, parse


def test_values_blocks_comments_and_lines() -> None:
    message = parse(
        """\
name: "a # \\"net\\"" 'work'  # a comment: not { a block }
size: 3, size: -4; sizes: [ 5, 6 ]
# layer { }
layer { pool: MAX rate: 5e-1f on: true }
layer: < inner { off: 0 } >
layer [ { a: 1 }, { a: 2 } ]
"""
    )
    assert message.text("name", "") == 'a # "net"work'
    assert message.integers("size") == [3, -4]
    assert message.integers("sizes") == [5, 6]
    first, second, *others = message.messages("layer")
    assert (first.line, second.line) == (4, 5)
    assert first.text("pool", "AVE") == "MAX"
    assert first.number("rate", 1.0) == 0.5
    assert first.flag("on", False)
    assert not second.message("inner").flag("off", True)
    assert [other.integer("a", 0) for other in others] == [1, 2]
    assert message.line_of("sizes") == 2


def test_escapes() -> None:
    assert parse(r"a: 'x\ty\'z\x41\102\\'").text("a", "") == "x\ty'zAB\\"


def test_what_is_not_there_has_its_default() -> None:
    message = parse("")
    assert message.text("a", "b") == "b"
    assert message.integer("a", 3) == 3
    assert message.number("a", 0.5) == 0.5
    assert message.flag("a", True)
    assert message.texts("a") == message.integers("a") == message.messages("a") == []
    assert message.message("a").fields == {}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb {\n c: 2\n", 2, "this block has no '}' at its end"),
        ("a: 1\n}", 2, "a field's name should stand here, not }"),
        ("a: 1\nb", 2, "after 'b' comes ':' or '{', not the end of the file"),
        ("a: 1\nb: }", 2, "a value should stand here, not }"),
        ("b:", 1, "a value should stand here, not the end of the file"),
        ("a: 1\n: 2", 2, "a field's name should stand here, not :"),
        ("7: 2", 1, "a field's name should stand here, not 7"),
        ("a: 1\n\nb: @", 3, "'@' cannot stand here"),
        ('a: "open', 1, "'\"' cannot stand here"),
        ("a: [1 2]", 1, "this list has 2 where ',' should stand"),
        ("a: [1,", 1, "a value should stand here, not the end of the file"),
        ("a {" * 5000, 1, "more than 32 blocks within each other"),
    ],
)
def test_what_is_no_text_format(text: str, line: int, words: str) -> None:
    with pytest.raises(LineError) as error:
        parse(text)
    assert error.value.line == line
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("read", "line", "words"),
    [
        (lambda m: m.integer("word", 0), 1, "word must be a whole number, not 'MAX'"),
        (lambda m: m.integer("half", 0), 2, "half must be a whole number, not '0.5'"),
        (lambda m: m.integer("huge", 0), 2, "huge must be a whole number, not '9999999999'"),
        (lambda m: m.number("word", 0), 1, "word must be a number, not 'MAX'"),
        (lambda m: m.flag("word", True), 1, "word must be true or false, not 'MAX'"),
        (lambda m: m.integer("twice", 0), 4, "twice is given twice"),
        (lambda m: m.text("block", ""), 5, "block must be a single value, not a block"),
        (lambda m: m.message("word"), 1, "word must be a block { … }, not 'MAX'"),
        (lambda m: m.message("block"), 6, "block is given twice"),
    ],
)
def test_a_value_of_another_type(read: object, line: int, words: str) -> None:
    message = parse(
        "word: MAX\nhalf: 0.5 huge: 9999999999\ntwice: 1\ntwice: 2\nblock {\n}\nblock {}\n"
    )
    assert isinstance(message, Message)
    with pytest.raises(LineError) as error:
        read(message)  # type: ignore[operator]
    assert words in str(error.value)
    assert error.value.line in (line, line + 1 if "block is given" in words else line)
