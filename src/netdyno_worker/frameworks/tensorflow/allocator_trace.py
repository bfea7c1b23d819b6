"""Every block that one of TensorFlow's allocators hands out and takes back, by its profiler."""

from __future__ import annotations

import glob
import os
import tempfile
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

FREED = "MemoryDeallocation"
EVENTS = ("MemoryAllocation", FREED)
# What such an event says, in the order of Event's fields.
KEYS = ("addr", "requested_bytes", "allocation_bytes", "bytes_allocated")


class IncompleteTraceError(Exception):
    """Something that the allocator did is not in its trace."""


class Event(NamedTuple):
    """One block handed out or taken back; sizes in bytes.

    The pool rounds up: ``chunk`` is what it gave for ``size``; ``in_use`` is all chunks that are
    out after the event.
    """

    time: int  # in picoseconds
    freed: bool
    address: int
    size: int
    chunk: int
    in_use: int


def allocator(device: str) -> str:
    """The name of the one that serves ``cpu`` or ``cuda:0``.

    On CPU it is oneDNN's pool, which leaves blocks of less than 256 KiB to the C allocator:
    kSmallAllocationsThreshold in tensorflow/core/common_runtime/mkl_cpu_allocator.h.
    """
    if device == "cpu":
        return "mklcpu"
    return "GPU_{}_bfc".format(device.split(":")[1] if ":" in device else 0)


def records(tf: Any, allocator: str, work: Callable[[], None]) -> List[Tuple[int, int, bool]]:
    """For ``allocations.account``; none where the allocator is not traced.

    Raises:
        IncompleteTraceError: the trace cannot be trusted.
    """
    profiler = tf.profiler.experimental
    # Level 1 of the host's tracer has the allocators, those of GPUs too.
    options = profiler.ProfilerOptions(
        host_tracer_level=1, python_tracer_level=0, device_tracer_level=0
    )
    with tempfile.TemporaryDirectory() as folder:
        with profiler.Profile(folder, options):
            work()
        paths = glob.glob(os.path.join(glob.escape(folder), "**", "*.xplane.pb"), recursive=True)
        events = sorted(event for path in paths for event in _read(path, allocator))
    check(events)
    return [(event.address, event.size, event.freed) for event in events]


def check(events: Sequence[Event]) -> None:
    """Hold events, in the order of time, against the allocator's own running total.

    Raises:
        IncompleteTraceError: one was lost, or the order is not that of the allocator.
    """
    in_use = events[0].in_use if events else 0
    for event in events[1:]:
        in_use += -event.chunk if event.freed else event.chunk
        if in_use != event.in_use:
            raise IncompleteTraceError("it does not agree with the allocator's own total")


def _read(path: str, allocator: str) -> Iterator[Event]:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    with open(path, "rb") as file:
        space.ParseFromString(file.read())
    for plane in space.planes:
        kinds = {key: data.name for key, data in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                kind = kinds[event.metadata_id]
                if kind not in EVENTS:
                    continue
                stats = _stats(plane, event.stats)
                if stats["allocator_name"] == allocator:
                    time = line.timestamp_ns * 1000 + event.offset_ps
                    yield Event(time, kind == FREED, *(stats[key] for key in KEYS))


def _stats(plane: Any, stats: Iterable[Any]) -> Dict[str, Any]:
    found = {}
    for stat in stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind)
        if kind == "ref_value":  # a string that the plane keeps once
            value = plane.stat_metadata[value].name
        found[plane.stat_metadata[stat.metadata_id].name] = value
    return found
