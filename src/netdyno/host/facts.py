"""The machine as a run records it: never a host name, a user name or a path."""

from __future__ import annotations

import hashlib
import hmac
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from netdyno.host.compiler import cxx_compiler
from netdyno.host.cpu import cpu, memory_bytes
from netdyno.host.devices import gpus

__all__ = ["host_facts", "host_id"]

MACHINE_ID = Path("/etc/machine-id")

# Of netdyno, drawn once. Another one would give every host another id.
APPLICATION_ID = bytes.fromhex("ee0633ddb1654666b132773561bb0327")
ID_DIGITS = 12


def host_id(machine_id: Path = MACHINE_ID) -> str | None:
    """Twelve hexadecimal digits that tell this host from others; None where it has no id.

    Derived from the machine id, which is secret, in a way that cannot be turned back: HMAC-SHA256
    of an application's id keyed by the machine's, as machine-id(5) asks for and
    sd_id128_get_machine_app_specific(3) does. Containers and cloned disks may share one.
    """
    try:
        key = bytes.fromhex(machine_id.read_text(encoding="ascii").strip())
    except (OSError, ValueError):  # "uninitialized" is a value it may have, too
        return None
    if len(key) != 16 or not any(key):
        return None
    return hmac.new(key, APPLICATION_ID, hashlib.sha256).hexdigest()[:ID_DIGITS]


def host_facts() -> dict[str, Any]:
    """Processor, memory, GPUs and system, ready for JSON. May take a second (``nvidia-smi``)."""
    processor = asdict(cpu())
    processor["simd"] = list(processor["simd"])
    compiler = cxx_compiler()
    return {
        "id": host_id(),
        "machine": platform.machine(),
        "cpu": processor,
        "memory_bytes": memory_bytes(),
        "os": _os_name(),
        "kernel": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "compiler": compiler.version if compiler else None,
        "gpus": [asdict(gpu) for gpu in gpus()],
    }


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"
