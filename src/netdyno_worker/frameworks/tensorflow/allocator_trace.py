"""Every block that one of TensorFlow's allocators hands out and takes back, by its profiler."""

from __future__ import annotations

import glob
import os
import tempfile
from typing import Any, Callable, Iterator, List, Tuple

EVENTS = ("MemoryAllocation", "MemoryDeallocation")


def records(tf: Any, allocator: str, work: Callable[[], None]) -> List[Tuple[int, int, bool]]:
    """For ``allocations.account``; none where the allocator is not traced.

    ``allocator``: ``mklcpu``, which serves blocks of 256 KiB and more on a CPU with oneDNN, or
    ``GPU_0_bfc``. https://www.tensorflow.org/guide/profiler#memory_profile_tool
    """
    # Level 1 of the host's tracer has the allocators; the GPU's own tracer is not needed.
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=1, python_tracer_level=0, device_tracer_level=0
    )
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder, options):
            work()
        traces = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
        found = [each for path in traces for each in _read(path)]
    return [
        (stats["addr"], stats["requested_bytes"], freed)
        for _, freed, stats in sorted(found, key=lambda each: each[0])
        if stats["allocator_name"] == allocator
    ]


def _read(path: str) -> Iterator[Tuple[int, bool, Any]]:
    """Time in ps, whether memory is freed, and what is told of it."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    with open(path, "rb") as file:
        space.ParseFromString(file.read())
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                if name in EVENTS:
                    time = line.timestamp_ns * 1000 + event.offset_ps
                    yield time, name == "MemoryDeallocation", _stats(plane, event)


def _stats(plane: Any, event: Any) -> Any:
    found = {}
    for stat in event.stats:
        value = getattr(stat, stat.WhichOneof("value"))
        if stat.WhichOneof("value") == "ref_value":
            value = plane.stat_metadata[value].name
        found[plane.stat_metadata[stat.metadata_id].name] = value
    return found
