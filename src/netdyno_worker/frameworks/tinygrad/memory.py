"""tinygrad's internal memory: the buffers of what a ``TinyJit`` has captured."""

from __future__ import annotations

import os
from typing import Any

from netdyno_worker.memory import Memory as Base
from netdyno_worker.memory import Reported
from netdyno_worker.protocol import Job


class Memory(Base):
    """A captured program keeps its buffers: they are freed after each pass, and made in the next.

    They are one arena, in which tinygrad has planned a place for each intermediate result, and
    what the pass returns.
    """

    @classmethod
    def prepare(cls, job: Job) -> None:
        os.environ["LRU"] = "0"  # what is freed goes back to the system at once

    def __init__(self, adapter: Any, job: Job) -> None:
        super().__init__(adapter, job)
        self.counters = adapter.tinygrad.helpers.GlobalCounters
        limit = job.memory.limit_bytes if job.memory else None
        if limit is not None and job.device == "cpu":
            self._limit(adapter.opened.allocator, limit)

    def _limit(self, allocator: Any, limit: int) -> None:
        """Refuse what is beyond ``limit`` bytes in all: buffers on the CPU are shared mappings,
        which the system's limit on a process's private memory does not count."""
        allocate = allocator._alloc

        def limited(size: int, options: Any) -> Any:
            if self.counters.mem_used + size > limit:
                raise MemoryError("out of memory: the limit is {} bytes".format(limit))
            return allocate(size, options)

        allocator._alloc = limited

    def begin(self, phase: str) -> None:
        self._free(phase)
        # The first call runs kernel by kernel, the second captures.
        while self._jit(phase).captured is None:
            super().run(phase)
        # A program counts what it updates in place among what it writes; that is there to stay.
        captured = self._jit(phase).captured
        state = {tensor.uop.base for tensor in self.adapter.state()}  # type: ignore[attr-defined]
        captured.__dict__["_written_uops"] = captured._written_uops - state
        self._free(phase)

    def run(self, phase: str) -> None:
        super().run(phase)
        self._free(phase)

    def end(self, phase: str) -> None:
        self._jit(phase).reset()

    def foreign_bytes(self, phase: str) -> int:
        """What the pass returns: loss, logits, gradients of parameters."""
        returned = self._jit(phase).captured.ret
        return sum(tensor.nbytes() for tensor in _tensors(returned))

    def reported(self, phase: str) -> Reported:
        before = self.counters.mem_used
        super().run(phase)
        taken = self.counters.mem_used - before
        self._free(phase)
        return Reported(
            taken - self.foreign_bytes(phase),
            "static plan",
            "GlobalCounters.mem_used of a captured TinyJit",
            "gradients of parameters lie in the plan" if phase == "train_step" else "",
        )

    def _jit(self, phase: str) -> Any:
        names = {"forward": "_jit_forward", "forward_backward": "_jit_gradients"}
        return getattr(self.adapter, names.get(phase, "_jit_step"))

    def _free(self, phase: str) -> None:
        from tinygrad.uop.ops import buffers

        captured = self._jit(phase).captured
        if captured is None:
            return
        captured.free_intermediates()
        # Views of the arena keep its memory until the next pass makes them anew.
        for buffer in list(buffers.values()):
            if not buffer.is_allocated():
                buffer._bufs.clear()


def _tensors(value: Any) -> Any:
    """Of nested tuples and dicts, as a phase returns them."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if not isinstance(value, tuple):
        return (value,)
    return sum((tuple(_tensors(part)) for part in value), ())
