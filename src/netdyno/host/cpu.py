"""The processor and the memory, as this process may use them."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["Cpu", "available_bytes", "cpu", "memory_bytes", "parse_cpu_max", "parse_cpuinfo"]

_CGROUP = Path("/sys/fs/cgroup")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
# What kernel libraries choose their code by; other flags do not change a measurement.
_SIMD = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve")


@dataclass(frozen=True)
class Cpu:
    """``usable_cores`` are logical ones of the affinity mask; ``quota_cores`` is a cgroup's cap."""

    model: str
    logical_cores: int
    physical_cores: int | None
    usable_cores: int
    quota_cores: float | None
    simd: tuple[str, ...]
    governor: str | None


def cpu() -> Cpu:
    """The processor of this host."""
    model, flags = parse_cpuinfo(_read(Path("/proc/cpuinfo")))
    logical = os.cpu_count() or 1
    has_affinity = hasattr(os, "sched_getaffinity")
    return Cpu(
        model=model or platform.processor() or platform.machine(),
        logical_cores=logical,
        physical_cores=psutil.cpu_count(logical=False),
        usable_cores=len(os.sched_getaffinity(0)) if has_affinity else logical,
        quota_cores=parse_cpu_max(_read(_CGROUP / "cpu.max")),
        simd=tuple(flag for flag in _SIMD if flag in flags),
        governor=_read(_GOVERNOR).strip() or None,
    )


def memory_bytes() -> int:
    """Memory that this process may use: the machine's, or a cgroup's limit if that is lower."""
    total = int(psutil.virtual_memory().total)
    limit = _read(_CGROUP / "memory.max").strip()
    return min(total, int(limit)) if limit.isdigit() else total


def available_bytes() -> int:
    """Memory that could be taken now without anybody being swapped out."""
    free = int(psutil.virtual_memory().available)
    limit, used = (_read(_CGROUP / name).strip() for name in ("memory.max", "memory.current"))
    if limit.isdigit() and used.isdigit():
        free = min(free, max(0, int(limit) - int(used)))
    return free


def parse_cpuinfo(text: str) -> tuple[str, frozenset[str]]:
    """Model name and flags of the first processor in ``/proc/cpuinfo``."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip().lower(), value.strip())
    model = fields.get("model name") or fields.get("cpu model") or fields.get("hardware") or ""
    flags = fields.get("flags") or fields.get("features") or ""
    return model, frozenset(flags.split())


def parse_cpu_max(text: str) -> float | None:
    """Cores that a cgroup (v2, ``cpu.max``: quota and period in microseconds) grants, or None."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None
    return int(words[0]) / int(words[1])


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
