"""What PyTorch tells of its memory: every block that its allocators hand out and take back."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Callable, Iterator, List, Tuple

from netdyno_worker import allocations
from netdyno_worker.memory import Memory as Base
from netdyno_worker.memory import Reported
from netdyno_worker.protocol import Job

# An allocation, or a deallocation: what both sources give, see ``allocations.account``.
Record = Tuple[int, int, bool]


class Memory(Base):
    @classmethod
    def prepare(cls, job: Job) -> None:
        # Else MKL keeps what it has packed matrices into for later calls, and no pass takes it.
        os.environ["MKL_DISABLE_FAST_MM"] = "1"

    def run(self, phase: str) -> None:
        if phase != "forward":
            super().run(phase)
            return
        # In training mode all the same: the module decides that, not this.
        with self.adapter.torch.no_grad():  # type: ignore[attr-defined]
            super().run(phase)

    def at_hand(self, phase: str) -> bool:
        return phase != "forward" or self.job.mode == "eager"

    def reported(self, phase: str) -> Reported:
        adapter: Any = self.adapter
        if adapter.graphs:
            return Reported(None, "", "", "CUDA graphs keep their memory: a pass takes none")
        return report(adapter.torch, adapter.device, lambda: self.run(phase))


def report(torch: Any, device: Any, work: Callable[[], None]) -> Reported:
    """What ``work`` takes of the memory of ``device``, and gives back before it returns."""
    if device.type == "cuda":
        records = cuda_records(torch, device, work)
        source, remark = "torch.cuda.memory._snapshot()", ""
    else:
        records = cpu_records(torch, work)
        source = "torch.profiler"
        remark = "MKL's own buffers are not in it"
    return Reported(allocations.account(records).peak_bytes, "allocator peak", source, remark)


def cpu_records(torch: Any, work: Callable[[], None]) -> List[Record]:
    """Of the allocator of tensors in host memory, in the order of time.

    From the trace that the profiler exports, since its API to them has changed with versions.
    """
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as profiler:
        work()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            return list(trace_records(json.load(file)))


def trace_records(trace: Any) -> Iterator[Record]:
    """Of a trace's ``[memory]`` events, those in host memory."""
    events = [event for event in trace["traceEvents"] if event.get("name") == "[memory]"]
    for event in sorted(events, key=lambda event: float(event["ts"])):
        told = event["args"]
        if told["Device Type"] == 0:  # c10::DeviceType::CPU
            yield told["Addr"], abs(told["Bytes"]), told["Bytes"] < 0


def cuda_records(torch: Any, device: Any, work: Callable[[], None]) -> List[Record]:
    """Of the caching allocator, in the order of time: its blocks, not the segments they lie in.

    https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
    """
    memory = torch.cuda.memory
    index = torch.cuda.current_device() if device.index is None else device.index
    memory._record_memory_history(context=None)
    try:
        work()
        trace = memory._snapshot()["device_traces"][index]
    finally:
        memory._record_memory_history(enabled=None)
    # free_completed: when the block may be used again, as in torch.cuda.memory_allocated().
    counted = ("alloc", "free_completed")
    return [
        (entry["addr"], entry["size"], entry["action"] != "alloc")
        for entry in trace
        if entry["action"] in counted
    ]
