"""Which GPU libraries are loaded, and what their version numbers mean."""

from __future__ import annotations

import ctypes
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
    assert libraries._loaded("libcudnn.so") == "/opt/lib/libcudnn.so.9"
    assert libraries._loaded("libnccl.so") is None


def test_a_process_without_them_has_none() -> None:
    assert libraries.loaded_versions() == {}
