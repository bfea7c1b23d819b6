"""Trials in turn, each of which may be prepared while the one before it is set up.

A worker that is started ahead imports its framework and draws parameters and images; it waits for
its turn before it touches the device. The one whose turn it is waits, once its first iteration is
over, until nobody prepares, and nobody is started until it has ended.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from netdyno.event_file import Listener
from netdyno.host.cpu import cpu
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.session import Task, Worker

__all__ = ["Turns", "worthwhile"]

# Logical ones. A preparation keeps one busy for seconds, and with it, where two are one physical
# core, half of that; the set-up beside it needs one for its own thread and one for the driver's.
LEAST_CORES = 4


def worthwhile(cell: Cell, following: Cell) -> bool:
    """Whether to prepare ``following`` while ``cell`` is set up.

    On GPUs only, since set-up on a processor would have to share it; and only where cores are to
    spare, since the first iteration, which compiles, is a figure too.
    """
    host = cpu()
    on_gpus = cell.device.startswith("cuda") and following.device.startswith("cuda")
    cores = min(host.usable_cores, host.quota_cores or host.usable_cores)
    return on_gpus and cores >= LEAST_CORES


class Turns:
    """At most one worker is ahead of its turn; ``end`` ends it."""

    def __init__(self) -> None:
        self._ahead: Worker | None = None

    def prepared(self, task: Task) -> bool:
        """Whether its worker has been started."""
        return self._ahead is not None and self._ahead.task == _with_turns(task)

    def run_trial(
        self,
        task: Task,
        events: Path,
        listener: Listener = lambda event: None,
        *,
        following: Task | None,
    ) -> Outcome:
        """As ``session.run_trial``; ``following`` is prepared meanwhile.

        A worker that was prepared for another task is ended first.
        """
        if not self.prepared(task):
            self.end()
        worker = self._ahead or Worker(_with_turns(task))
        self._ahead = None
        with worker:
            if following is None:
                return worker.measure(events, listener)
            self._ahead = Worker(_with_turns(following))
            return worker.measure(events, listener, self._ahead.preparing)

    def end(self) -> None:
        """End the worker that is ahead, if there is one; it leaves no trace."""
        ahead, self._ahead = self._ahead, None
        if ahead:
            ahead.close()


def _with_turns(task: Task) -> Task:
    return dataclasses.replace(task, job={**task.job, "turns": True})
