"""Trials in turn, some of which may be prepared while the one before them is set up.

A worker that is started ahead imports its framework and draws parameters and images; it waits for
its turn before it touches the device. The one whose turn it is waits, once its first iteration is
over, until nobody prepares, and nobody is started until it has ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from netdyno.event_file import Listener
from netdyno.host.cpu import cpu
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.session import Task, Worker

__all__ = ["Turns", "preparations", "worthwhile"]

# Logical ones, for each that is prepared. A preparation keeps one busy for seconds, and with it,
# where two are one physical core, half of that; the set-up beside it needs one for its own thread
# and one for the driver's.
CORES = 4
# An import may take longer than the set-up beside it. Several at once take no longer than one, and
# the trials that follow wait for none.
MOST = 4


def preparations() -> int:
    """How many workers may prepare at once on this host while another one is set up.

    None where no cores are to spare: the first iteration, which compiles, is a figure too.
    """
    host = cpu()
    cores = min(host.usable_cores, host.quota_cores or host.usable_cores)
    return min(MOST, int(cores // CORES))


def worthwhile(cell: Cell, following: Cell) -> bool:
    """Whether to prepare ``following`` while ``cell``, or one behind it, is set up.

    On GPUs only, since set-up on a processor would have to share it.
    """
    return cell.device.startswith("cuda") and following.device.startswith("cuda")


class Turns:
    """At most ``most`` workers are ahead of their turn; ``end`` ends them."""

    def __init__(self, most: int | None = None) -> None:
        self.most = preparations() if most is None else most
        self._ahead: list[Worker] = []

    def prepared(self, task: Task) -> bool:
        """Whether its worker has been started."""
        return any(worker.task == _with_turns(task) for worker in self._ahead)

    def run_trial(
        self,
        task: Task,
        events: Path,
        listener: Listener = lambda event: None,
        *,
        following: Sequence[Task],
    ) -> Outcome:
        """As ``session.run_trial``; ``following``, in this order, are prepared meanwhile.

        None of them as long as there are some that were prepared before: who prepares all at once
        is waited for only once. What was prepared and is not among them is ended first.
        """
        wanted = [_with_turns(task), *map(_with_turns, following)]
        self._keep(wanted)
        own = next((worker for worker in self._ahead if worker.task == wanted[0]), None)
        if own:
            self._ahead.remove(own)
        with own or Worker(wanted[0]) as worker:
            if not self._ahead:
                for other in wanted[1:]:
                    self._ahead.append(Worker(other))
            return worker.measure(events, listener, self._preparing)

    def _preparing(self) -> bool:
        found = [worker.preparing() for worker in self._ahead]  # ends who takes too long
        return any(found)

    def _keep(self, wanted: Sequence[Task]) -> None:
        for worker in [worker for worker in self._ahead if worker.task not in wanted]:
            self._ahead.remove(worker)
            worker.close()

    def end(self) -> None:
        """End the workers that are ahead, if there are any; they leave no trace."""
        self._keep(())


def _with_turns(task: Task) -> Task:
    return dataclasses.replace(task, job={**task.job, "turns": True})
