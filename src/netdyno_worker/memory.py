"""How much memory a pass takes: as its framework tells it, and as its allocations show it.

What a framework must do for it is ``Memory``; ``frameworks/<name>/memory.py`` derives it where the
framework has something to tell, or takes its memory before the pass and keeps it from then on.
"""

from __future__ import annotations

import importlib
import importlib.util
import traceback
from typing import Any, Dict, NamedTuple, Optional, Type

from netdyno_worker import allocations, resident
from netdyno_worker.adapter import Adapter
from netdyno_worker.nvml import Gpu
from netdyno_worker.protocol import Events, Job

# Passes before the one that is watched: the first ones make what later ones find there.
WARM_UP = 2
NOT_WATCHED = "what is allocated on a GPU is not seen from here"
# Pools only grow: what training leaves there would stand in for what a forward pass needs.
LEAST_FIRST = ("forward", "forward_backward", "train_step")


class Reported(NamedTuple):
    """Internal memory of one pass as the framework itself tells it.

    Internal: the peak of what a pass allocates beyond its inputs, the parameters, their gradients
    and its outputs. ``kind`` is ``static plan`` (made before anything runs), ``allocator peak`` or
    ``blobs`` (the arrays that it keeps); ``source`` what was asked, in the framework's own words;
    ``remark`` how the figure departs from the definition, if it does. ``bytes`` is None where the
    framework tells nothing; the remark then says why.
    """

    bytes: Optional[int]
    kind: str
    source: str
    remark: str = ""


class Memory:
    """Runs single passes of one adapter so that their memory can be watched.

    Order of calls: ``prepare(job)`` before the framework is imported, ``Memory(adapter, job)``
    when it is loaded and has its batch; then for each phase ``begin``, ``run`` a few times,
    ``reported``, ``run`` again; ``end``.

    ``run`` must take whatever internal memory the pass needs and give it back before it returns:
    only blocks that are allocated and freed within are counted. A framework that allocates its
    plan once and keeps it makes it in ``run``, from arrays that are there before, and drops it.
    """

    #: Whether the work is done by this process, whose allocations can be seen.
    observable = True

    @classmethod
    def prepare(cls, job: Job) -> None:
        """Set what must be set before the framework is imported, for trials of memory only."""

    def __init__(self, adapter: Adapter, job: Job) -> None:
        self.adapter = adapter
        self.job = job

    def begin(self, phase: str) -> None:
        """Make ready to run ``phase``, one of protocol.PHASES, and nothing else."""

    def run(self, phase: str) -> None:
        """One pass from nothing to nothing, and wait for its end.

        ``forward`` is the forward pass in training mode that nothing is kept of for a backward
        pass; the other phases are those that are timed.
        """
        getattr(self.adapter, phase)()
        self.adapter.synchronize()

    def foreign_bytes(self, phase: str) -> int:
        """Of what ``run`` allocates and frees, the bytes that are not internal memory.

        Such as gradients of parameters that are made anew with the plan. For what is there all
        the time that the peak may fall in.
        """
        return 0

    def other_instrument(self) -> allocations.Instrument:
        """What watches ``run`` where it is not ``observable``."""
        return allocations.Instrument(None, "another process does the work")

    def reported(self, phase: str) -> Reported:
        """What the framework tells of ``phase``; it may run passes."""
        return Reported(None, "", "", "it tells nothing of its memory")

    def end(self, phase: str) -> None:
        """Undo ``begin``."""

    def at_hand(self, phase: str) -> bool:
        """Whether ``run`` runs what has been timed, so that nothing is compiled for it."""
        return True


def memory_class(framework: str) -> Type[Memory]:
    """The framework's own, else the plain one. Imports no framework."""
    name = "netdyno_worker.frameworks.{}.memory".format(framework)
    if importlib.util.find_spec(name) is None:
        return Memory
    found: Type[Memory] = importlib.import_module(name).Memory
    return found


def measure(memory: Memory, job: Job, events: Events, gpu: Gpu) -> None:
    """Emit a ``memory`` event for each phase: see docs/event-protocol.md."""
    request = job.memory
    assert request is not None
    instrument = None if request.totals_only else _instrument(memory, job)
    pid = memory.adapter.process_id
    for phase in job.phases:
        memory.begin(phase)
        for _ in range(WARM_UP):
            memory.run(phase)
        resident.reset_peak(pid)
        memory.run(phase)
        # Before anything else runs. On GPUs what was freed stays with the framework's allocator.
        total = {"process_bytes": resident.peak_bytes(pid), "device_bytes": gpu.taken_bytes()}
        internal = _internal(instrument, memory, phase) if instrument else {}
        events.emit("memory", phase=phase, **total, **internal)
        memory.end(phase)


def ask_after(memory: Memory, job: Job, events: Events) -> None:
    """Emit a ``memory`` event for each phase that has been timed: what the framework tells.

    No totals: what the timed passes left, and a pool that was taken at once, are no part of them.
    A pass that fails, for want of memory say, costs only its own figure.
    """
    for phase in LEAST_FIRST:
        if phase not in job.phases or not memory.at_hand(phase):
            continue
        try:
            memory.begin(phase)
            for _ in range(WARM_UP):
                memory.run(phase)
            reported = memory.reported(phase)
            memory.end(phase)
        except Exception as error:
            traceback.print_exc()
            reported = Reported(None, "", "", "{}: {}".format(type(error).__name__, error))
        events.emit(
            "memory",
            phase=phase,
            process_bytes=None,
            device_bytes=None,
            observed_bytes=None,
            observed_problem=NOT_WATCHED,
            **_told(reported),
        )


def _told(reported: Reported) -> Dict[str, Any]:
    return {
        "internal_bytes": reported.bytes,
        "kind": reported.kind,
        "source": reported.source,
        "remark": reported.remark,
    }


def _instrument(memory: Memory, job: Job) -> allocations.Instrument:
    assert job.memory is not None
    if not memory.observable:
        return memory.other_instrument()
    if job.device != "cpu":
        return allocations.Instrument(None, NOT_WATCHED)
    return allocations.Instrument(job.memory.instrument, job.memory.problem)


def _internal(instrument: allocations.Instrument, memory: Memory, phase: str) -> Dict[str, Any]:
    return {**_told(memory.reported(phase)), **_observed(instrument, memory, phase)}


def _observed(instrument: allocations.Instrument, memory: Memory, phase: str) -> Dict[str, Any]:
    if instrument.problem:
        return {"observed_bytes": None, "observed_problem": instrument.problem}
    seen = instrument.watch(lambda: memory.run(phase))
    return {
        "observed_bytes": seen.peak_bytes - memory.foreign_bytes(phase),
        "observed_source": instrument.source,
        "observed_largest": seen.largest,
        "observed_kept_bytes": seen.kept_bytes,
        "observed_problem": "",
    }
