"""Internal memory of Keras, as its backend tells it."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from netdyno_worker.frameworks.jax.memory import Memory as OverJax
from netdyno_worker.memory import Memory as Base
from netdyno_worker.memory import Reported
from netdyno_worker.protocol import Job


class Memory(Base):
    @classmethod
    def prepare(cls, job: Job) -> None:
        # oneDNN in TensorFlow otherwise keeps a pool that no pass seems to take anything from.
        os.environ["TF_ONEDNN_USE_SYSTEM_ALLOCATOR"] = "1"
        if job.mode == "jax":
            OverJax.prepare(job)

    def run(self, phase: str) -> None:
        with _nothing_kept() if self._records(phase) else contextlib.nullcontext():
            super().run(phase)

    def reported(self, phase: str) -> Reported:
        adapter: Any = self.adapter
        return adapter.trainer.reported_memory(phase, lambda: self.run(phase))  # type: ignore[no-any-return]

    def _records(self, phase: str) -> bool:
        """Eagerly, a forward pass keeps what a backward pass would need."""
        return phase == "forward" and self.job.mode == "torch"


def _nothing_kept() -> Any:
    import torch

    return torch.no_grad()
