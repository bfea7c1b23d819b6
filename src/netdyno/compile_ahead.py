"""What takes minutes to compile on one core is compiled for several cells at once, before trials.

Only modes whose compiler times nothing as it works: what is chosen by the clock, such as the
algorithms of convolutions, is chosen in each trial, which is alone on the device.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from netdyno.at_once import at_once, jobs_for, sharing
from netdyno.environments import Environment
from netdyno.frameworks import framework
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.request import Request
from netdyno.redact import Redactor
from netdyno.session import run_trial

__all__ = ["compile_ahead", "compiles_ahead"]


def compiles_ahead(cell: Cell) -> bool:
    """Whether ``cell`` runs in a mode that can be compiled before its trials."""
    return framework(cell.framework).mode(cell.mode).compiles_ahead


@contextmanager
def compile_ahead(
    cells: Sequence[Cell],
    request: Request,
    environments: Mapping[str, Environment],
    redact: Redactor,
    jobs: int | None = None,
    ended: Callable[[Cell, Outcome], None] = lambda cell, outcome: None,
) -> Iterator[dict[str, Path]]:
    """Compile ``cells`` side by side; where each one's trials find it, until the end of the block.

    ``jobs``: at once; by default as many as suit the machine. A cell that fails here has no folder:
    its trials compile, and say why they fail.
    """
    with tempfile.TemporaryDirectory(
        prefix="netdyno-compiled-", ignore_cleanup_errors=True
    ) as parent:
        folders = {cell.key: Path(parent) / str(index) for index, cell in enumerate(cells)}
        found: dict[str, Path] = {}
        for cell, outcome in _compiled(
            cells, request, environments, redact, folders, jobs or jobs_for(cells)
        ):
            if outcome.status == "ok":
                found[cell.key] = folders[cell.key]
            ended(cell, outcome)
        yield found


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
