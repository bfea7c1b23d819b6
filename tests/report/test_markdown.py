"""Names in a Markdown table are shown, not obeyed."""

from __future__ import annotations

import pytest

from netdyno.report.markdown import escaped


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vgg_a b64", "vgg_a b64"),
        ("a|b", "a\\|b"),
        # Without its own escape the backslash would set the pipe free.
        ("a\\|b", "a\\\\\\|b"),
        ("<b>&amp;", "&lt;b>&amp;amp;"),
        ("`x`\ny", "\\`x\\` y"),
    ],
)
def test_escaped(text: str, expected: str) -> None:
    assert escaped(text) == expected
