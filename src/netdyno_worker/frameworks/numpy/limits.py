"""NumPy's products, which are its BLAS's, and copies, on as many threads as the job says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.numpy.adapter import DTYPES
from netdyno_worker.limits import Limits as Base
from netdyno_worker.limits import Step


class Limits(Base):
    def product(self, precision: str, rows: int) -> Step:
        if precision not in DTYPES:
            raise UnsupportedError("no BLAS of NumPy's has {} products".format(precision))
        random = np.random.RandomState(self.job.seed % 2**32)
        left, right = (random.randn(rows, rows).astype(DTYPES[precision]) for _ in range(2))
        result = np.empty_like(left)

        def step() -> None:
            np.matmul(left, right, out=result)

        return step

    def copy(self, size: int) -> Step:
        source, target = np.ones(size // 4, np.float32), np.zeros(size // 4, np.float32)
        # NumPy copies on one thread, and lets others run meanwhile.
        parts = list(
            zip(np.array_split(target, self.job.threads), np.array_split(source, self.job.threads))
        )
        pool = ThreadPoolExecutor(self.job.threads)

        def step() -> None:
            for done in [pool.submit(np.copyto, *part) for part in parts]:
                done.result()

        return step

    def smallest(self) -> Step:
        number = np.zeros(1, np.float32)

        def step() -> None:
            np.add(number, 1, out=number)

        return step
