"""Takes out of what workers wrote what must not be shown: paths, control characters."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from netdyno.frameworks import WORKER_ROOT

__all__ = ["Redactor", "printable"]


def printable(text: str) -> str:
    """One line without control characters: a framework's words reach a person's terminal."""
    shown = (character if character.isprintable() else " " for character in text)
    return " ".join("".join(shown).split())


class Redactor:
    """Replaces known folders by what they are, longest first.

    Args:
        folders: name to show by folder, e.g. ``{Path("/home/me/.cache/netdyno"): "<home>"}``.
    """

    def __init__(self, folders: Mapping[Path, str]) -> None:
        known = {
            str(WORKER_ROOT): "<netdyno_worker>",
            str(Path.cwd()): ".",
            str(Path.home()): "~",
            str(Path.home().resolve()): "~",
            tempfile.gettempdir(): "<tmp>",
            **{str(path): name for path, name in folders.items()},
        }
        # "/" and "." are no secret, and replacing them would ruin every line.
        self._known = {path: name for path, name in known.items() if len(path) > 1}
        longest_first = sorted(self._known, key=len, reverse=True)
        # Whole components only: /home/me is not in /home/me-too.
        self._pattern = re.compile(f"({'|'.join(map(re.escape, longest_first))})(?![\\w.-])")

    def __call__(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._known[match.group(1)], text)
