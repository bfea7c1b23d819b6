"""The records of PyTorch's allocators, from traces as it writes them; itself in integration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from netdyno_worker.allocations import account
from netdyno_worker.frameworks.pytorch import memory

MEGABYTE = 10**6


def event(time: float, device_type: int, address: int, size: int) -> dict[str, Any]:
    told = {"Addr": address, "Bytes": size, "Device Type": device_type, "Total Allocated": 0}
    return {"name": "[memory]", "ts": time, "args": told}


def test_the_profilers_events_are_in_order_and_of_host_memory() -> None:
    trace = {
        "traceEvents": [
            event(3.0, 0, 1, -8),
            {"name": "aten::conv2d", "ts": 0.5},
            event(1.0, 0, 1, 8),
            event(2.0, 1, 1, 64),
            event(2.5, 0, 2, 4),
        ]
    }
    records = list(memory.trace_records(trace))
    assert records == [(1, 8, False), (2, 4, False), (1, 8, True)]
    assert account(records).peak_bytes == 8
    assert account(records).kept_bytes == 4


class Allocator:
    """Stands for ``torch.cuda.memory``: two devices, and a history only while it is recorded."""

    def __init__(self) -> None:
        self.recording = False
        self.traces: list[list[dict[str, Any]]] = [[], []]

    def _record_memory_history(
        self, enabled: str | None = "all", context: str | None = "all"
    ) -> None:
        self.recording = enabled is not None
        self.traces = [[], []]

    def _snapshot(self) -> dict[str, Any]:
        return {"device_traces": self.traces, "segments": []}

    def add(self, action: str, address: int, size: int, index: int = 1) -> None:
        if self.recording:
            entry = {"action": action, "addr": address, "size": size, "stream": 0}
            self.traces[index].append(entry)

    def free(self, address: int, size: int) -> None:
        self.add("free_requested", address, size)
        self.add("free_completed", address, size)


@pytest.fixture
def allocator() -> Allocator:
    return Allocator()


def report(allocator: Allocator, work: Any, index: int | None = 1) -> memory.Reported:
    torch = SimpleNamespace(cuda=SimpleNamespace(memory=allocator, current_device=lambda: 1))
    return memory.report(torch, SimpleNamespace(type="cuda", index=index), work)


@pytest.mark.parametrize("index", [1, None])
def test_a_gpus_blocks_are_those_of_its_own_trace(allocator: Allocator, index: int | None) -> None:
    def work() -> None:
        allocator.free(7, 50 * MEGABYTE)  # was there before
        allocator.add("segment_alloc", 1, 20 * MEGABYTE)
        allocator.add("alloc", 1, 2 * MEGABYTE)
        allocator.add("alloc", 2, 5 * MEGABYTE)  # stays: a gradient
        allocator.add("alloc", 1, 99 * MEGABYTE, index=0)
        allocator.add("alloc", 3, 4 * MEGABYTE)
        allocator.free(1, 2 * MEGABYTE)
        allocator.add("alloc", 1, 3 * MEGABYTE)  # where another one was
        allocator.free(3, 4 * MEGABYTE)
        allocator.free(1, 3 * MEGABYTE)

    allocator.add("alloc", 7, 50 * MEGABYTE)
    found = report(allocator, work, index)
    assert found.bytes == 7 * MEGABYTE
    assert found.kind == "allocator peak"
    assert not allocator.recording


def test_nothing_is_recorded_after_a_failure(allocator: Allocator) -> None:
    def work() -> None:
        assert allocator.recording
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        report(allocator, work)
    assert not allocator.recording
