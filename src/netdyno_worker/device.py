"""The GPU as the process that computes sees it, asked of the driver that is loaded already.

The host's own list may be in another order, and ``CUDA_VISIBLE_DEVICES`` may have renumbered it.
"""

from __future__ import annotations

import ctypes
from typing import Dict, Optional

from netdyno_worker import libraries

# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of cuda.h.
CAPABILITY = (75, 76)
# The first with TF32 (Ampere).
TF32_CAPABILITY = 8


def cuda_device(device: str) -> Optional[Dict[str, str]]:
    """``name`` and ``compute_capability`` of ``cuda:N``; None for the CPU or if nobody tells."""
    if not device.startswith("cuda"):
        return None
    path = libraries.loaded("libcuda.so")
    if path is None:
        return None
    try:
        return _ask(ctypes.CDLL(path), int(device.partition(":")[2] or 0))
    except (OSError, AttributeError):
        return None


def has_tf32(found: Optional[Dict[str, str]]) -> bool:
    """False only for a GPU that is known to be too old."""
    return found is None or int(found["compute_capability"].split(".")[0]) >= TF32_CAPABILITY


def _ask(driver: ctypes.CDLL, index: int) -> Optional[Dict[str, str]]:
    number, value, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    if driver.cuDeviceGet(ctypes.byref(number), index):
        return None
    if driver.cuDeviceGetName(name, len(name), number):
        return None
    capability = []
    for attribute in CAPABILITY:
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, number):
            return None
        capability.append(str(value.value))
    return {
        "name": name.value.decode("utf-8", "replace"),
        "compute_capability": ".".join(capability),
    }
