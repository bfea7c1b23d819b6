"""Plain data as Lua reads it."""

from __future__ import annotations

import pytest

from netdyno_worker.frameworks.torch7.lua import literal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (-3, "-3"),
        (5e-4, "0.0005"),
        (1e-05, "1e-05"),
        ("conv1", '"conv1"'),
        ("b/2 x", '"b/2 x"'),
        ('"\n\\é', '"\\034\\010\\092\\195\\169"'),
        ([1, (2, "x")], '{1, {2, "x"}}'),
        ({"kind": "Add", "inputs": []}, '{["kind"] = "Add", ["inputs"] = {}}'),
    ],
)
def test_literals(value: object, text: str) -> None:
    assert literal(value) == text


def test_what_lua_has_no_word_for() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        literal(None)
