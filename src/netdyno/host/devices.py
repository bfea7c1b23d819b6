"""NVIDIA GPUs, without importing a framework or a CUDA library."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Gpu", "gpus", "has_nvidia_gpu", "parse_nvidia_smi"]

_QUERY = ("name", "driver_version", "memory.total", "compute_cap")
_SMI_SECONDS = 30.0


@dataclass(frozen=True)
class Gpu:
    """One GPU as its driver names it; ``compute_capability`` is ``9.0``, or None if unknown."""

    name: str
    driver: str | None = None
    memory_bytes: int | None = None
    compute_capability: str | None = None


@cache
def has_nvidia_gpu() -> bool:
    """Whether a GPU can be used here: device files where there are some, else what the driver says.

    The files answer in microseconds; ``nvidia-smi`` may take a second, so it is asked last.
    """
    if any(Path("/dev").glob("nvidia[0-9]*")):
        return True
    return bool(gpus())


@cache
def gpus() -> tuple[Gpu, ...]:
    """Every GPU that ``nvidia-smi`` lists, else those that the kernel driver lists."""
    return _from_nvidia_smi() or _from_driver(Path("/proc/driver/nvidia"))


def parse_nvidia_smi(text: str) -> tuple[Gpu, ...]:
    """Lines of ``nvidia-smi --query-gpu=… --format=csv,noheader,nounits``; memory is in MiB."""
    found = []
    for row in csv.reader(io.StringIO(text), skipinitialspace=True):
        if len(row) != len(_QUERY):
            continue
        name, driver, memory, capability = (field.strip() for field in row)
        found.append(
            Gpu(
                name,
                driver or None,
                int(memory) * 2**20 if memory.isdigit() else None,
                capability if capability[:1].isdigit() else None,
            )
        )
    return tuple(found)


def _from_nvidia_smi() -> tuple[Gpu, ...]:
    command = shutil.which("nvidia-smi")
    if command is None:
        return ()
    try:
        done = subprocess.run(
            [command, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SMI_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_nvidia_smi(done.stdout) if done.returncode == 0 else ()


def _from_driver(folder: Path) -> tuple[Gpu, ...]:
    found: list[Gpu] = []
    for path in sorted(folder.glob("gpus/*/information")):
        try:
            lines = path.read_text(errors="replace").splitlines()
        except OSError:
            continue
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
        found.extend(Gpu(model) for model in models)
    return tuple(found)
