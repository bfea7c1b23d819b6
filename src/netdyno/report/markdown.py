"""Text in the Markdown that GitHub and GitLab draw."""

from __future__ import annotations

__all__ = ["escaped"]


def escaped(text: str) -> str:
    """Nothing in a name can end a column of a table or start a tag."""
    # The backslash first: before a pipe it would take the meaning from the one that is put there.
    for special, harmless in (
        ("\\", "\\\\"),
        ("&", "&amp;"),
        ("<", "&lt;"),
        ("|", "\\|"),
        ("`", "\\`"),
    ):
        text = text.replace(special, harmless)
    return text.replace("\n", " ")
