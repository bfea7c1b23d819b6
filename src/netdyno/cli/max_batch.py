"""``netdyno memory --max-batch``: the largest batch that fits, found by trying."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from netdyno.cli.before import verify
from netdyno.cli.bench import Ended, bench, say
from netdyno.cli.measure import memory_runner
from netdyno.host.cpu import available_bytes
from netdyno.host.devices import gpus
from netdyno.memory_runner import MemoryRunner
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.max_batch import Attempt, largest
from netdyno.plan.request import MAX_BATCH_SIZE, Request
from netdyno.settings import Settings
from netdyno.store.run_folder import RunFolder
from netdyno.store.trial import read_trial

__all__ = ["search"]

# Of what is free now: other programs need a little more from time to time.
SHARE = 0.9


def search(
    request: Request,
    plan: Sequence[Cell],
    settings: Settings,
    *,
    phase: str,
    limit_bytes: int | None = None,
    out: Path | None = None,
    unverified: bool = False,
    wait: bool = True,
) -> Ended:
    """Search each cell of ``plan``, from its own batch size on; each try is a fresh process.

    ``limit_bytes``: what a process may allocate on the host; by default what is free there now. A
    GPU's memory is its own limit. See ``bench`` for the rest.
    """
    allowed = limit_bytes or int(SHARE * available_bytes())
    with bench(request, plan, settings, out=out, wait=wait) as running:
        running.folder.search_begins(phase=phase, limit_bytes=allowed, most=MAX_BATCH_SIZE)
        if not unverified:
            running.refused = verify(plan, running)
        runner = memory_runner(request, running)
        for cell in plan:
            _Search(cell, phase, allowed, runner, running.folder).run()
        running.status = "complete"
    return Ended(running.folder.path, running.status)


class _Search:
    """Of one cell. Its first batch size is refused or not; larger ones run the same code."""

    def __init__(
        self, cell: Cell, phase: str, limit_bytes: int, runner: MemoryRunner, folder: RunFolder
    ) -> None:
        self.cell = cell
        self.phase = phase
        self.on_cpu = cell.device == "cpu"
        self.limit_bytes = limit_bytes if self.on_cpu else _gpu_bytes(cell.device)
        self.runner = runner
        self.folder = folder

    def run(self) -> None:
        largest(
            self._attempt,
            start=self.cell.batch_size,
            most=MAX_BATCH_SIZE,
            limit_bytes=self.limit_bytes,
        )

    def _attempt(self, batch_size: int) -> Attempt:
        cell = dataclasses.replace(self.cell, batch_size=batch_size)
        if cell != self.cell:
            self.folder.add_cell(cell)
        path, outcome = self.runner.trial(
            cell,
            phases=[self.phase],
            limit_bytes=self.limit_bytes if self.on_cpu else None,
            totals_only=True,
            verified_as=self.cell,
        )
        trial = read_trial(path, self.folder.data)
        memory = trial.memory.get(self.phase) if trial and outcome.status == "ok" else None
        total = memory.total_bytes if memory else None
        say(_line(cell, outcome, total))
        # A framework that cannot run it at all is not asked again.
        given_up = outcome.status == "skipped"
        return Attempt(0 if given_up else batch_size, outcome.status == "ok", total)


def _line(cell: Cell, outcome: Outcome, total_bytes: int | None) -> str:
    held = f", {total_bytes / 1e9:.2f} GB" if total_bytes else ""
    words = "fits" + held if outcome.status == "ok" else outcome.status.replace("_", " ")
    if outcome.status not in ("ok", "out_of_memory"):
        words += f": {outcome.reason}"
    return f"{cell.framework} {cell.mode}, {cell.network_spec} b{cell.batch_size}: {words}"


def _gpu_bytes(device: str) -> int | None:
    return gpus()[int(device.partition(":")[2] or 0)].memory_bytes
