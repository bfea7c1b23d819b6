"""Versions of the GPU kernel libraries that this process has really loaded, asked of themselves.

A framework tells what it was built with; what was loaded may be another release.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Dict, Optional

MAPS = "/proc/self/maps"


def loaded_versions() -> Dict[str, str]:
    """``{"cudnn": "9.19.0", …}`` for those of cuDNN, cuBLAS and NCCL that are loaded (Linux)."""
    found = {}
    for name, (library, version_of) in _LIBRARIES.items():
        path = _loaded(library)
        version = _ask(path, version_of) if path else None
        if version:
            found[name] = version
    return found


def _loaded(library: str) -> Optional[str]:
    """Path of the mapped file called ``library`` or ``library.N…``."""
    try:
        with open(MAPS, encoding="utf-8", errors="replace") as file:
            paths = {line.split(None, 5)[-1].strip() for line in file if "/" in line}
    except OSError:
        return None
    for path in sorted(paths):
        name = os.path.basename(path)
        if name == library or name.startswith(library + "."):
            return path
    return None


def _ask(path: str, version_of: Callable[[Any], str]) -> Optional[str]:
    try:
        return version_of(ctypes.CDLL(path))  # loaded already: this opens the same one
    except (OSError, AttributeError):
        return None


def _cudnn(library: Any) -> str:
    library.cudnnGetVersion.restype = ctypes.c_size_t
    number = library.cudnnGetVersion()
    # 9.19.0 is 91900; before version 9 a release had four digits, 8.9.7 is 8907.
    thousands = 10000 if number >= 90000 else 1000
    return _dotted(number // thousands, number % thousands // 100, number % 100)


def _cublas(library: Any) -> str:
    parts = []
    for which in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
        value = ctypes.c_int()
        library.cublasGetProperty(which, ctypes.byref(value))
        parts.append(value.value)
    return _dotted(*parts)


def _nccl(library: Any) -> str:
    value = ctypes.c_int()
    library.ncclGetVersion(ctypes.byref(value))
    # 2.28.9 is 22809; before 2.9 a release had four digits, 2.8.4 is 2804.
    thousands = 10000 if value.value >= 10000 else 1000
    return _dotted(value.value // thousands, value.value % thousands // 100, value.value % 100)


def _dotted(*parts: int) -> str:
    return ".".join(str(part) for part in parts)


_LIBRARIES = {
    "cudnn": ("libcudnn.so", _cudnn),
    "cublas": ("libcublas.so", _cublas),
    "nccl": ("libnccl.so", _nccl),
}
