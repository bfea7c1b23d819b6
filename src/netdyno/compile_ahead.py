"""What takes minutes to compile on one core is compiled for several cells at once, before trials.

Only modes whose compiler times nothing as it works: what is chosen by the clock, such as the
algorithms of convolutions, is chosen in each trial, which is alone on the device.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from netdyno.at_once import at_once, jobs_for, sharing
from netdyno.environments import Environment
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.request import Request
from netdyno.redact import Redactor
from netdyno.session import run_trial

__all__ = ["compile_ahead", "compiles_ahead"]

# Who has not gone on with an interrupted run by then hardly will.
KEPT_SECONDS = 24 * 3600.0


def compiles_ahead(cell: Cell) -> bool:
    """Whether ``cell`` runs in a mode that can be compiled before its trials."""
    return framework(cell.framework).mode(cell.mode).compiles_ahead


@contextmanager
def compile_ahead(
    cells: Sequence[Cell],
    request: Request,
    environments: Mapping[str, Environment],
    redact: Redactor,
    parent: Path,
    jobs: int | None = None,
    ended: Callable[[Cell, Outcome], None] = lambda cell, outcome: None,
) -> Iterator[dict[str, Path]]:
    """Compile ``cells`` side by side in ``parent``; where each one's trials find it.

    ``parent`` is removed at the end of the block, unless it is left by an interrupt: what is
    compiled by then is there for who goes on. Its neighbours are removed a day after that.
    ``jobs``: at once; by default as many as suit the machine. A cell that fails here has no folder:
    its trials compile, and say why they fail.

    Raises:
        NetdynoError: ``parent`` cannot be made.
    """
    _clear_leftovers(parent.parent)
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NetdynoError(f"cannot keep what is compiled in {parent}: {error.strerror}") from None
    folders = {
        cell.key: parent / hashlib.sha256(cell.key.encode()).hexdigest()[:16] for cell in cells
    }
    found = {key: folder for key, folder in folders.items() if _mark(folder).exists()}
    left = [cell for cell in cells if cell.key not in found]
    for cell, outcome in _compiled(
        left, request, environments, redact, folders, jobs or jobs_for(cells)
    ):
        if outcome.status == "ok":
            found[cell.key] = folders[cell.key]
            _mark(folders[cell.key]).touch()
        ended(cell, outcome)
    yield found
    shutil.rmtree(parent, ignore_errors=True)


def _mark(folder: Path) -> Path:
    """Stands beside ``folder`` when all is in it."""
    return folder.with_suffix(".done")


def _clear_leftovers(folder: Path) -> None:
    for path in folder.glob("*"):
        with suppress(OSError):  # another run clears, too
            if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _compiled(
    cells: Sequence[Cell],
    request: Request,
    environments: Mapping[str, Environment],
    redact: Redactor,
    folders: Mapping[str, Path],
    jobs: int,
) -> Iterator[tuple[Cell, Outcome]]:
    stopped = threading.Event()

    def run(cell: Cell) -> Outcome:
        folder = folders[cell.key]
        shutil.rmtree(folder, ignore_errors=True)  # of one that was interrupted
        folder.mkdir()
        # On a processor the number of threads is in what is compiled.
        subject = cell if cell.device == "cpu" else sharing(cell, jobs)
        asked: dict[str, Any] = {"compile_cache": folder, "compile_only": True}
        return run_trial(
            subject,
            environments[cell.framework],
            job(subject, request.seed, phases=request.phases, **asked),
            folder.with_suffix(".jsonl"),
            timeout_seconds=request.trial_timeout_seconds,
            redact=redact,
            stopped=stopped,
        )

    tasks = [(cell, partial(run, cell)) for cell in cells]
    yield from at_once(tasks, jobs, stopped.set)
