"""What a process has really loaded: GPU kernel libraries, an OpenMP runtime, an allocator.

A framework tells what it was built with; what was loaded may be another release. GPU libraries are
asked for their versions; an OpenMP runtime and an allocator are known by the names of their files.
"""

from __future__ import annotations

import ctypes
import os
import re
from typing import Any, Callable, Dict, List, Optional, Pattern

MAPS = "/proc/self/maps"

# "libgomp.so.1", and "libgomp-a34b3233.so.1.0.0" as wheels rename what they bring.
OPENMP = re.compile(r"(libgomp|libiomp5|libomp)(?:-[0-9a-f]+)?\.so")
# They take the place of the C library's malloc, preloaded or linked in.
ALLOCATORS = re.compile(r"(libjemalloc|libtcmalloc|libmimalloc|libtbbmalloc)[\w-]*\.so")


def loaded_versions() -> Dict[str, str]:
    """``{"cudnn": "9.19.0", …}`` for those of cuDNN, cuBLAS and NCCL that are loaded (Linux)."""
    found = {}
    for name, (library, version_of) in _LIBRARIES.items():
        path = loaded(library)
        version = _ask(path, version_of) if path else None
        if version:
            found[name] = version
    return found


def openmp_runtimes(process_id: Optional[int] = None) -> Optional[List[str]]:
    """``["libgomp"]``: those that a process, this one by default, has loaded; None off Linux."""
    return _known(OPENMP, process_id)


def allocators(process_id: Optional[int] = None) -> Optional[List[str]]:
    """``["libjemalloc"]``: what stands in for the C library's malloc; None off Linux."""
    return _known(ALLOCATORS, process_id)


def loaded(library: str) -> Optional[str]:
    """Path of the mapped file called ``library`` or ``library.N…``."""
    for path in _mapped(MAPS) or []:
        name = os.path.basename(path)
        if name == library or name.startswith(library + "."):
            return path
    return None


def _known(pattern: Pattern[str], process_id: Optional[int]) -> Optional[List[str]]:
    paths = _mapped(MAPS if process_id is None else "/proc/{}/maps".format(process_id))
    if paths is None:
        return None
    matches = [pattern.match(os.path.basename(path)) for path in paths]
    return sorted({match.group(1) for match in matches if match})


def _mapped(maps: str) -> Optional[List[str]]:
    """Paths of the mapped files, sorted; None where the system does not tell."""
    try:
        with open(maps, encoding="utf-8", errors="replace") as file:
            return sorted({line.split(None, 5)[-1].strip() for line in file if "/" in line})
    except OSError:
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
