"""Names of runs and of cells in them, as a person writes them: ``runs/today:pytorch/eager``."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path

from netdyno.errors import NetdynoError
from netdyno.store.run import Run, read_run

__all__ = ["Selection", "select"]


@dataclass(frozen=True)
class Selection:
    """A run and the keys of the cells that are meant; ``pattern`` is empty for all of them."""

    run: Run
    pattern: str
    keys: tuple[str, ...]

    def matching(self, pattern: str) -> Selection:
        """Raises NetdynoError where no cell of the run is meant by ``pattern``."""
        keys = _matching(self.run, pattern)
        if not keys:
            known = "\n  ".join(self.run.cells)
            raise NetdynoError(f"{self.run.path} has no cell '{pattern}'; it has\n  {known}")
        return Selection(self.run, pattern, keys)


def select(text: str) -> Selection:
    """``RUN`` or ``RUN:CELL``; RUN is a run folder or its run.json.

    CELL is a key, the beginning of one (``pytorch/eager``), or a pattern with ``*``.

    Raises:
        NetdynoError: there is no such run, or no such cell in it.
    """
    path, pattern = _split(text)
    run = read_run(Path(path))
    selection = Selection(run, "", tuple(run.cells))
    return selection.matching(pattern) if pattern else selection


def _split(text: str) -> tuple[str, str]:
    """At the first colon before which there is a path that exists: both may hold colons."""
    if Path(text).exists():
        return text, ""
    parts = text.split(":")
    for count in range(1, len(parts)):
        path = ":".join(parts[:count])
        if path and Path(path).exists():
            return path, ":".join(parts[count:])
    return text, ""  # which read_run refuses by name


def _matching(run: Run, pattern: str) -> tuple[str, ...]:
    if pattern in run.cells:
        return (pattern,)
    return tuple(
        key
        for key in run.cells
        if fnmatch.fnmatchcase(key, pattern) or key.startswith(pattern.rstrip("/") + "/")
    )
