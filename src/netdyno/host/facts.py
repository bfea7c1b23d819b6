"""The machine as a run records it: never a host name, a user name or a path."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

from netdyno.host.cpu import cpu, memory_bytes
from netdyno.host.devices import gpus

__all__ = ["host_facts"]


def host_facts() -> dict[str, Any]:
    """Processor, memory, GPUs and system, ready for JSON. May take a second (``nvidia-smi``)."""
    processor = asdict(cpu())
    processor["simd"] = list(processor["simd"])
    return {
        "machine": platform.machine(),
        "cpu": processor,
        "memory_bytes": memory_bytes(),
        "os": _os_name(),
        "kernel": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "gpus": [asdict(gpu) for gpu in gpus()],
    }


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"
