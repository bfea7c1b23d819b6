"""Which run folders there are, and which files each holds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from netdyno.errors import NetdynoError

__all__ = ["UnusableError", "find_runs", "trial_files"]


class UnusableError(Exception):
    """Why a folder cannot be read as a run; it costs only that folder."""


def find_runs(folders: Iterable[Path]) -> list[Path]:
    """Every run folder among ``folders`` and right below them, each once.

    A folder below is listed even if it holds no run, so that it can be reported; hidden ones
    are not.

    Raises:
        NetdynoError: a folder does not exist, cannot be looked into, or is a file.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                names = {entry.name: entry.is_dir() for entry in entries}
        except FileNotFoundError:
            raise NetdynoError(f"{folder} does not exist: name folders that hold runs") from None
        except OSError as error:
            raise NetdynoError(
                f"cannot look into {folder}: {error.strerror}; name folders that hold runs"
            ) from None
        below = [name for name, is_folder in names.items() if is_folder and name[0] != "."]
        is_run = "run.json" in names or "trials" in names
        for run in [folder] if is_run else [folder / name for name in sorted(below)]:
            found.setdefault(os.path.realpath(run), run)
    return list(found.values())


def trial_files(run: Path) -> list[str]:
    """The absolute paths of a run's trials, once it is clear that all of them can be opened.

    Raises:
        UnusableError: there is no ``run.json``, or a file that may not be read.
    """
    run = run.absolute()
    file = run / "run.json"
    try:
        if not file.is_file():
            raise UnusableError("there is no run.json in it")
        with os.scandir(run / "trials") as entries:
            names = [e.path for e in entries if e.name.endswith(".jsonl") and e.is_file()]
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise UnusableError(f"cannot look into it: {error.strerror}") from None
    for name in (str(file), *names):
        if not os.access(name, os.R_OK):
            raise UnusableError(f"cannot read {Path(name).name}: permission denied")
        if not name.isascii() and name != name.encode("utf-8", "replace").decode():
            raise UnusableError("its name is not UTF-8")
    return names
