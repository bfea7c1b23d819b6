"""PyTorch's products and copies: ``torch.mm`` and ``Tensor.copy_``, into arrays that are there."""

from __future__ import annotations

from netdyno_worker.limits import Limits as Base
from netdyno_worker.limits import Step


class Limits(Base):
    def product(self, precision: str, rows: int) -> Step:
        torch, device = self.adapter.torch, self.adapter.device
        dtype = {
            "fp32": torch.float32,
            "tf32": torch.float32,
            "bf16": torch.bfloat16,
            "fp16": torch.float16,
            "fp64": torch.float64,
        }[precision]
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        # Random: a GPU draws less power for constants, and runs faster than it ever would.
        left, right = (torch.randn(rows, rows, device=device).to(dtype) for _ in range(2))
        result = torch.empty_like(left)
        return lambda: torch.mm(left, right, out=result)

    def copy(self, size: int) -> Step:
        torch = self.adapter.torch
        source = torch.ones(size // 4, device=self.adapter.device)
        target = torch.zeros_like(source)
        return lambda: target.copy_(source)

    def smallest(self) -> Step:
        number = self.adapter.torch.zeros((), device=self.adapter.device)
        return lambda: number.add_(1)
