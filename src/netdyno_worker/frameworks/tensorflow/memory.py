"""TensorFlow: XLA's plan of a compiled program, or a trace of the allocator that serves a graph."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from typing import ClassVar, Set

from netdyno_worker.adapter import Adapter
from netdyno_worker.frameworks.tensorflow import allocator_trace, traced
from netdyno_worker.memory import Memory as Base
from netdyno_worker.memory import Reported
from netdyno_worker.protocol import Job

PLAN = "XLA's buffer assignment: preallocated-temp in its dump (--xla_dump_to)"
TRACE = "TensorFlow's profiler: MemoryAllocation and MemoryDeallocation of {}"
# Of CPUs only: on GPUs kernels ask the same allocator, or XLA's plan, for their workspaces.
IN_KERNELS = "leaves out what kernels allocate as they run"
IN_KERNELS_OR_SMALL = IN_KERNELS + ", and tensors of less than 256 KiB"
ORDER = "operations run in any order that the graph allows: another pass may take a quarter more"
GRADIENTS = "holds the parameters' gradients too, which live only within the step"
# One of the allocations that a program is planned to need, as XLA writes it.
TEMPORARY = re.compile(r"^allocation \d+: size (\d+), preallocated-temp", re.MULTILINE)


class Memory(Base):
    """What is reported must come from elsewhere than what is observed, in mode ``graph``.

    TensorFlow's pool tells of each tensor that it hands out and takes back, but asks the system
    for memory in large blocks that it keeps: nothing can be seen from outside. Without it, all can
    be seen and TensorFlow tells nothing. It is one or the other for the life of a process. So
    another one, which ends before TensorFlow is imported here, is asked first.
    """

    _told: ClassVar[traced.Told] = {}
    _dump: ClassVar[str] = ""

    @classmethod
    def prepare(cls, job: Job) -> None:
        assert job.memory is not None
        if job.memory.totals_only:
            return  # as it is otherwise; without its pool it crashes where there is no more memory
        if job.mode == "xla":
            cls._dump = tempfile.mkdtemp(dir=job.scratch)
            flags = (os.environ.get("XLA_FLAGS", ""), "--xla_dump_to=" + cls._dump)
            os.environ["XLA_FLAGS"] = " ".join(flags).strip()
        else:
            cls._told = traced.in_another_process(job)
        os.environ["TF_ONEDNN_USE_SYSTEM_ALLOCATOR"] = "1"

    def __init__(self, adapter: Adapter, job: Job) -> None:
        super().__init__(adapter, job)
        self._plans: Set[str] = set()

    def begin(self, phase: str) -> None:
        self._plans = self._all_plans()

    def reported(self, phase: str) -> Reported:
        if self.job.mode == "xla":
            return self._planned(phase)
        source = TRACE.format(allocator_trace.allocator(self.job.device))
        told = self._told[phase]
        if isinstance(told, str):
            return Reported(None, "", source, told)
        return Reported(told, "allocator peak", source, self._remark(phase))

    def _planned(self, phase: str) -> Reported:
        new = self._all_plans() - self._plans
        if len(new) != 1:
            remark = "XLA compiled {} programs for this phase, not one".format(len(new))
            return Reported(None, "", PLAN, remark)
        with open(new.pop(), encoding="utf-8") as file:
            return Reported(planned_bytes(file.read()), "static plan", PLAN, self._remark(phase))

    def _all_plans(self) -> Set[str]:
        return set(glob.glob(os.path.join(glob.escape(self._dump), "*-buffer-assignment.txt")))

    def _remark(self, phase: str) -> str:
        xla, remarks = self.job.mode == "xla", []
        if phase == "train_step":
            remarks.append(GRADIENTS)
        if self.job.device == "cpu":
            remarks.append(IN_KERNELS if xla else IN_KERNELS_OR_SMALL)
        if phase != "forward" and not xla:
            remarks.append(ORDER)
        return "; ".join(remarks)


def planned_bytes(buffer_assignment: str) -> int:
    """What a program needs beyond what goes in, what comes out and constants."""
    return sum(int(size) for size in TEMPORARY.findall(buffer_assignment))
