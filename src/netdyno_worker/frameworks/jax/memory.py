"""JAX: XLA's plan of the memory of a compiled program."""

from __future__ import annotations

import os
from typing import Any

from netdyno_worker.memory import Memory as Base
from netdyno_worker.memory import Reported
from netdyno_worker.protocol import Job

SOURCE = "XLA's buffer assignment: memory_analysis().temp_size_in_bytes"
# On GPUs the workspaces of cuDNN's convolutions are in the plan.
KERNELS = (
    "leaves out what kernels allocate as they run, and so what passes between layers that run as"
    " one YNNPACK kernel"
)
GRADIENTS = "holds the parameters' gradients too, which live only within the step"


class Memory(Base):
    """XLA allocates its plan in one block when a program starts, and frees it at its end."""

    @classmethod
    def prepare(cls, job: Job) -> None:
        if job.device != "cpu":
            # Otherwise XLA takes three quarters of the GPU at once: no total could be told, and no
            # batch would fit that needs more.
            os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
            os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".95"
        # Otherwise a program runs on another thread, which says that it is done and only then
        # frees the plan: now and then after the pass, where it would not be counted. JAX reads no
        # environment variable for it, and looks at it once, when it makes its CPU device.
        import jax

        jax.config.update("jax_cpu_enable_async_dispatch", False)

    def reported(self, phase: str) -> Reported:
        return planned(*self.adapter.program(phase), phase, self.job.device)


def planned(function: Any, arguments: Any, phase: str, device: str) -> Reported:
    """What XLA has planned for a jitted ``function`` of ``arguments``, which has been called."""
    # JAX remembers: nothing is compiled again.
    plan = function.lower(*arguments).compile().memory_analysis()
    if plan is None:
        return Reported(None, "", SOURCE, "XLA has no memory analysis for this device")
    remarks = [GRADIENTS] if phase == "train_step" else []
    if device == "cpu":
        remarks.append(KERNELS)
    return Reported(plan.temp_size_in_bytes, "static plan", SOURCE, "; ".join(remarks))
