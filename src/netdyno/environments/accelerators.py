"""Which build of a framework suits this host."""

from __future__ import annotations

from netdyno.environments.recipe import Accelerator
from netdyno.frameworks import FrameworkSpec
from netdyno.host.devices import gpus, has_nvidia_gpu

__all__ = ["suitable_accelerator"]


def suitable_accelerator(spec: FrameworkSpec) -> tuple[Accelerator, str]:
    """The build to install unless another is asked for, and a remark if it may surprise."""
    if "cuda" not in spec.requirements or not has_nvidia_gpu():
        return "cpu", ""
    newest = spec.cuda_newest_capability
    oldest_here = min(
        (float(gpu.compute_capability) for gpu in gpus() if gpu.compute_capability), default=0.0
    )
    if newest is not None and oldest_here > newest:
        remark = (
            f"its CUDA build has no code for this GPU (compute capability {oldest_here}, newest"
            f" supported {newest}), so the CPU build is chosen"
        )
        return "cpu", remark
    return "cuda", ""
