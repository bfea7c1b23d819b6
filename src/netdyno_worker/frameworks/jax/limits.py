"""JAX's products and copies, compiled, into buffers that are there: an argument is donated.

So each call waits for the one before it and takes no memory of its own, as steps of training do.
"""

from __future__ import annotations

import os
from typing import Any, Callable

import numpy as np

from netdyno_worker.limits import Limits as Base
from netdyno_worker.limits import Step
from netdyno_worker.protocol import Job


class Limits(Base):
    @classmethod
    def prepare(cls, job: Job) -> None:
        if "fp64" in job.limits:
            os.environ["JAX_ENABLE_X64"] = "1"

    def product(self, precision: str, rows: int) -> Step:
        jax = self.adapter.jax
        dtype = {
            "fp32": np.float32,
            "tf32": np.float32,
            "bf16": jax.numpy.bfloat16,
            "fp16": np.float16,
            "fp64": np.float64,
        }[precision]
        how: Any = {
            "fp32": "highest",
            "tf32": jax.lax.DotAlgorithmPreset.TF32_TF32_F32,
            "fp64": "highest",
        }.get(precision, "default")
        # Random: a GPU draws less power for constants, and runs faster than it ever would.
        keys = jax.random.split(self._put(jax.random.key(self.job.seed % 2**32)))
        left, right = (
            jax.random.normal(key, (rows, rows), np.float32).astype(dtype) for key in keys
        )
        return self._into(
            self._put(np.zeros((rows, rows), dtype)),
            lambda result, left, right: jax.numpy.matmul(left, right, precision=how),
            left,
            right,
        )

    def copy(self, size: int) -> Step:
        source = self._put(np.ones(size // 4, np.float32))
        # The sign is changed on the way: XLA would pass a bare copy on without copying.
        return self._into(
            self._put(np.zeros(size // 4, np.float32)), lambda target, source: -source, source
        )

    def smallest(self) -> Step:
        return self._into(self._put(np.zeros((), np.float32)), lambda number: number + 1)

    def synchronize(self) -> None:
        self.adapter.jax.block_until_ready(self._last)

    def _put(self, value: Any) -> Any:
        return self.adapter.jax.device_put(value, self.adapter.device)

    def _into(self, result: Any, function: Callable[..., Any], *arguments: Any) -> Step:
        """A step that puts ``function(result, *arguments)`` into the buffer of ``result``."""
        compiled = self.adapter.jax.jit(function, donate_argnums=0, keep_unused=True)
        self._last = result

        def step() -> None:
            self._last = compiled(self._last, *arguments)

        return step
