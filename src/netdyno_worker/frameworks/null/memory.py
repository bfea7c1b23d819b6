"""The null framework's memory: blocks of known size, to test everything around it."""

from __future__ import annotations

import numpy as np

from netdyno_worker.memory import Memory as Base
from netdyno_worker.memory import Reported

# Allocated and freed in a pass, for each image.
BYTES = {"forward": 2**20, "forward_backward": 2 * 2**20, "train_step": 3 * 2**20}


class Memory(Base):
    def run(self, phase: str) -> None:
        super().run(phase)
        # Of ones: memory that is never written to is not resident.
        block = np.ones(BYTES[phase] * self.job.batch_size, np.uint8)
        del block

    def reported(self, phase: str) -> Reported:
        return Reported(BYTES[phase] * self.job.batch_size, "static plan", "its own constants")
