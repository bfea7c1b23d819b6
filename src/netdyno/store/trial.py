"""A trial as it is read: its raw blocks, and which of them were disturbed."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from netdyno.errors import NetdynoError
from netdyno.memory.measured import PhaseMemory, phase_memory
from netdyno.redact import printable
from netdyno.stats.block import Block, GpuSample
from netdyno.stats.disturbance import Disturbance, Room, disturbances

__all__ = ["Trial", "events_in", "read_trial", "trial_of"]

# What older runs lack, or a system may not tell.
OPTIONAL = {f.name for f in fields(Block) if f.default is not MISSING}
REQUIRED = {f.name for f in fields(Block)} - OPTIONAL
NAMES = {"phase", "kind"}
# A trial on a GPU keeps its driver's thread and the framework's own busy, whatever was asked for.
GPU_HOST_THREADS = 2

# The end of a trial in whose file none was written.
UNFINISHED = {"status": "interrupted", "reason": "netdyno was ended meanwhile"}


@dataclass(frozen=True)
class Trial:
    """``status`` is that of ``Outcome``, or ``interrupted`` where no end was written.

    ``mhz`` is the processor's clock at the end of each phase, where the system tells it;
    ``seconds_taken`` by the whole process. ``memory``: of a trial that measured memory, and no
    time, by phase.
    """

    cell: str
    round: int
    status: str
    reason: str
    blocks: tuple[Block, ...] = ()
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    gpu_samples: tuple[GpuSample, ...] = ()
    room: Room = field(default_factory=Room)
    mhz: Mapping[str, float] = field(default_factory=dict)
    seconds_taken: float = 0.0
    measures: str = "time"
    memory: Mapping[str, PhaseMemory] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether there is nothing to gain from making it again in the same run."""
        return self.status != "interrupted"

    def of(self, phase: str, kind: str = "sample") -> list[Block]:
        return [block for block in self.blocks if block.phase == phase and block.kind == kind]

    def undisturbed(self, phase: str) -> list[Block]:
        """The samples of ``phase`` that nothing disturbed; see stats/disturbance.py."""
        return [block for block, marks in self._marked(phase) if not marks]

    def disturbed(self, phase: str) -> dict[str, int]:
        """How many samples of ``phase`` were disturbed, by cause; a sample may have several."""
        return dict(Counter(mark.cause for _, marks in self._marked(phase) for mark in marks))

    def seconds(self, phase: str) -> list[float]:
        """Per iteration, of the samples that nothing disturbed: what an estimate may rest on."""
        return [block.seconds_per_iteration for block in self.undisturbed(phase)]

    def _marked(self, phase: str) -> Iterator[tuple[Block, tuple[Disturbance, ...]]]:
        for block, marks in zip(self.blocks, self.disturbances, strict=True):
            if block.phase == phase and block.kind == "sample":
                yield block, marks

    @cached_property
    def disturbances(self) -> list[tuple[Disturbance, ...]]:
        """For each of ``blocks``, what disturbed it."""
        return disturbances(self.blocks, self.gpu_samples, self.room)


def read_trial(path: Path, run: Mapping[str, Any]) -> Trial | None:
    """None for a file in which nothing was written yet; ``run`` is what ``run.json`` holds.

    Raises NetdynoError for a file that is about something else.
    """
    events = list(events_in(path))
    if not events:
        return None
    if not any(event.get("event") == "trial" for event in events):
        raise NetdynoError(f"{path.name} does not begin with the trial it is about")
    return trial_of(events, run)


def trial_of(events: Iterable[Mapping[str, Any]], run: Mapping[str, Any]) -> Trial:
    """From its events, one of which must be ``trial``."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        by_name.setdefault(str(event.get("event")), []).append(event)
    head = by_name["trial"][-1]
    end = by_name.get("outcome", [UNFINISHED])[-1]
    machine = by_name.get("machine", [])
    clocks = {str(event.get("phase")): _number(event.get("mhz")) for event in machine}
    return Trial(
        cell=head["cell"],
        round=head["round"],
        status=end["status"],
        # A shared folder may hold anything, and it is shown on a terminal.
        reason=printable(str(end["reason"])),
        blocks=tuple(filter(None, map(_block, by_name.get("block", ())))),
        fingerprint=by_name.get("fingerprint", [{}])[-1],
        gpu_samples=tuple(filter(None, map(_gpu_sample, by_name.get("gpu", ())))),
        room=_room(head["cell"], run, machine[-1] if machine else {}),
        mhz={phase: mhz for phase, mhz in clocks.items() if mhz is not None},
        seconds_taken=_number(end.get("seconds")) or 0.0,
        measures=str(head.get("measures", "time")),
        memory={
            str(event.get("phase")): phase_memory(event) for event in by_name.get("memory", ())
        },
    )


def _block(event: Mapping[str, Any]) -> Block | None:
    """None for what is no block: a worker that was killed may have been cut off within a line."""
    names = {name: event.get(name) for name in NAMES}
    numbers = {name: _number(event.get(name)) for name in (REQUIRED | OPTIONAL) - NAMES}
    told = [*names.values(), *(numbers[name] for name in REQUIRED - NAMES)]
    if None in told or not numbers["iterations"]:
        return None
    return Block(**names, **numbers)  # type: ignore[arg-type]  # those that must be are no None


def _gpu_sample(event: Mapping[str, Any]) -> GpuSample | None:
    at = _number(event.get("at"))
    if at is None:
        return None
    reasons = event.get("reasons")
    others = _number(event.get("other_processes"))
    return GpuSample(
        at,
        tuple(map(str, reasons)) if isinstance(reasons, list) else (),
        None if others is None else int(others),
        _number(event.get("sm_mhz")),
        _number(event.get("power_watts")),
        _number(event.get("temperature_celsius")),
        _number(event.get("memory_used_bytes")),
    )


def _room(key: str, run: Mapping[str, Any], machine: Mapping[str, Any]) -> Room:
    """From what the worker saw, else from what the run says of its host."""
    cell: Mapping[str, Any] = next((c for c in run["cells"] if c.get("key") == key), {})
    told = run["host"].get("cpu") if isinstance(run["host"], dict) else None
    processor = {**(told if isinstance(told, dict) else {}), **machine}
    cores = _number(processor.get("cores")) or _number(processor.get("usable_cores"))
    if cores is None:
        return Room()
    physical = _number(processor.get("physical_cores")) or cores
    on_cpu = cell.get("device", "cpu") == "cpu"
    threads = _number(cell.get("threads")) if on_cpu else GPU_HOST_THREADS
    spare = 0.0 if threads is None else max(0.0, min(physical, cores) - threads)
    return Room(int(cores), spare)


def _number(value: Any) -> float | None:
    """None for what is no number: absent, null, or the odd content of a shared folder."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value
    return None


def events_in(path: Path) -> Iterator[dict[str, Any]]:
    """What a trial's file holds so far."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the line in which a killed worker was cut off
        if isinstance(event, dict):
            yield event
