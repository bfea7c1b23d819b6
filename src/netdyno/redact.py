"""Takes this machine's paths out of what is meant to be shared."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from netdyno.frameworks import WORKER_ROOT

__all__ = ["Redactor"]


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
            tempfile.gettempdir(): "<tmp>",
            **{str(path): name for path, name in folders.items()},
        }
        # "/" and "." are no secret, and replacing them would ruin every line.
        usable = [(path, name) for path, name in known.items() if len(path) > 1]
        self._known = sorted(usable, key=lambda pair: -len(pair[0]))

    def __call__(self, text: str) -> str:
        for path, name in self._known:
            text = text.replace(path, name)
        return text
