"""Which libraries are loaded, and what their version numbers mean."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netdyno_worker import libraries


class Function:
    """Stands for a ctypes function: it writes ``value`` where it is told, or returns it."""

    def __init__(self, *values: int) -> None:
        self.values = list(values)

    def __call__(self, *arguments: Any) -> int:
        if arguments:
            pointer = ctypes.cast(arguments[-1], ctypes.POINTER(ctypes.c_int))
            pointer[0] = self.values.pop(0)
            return 0
        return self.values[0]


@pytest.mark.parametrize(("number", "version"), [(91900, "9.19.0"), (8907, "8.9.7")])
def test_cudnn(number: int, version: str) -> None:
    assert libraries._cudnn(SimpleNamespace(cudnnGetVersion=Function(number))) == version


@pytest.mark.parametrize(("number", "version"), [(22809, "2.28.9"), (2804, "2.8.4")])
def test_nccl(number: int, version: str) -> None:
    assert libraries._nccl(SimpleNamespace(ncclGetVersion=Function(number))) == version


def test_cublas() -> None:
    library = SimpleNamespace(cublasGetProperty=Function(13, 1, 0))
    assert libraries._cublas(library) == "13.1.0"


def test_only_what_is_mapped_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = tmp_path / "maps"
    maps.write_text(
        "7f00-7f01 r-xp 00000000 fe:00 12 /opt/lib/libcudnn_ops.so.9\n"
        "7f00-7f01 r-xp 00000000 fe:00 12 /opt/lib/libcudnn.so.9\n"
        "7f00-7f01 r-xp 00000000 00:00 0\n"
    )
    monkeypatch.setattr(libraries, "MAPS", str(maps))
    assert libraries.loaded("libcudnn.so") == "/opt/lib/libcudnn.so.9"
    assert libraries.loaded("libnccl.so") is None


def test_a_process_without_them_has_none() -> None:
    assert libraries.loaded_versions() == {}


@pytest.mark.parametrize(
    ("files", "runtimes"),
    [
        (["/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0"], ["libgomp"]),
        (["/env/torch/lib/libgomp-a34b3233.so.1"], ["libgomp"]),
        (["/env/mkl/libiomp5.so", "/env/x/libgomp.so.1"], ["libgomp", "libiomp5"]),
        (["/usr/lib/llvm-14/lib/libomp.so.5"], ["libomp"]),
        (["/usr/lib/libompi.so", "/usr/lib/libgomp-plugin-nvptx.so.1", "/lib/libc.so.6"], []),
    ],
)
def test_openmp_runtimes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], runtimes: list[str]
) -> None:
    monkeypatch.setattr(libraries, "MAPS", mapped(tmp_path, files))
    assert libraries.openmp_runtimes() == runtimes


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["/usr/lib/libjemalloc.so.2"], ["libjemalloc"]),
        (["/opt/lib/libtcmalloc_minimal.so.4.5.9"], ["libtcmalloc"]),
        (["/opt/lib/libmimalloc.so.2.1"], ["libmimalloc"]),
        (["/opt/lib/libtbbmalloc_proxy.so.2"], ["libtbbmalloc"]),
        (["/lib/libc.so.6", "/opt/notlibjemalloc.so"], []),
    ],
)
def test_allocators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], found: list[str]
) -> None:
    monkeypatch.setattr(libraries, "MAPS", mapped(tmp_path, files))
    assert libraries.allocators() == found


def test_another_process_is_asked_where_it_does_the_work() -> None:
    """This one, by its number: both ways give one answer, and there is no process 0."""
    assert libraries.openmp_runtimes(os.getpid()) == libraries.openmp_runtimes()
    assert libraries.openmp_runtimes(0) is None


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(libraries, "MAPS", str(tmp_path / "nothing"))
    assert libraries.openmp_runtimes() is None
    assert libraries.allocators() is None
    assert libraries.loaded_versions() == {}


def mapped(folder: Path, files: list[str]) -> str:
    """What stands in ``/proc/PID/maps`` for these."""
    path = folder / "maps"
    lines = [f"7f00-7f01 r-xp 00000000 fe:00 12 {file}\n" for file in files]
    path.write_text("7f00-7f01 rw-p 00000000 00:00 0\n" + "".join(lines) * 2)
    return str(path)
