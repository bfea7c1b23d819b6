"""The times of one cell: every phase, block by block, and whether the blocks did their work."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple

from netdyno_worker import loop
from netdyno_worker.adapter import Adapter
from netdyno_worker.machine import Machine
from netdyno_worker.protocol import Events, Job, Sampling
from netdyno_worker.turns import Turns


class Drawn(NamedTuple):
    """What every framework starts from, on the host: parameters by name, images and labels."""

    parameters: Mapping[str, Any]
    batch: Tuple[Any, Any]


def measure(
    adapter: Adapter,
    job: Job,
    events: Events,
    drawn: Drawn,
    machine: Machine,
    turns: Optional[Turns] = None,
) -> None:
    """Time each phase of ``adapter``, which holds ``drawn``; blocks become events.

    ``turns``: behind the first iteration it waits until no other trial is prepared.

    Raises:
        WorkNotDoneError: the blocks of a phase did not do its work (see work.py).
    """
    gate = turns.wait_for_quiet if turns else None
    sampling = job.sampling
    for phase in job.phases:
        restart = _Restart(adapter, drawn.parameters)
        _measure_phase(phase, adapter, sampling, events, restart, machine, gate)
        gate = None  # once quiet, it stays quiet: no other worker is started
        sampling = job.sampling._replace(least_seconds=job.sampling.later_least_seconds)
        if job.check_work:
            from netdyno_worker import work  # NumPy: not before Adapter.prepare

            work.check(phase, adapter, job, drawn.batch, drawn.parameters)


class _Restart:
    """Puts training back to its start before it can diverge: it sees one batch again and again.

    Called before each block of train steps, outside the timed region. The step after a reload
    allocates what the optimizer keeps, so it is made here and not measured.
    """

    # With the weights of weights.py, no network of the zoo diverges within 6.
    STEPS = 4

    def __init__(self, adapter: Adapter, parameters: Mapping[str, Any]) -> None:
        self.adapter = adapter
        self.parameters = parameters
        self.steps = 0

    def __call__(self, iterations: int) -> None:
        if self.steps and self.steps + iterations > self.STEPS:
            self.adapter.load(self.parameters)
            self.adapter.train_step()
            self.steps = 1
        self.steps += iterations


def _measure_phase(
    phase: str,
    adapter: Adapter,
    sampling: Sampling,
    events: Events,
    restart: _Restart,
    machine: Machine,
    gate: Optional[Callable[[], None]] = None,
) -> None:
    """``gate``: waits behind the first iteration until nothing else disturbs."""
    step: Callable[[], None] = getattr(adapter, phase)
    how: Dict[str, Any] = {
        "process_id": adapter.process_id,
        "machine": machine,
        "events": adapter.device_events(),
    }
    if phase == "train_step":
        how.update(before_block=restart, max_iterations=restart.STEPS)
    blocks = loop.measure(step, adapter.synchronize, sampling, **how)
    for index, block in enumerate(blocks):
        events.emit("block", phase=phase, index=index, **block.fields())
        if gate and block.kind == "first":
            gate()
    # Here, when the clock is still that of the work.
    events.emit("machine", phase=phase, **machine.facts())
