"""Options are read from a signature."""

from __future__ import annotations

from typing import Literal

import pytest

from netdyno.networks.builder import Builder
from netdyno.networks.options import Option, Range, Size, options_of, show_value


def builder(
    *, size: Size = 8, color: Literal["red", "blue"] = "red", dropout: bool = True
) -> Builder:
    return Builder((3, size, size))


def test_options_of() -> None:
    assert options_of(builder) == (
        Option("size", 8, Range(1, 4096)),
        Option("color", "red", ("red", "blue")),
        Option("dropout", True, None),
    )


def test_an_option_without_limits_is_refused() -> None:
    def unlimited(*, size: int = 8) -> Builder:
        return Builder((3, size, size))

    with pytest.raises(AssertionError, match="an option cannot be"):
        options_of(unlimited)


@pytest.mark.parametrize(("value", "text"), [(True, "on"), (False, "off"), (7, "7"), ("a", "a")])
def test_a_shown_value_can_be_read_again(value: bool | int | str, text: str) -> None:
    assert show_value(value) == text
