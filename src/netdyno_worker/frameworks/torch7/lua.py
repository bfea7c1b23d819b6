"""Plain data as a Lua table constructor: what Lua reads without any library."""

from __future__ import annotations

from typing import Any

__all__ = ["literal"]


def literal(value: Any) -> str:
    """A Lua expression for numbers, strings, booleans, lists, tuples and dictionaries of them.

    Lists become tables from 1. Raises TypeError for anything else.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return '"{}"'.format("".join(_escaped(byte) for byte in value.encode("utf-8")))
    if isinstance(value, (list, tuple)):
        return "{{{}}}".format(", ".join(map(literal, value)))
    if isinstance(value, dict):
        return "{{{}}}".format(
            ", ".join("[{}] = {}".format(literal(key), literal(v)) for key, v in value.items())
        )
    raise TypeError("{} cannot be told to Lua".format(type(value).__name__))


def _escaped(byte: int) -> str:
    character = chr(byte)
    plain = (character.isalnum() and byte < 128) or character in " _-+.,:/()="
    return character if plain else "\\{:03d}".format(byte)
