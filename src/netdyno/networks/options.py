"""The options of a network: what a builder function's signature says that it accepts.

A builder takes keyword-only parameters that are ``bool``, ``Literal[...]`` of strings, or
``Annotated[int, Range(...)]``, each with a default. Nothing else describes an option.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from netdyno.errors import NetdynoError

__all__ = ["Classes", "Option", "OptionValue", "Range", "Size", "options_of", "show_value"]

OptionValue: TypeAlias = bool | int | str

WORDS = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}


@dataclass(frozen=True)
class Range:
    """The whole numbers that an option accepts, both ends included."""

    least: int
    most: int


# The ends catch a slip of the keyboard; what a network can do with a value, its shapes decide.
Size: TypeAlias = Annotated[int, Range(1, 4096)]
Classes: TypeAlias = Annotated[int, Range(2, 1_000_000)]


@dataclass(frozen=True)
class Option:
    """One option: its default, and what it accepts (``None`` stands for on / off)."""

    name: str
    default: OptionValue
    accepts: Range | tuple[str, ...] | None

    @property
    def accepted(self) -> str:
        """For a person: ``on or off``, ``3x3 or 1x1``, ``a whole number from 1 to 4096``."""
        match self.accepts:
            case None:
                return "on or off"
            case Range(least, most):
                return f"a whole number from {least} to {most}"
            case choices:
                return " or ".join(choices)

    def parse(self, text: str | None) -> OptionValue:
        """The value that was written; ``None`` means that only the option's name was.

        Raises:
            NetdynoError: the option does not accept it.
        """
        value: OptionValue | None = None
        match self.accepts:
            case None:
                value = True if text is None else WORDS.get(text.lower())
            case Range(least, most):
                # Nine digits hold every range; int() refuses texts of thousands.
                if text and re.fullmatch("[0-9]{1,9}", text) and least <= int(text) <= most:
                    value = int(text)
            case choices:
                if text in choices:
                    value = text
        if value is None:
            found = "nothing was given" if text is None else f"not '{text}'"
            raise NetdynoError(f"option '{self.name}' must be {self.accepted}; {found}")
        return value


def show_value(value: OptionValue) -> str:
    """As it is written in a specification: ``on``, ``224``, ``3x3``."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def options_of(builder: Callable[..., Any]) -> tuple[Option, ...]:
    """The options of a builder function, in the order of its signature."""
    hints = get_type_hints(builder, include_extras=True)
    return tuple(
        Option(name, parameter.default, _accepts(hints[name]))
        for name, parameter in inspect.signature(builder).parameters.items()
    )


def _accepts(hint: Any) -> Range | tuple[str, ...] | None:
    if hint is bool:
        return None
    if get_origin(hint) is Annotated:
        accepted = get_args(hint)[1]
        assert isinstance(accepted, Range), hint
        return accepted
    assert get_origin(hint) is Literal, f"an option cannot be {hint}"
    return get_args(hint)
