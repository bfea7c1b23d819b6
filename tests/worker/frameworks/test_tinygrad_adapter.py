"""What the adapter sets before tinygrad is imported, which it is not here."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netdyno_worker.frameworks.tinygrad.adapter import SETTINGS, Adapter
from netdyno_worker.frameworks.tinygrad.memory import Memory
from netdyno_worker.protocol import MemoryRequest

SET = (
    "ALLOW_TF32",
    "CACHEDB",
    "CACHELEVEL",
    "CC",
    "CUDA_CACHE_DISABLE",
    "CUDA_PATH",
    "DEV",
    "NUM_CPU_THREADS",
    "NVRTC_PATH",
    "PARALLEL",
)


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What prepare() sets goes with the test."""
    for name in SET:
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)


def prepared(**fields: Any) -> None:
    told = {"device": "cpu", "precision": "fp32", "scratch": None, "threads": 3, **fields}
    Adapter.prepare(SimpleNamespace(**told))  # type: ignore[arg-type]


def test_caches_lie_in_the_scratch_folder(tmp_path: Path) -> None:
    prepared(scratch=str(tmp_path))
    assert Path(os.environ["CACHEDB"]).parent == tmp_path
    assert "CACHELEVEL" not in os.environ


def test_nothing_is_cached_without_a_scratch_folder() -> None:
    prepared()
    assert os.environ["CACHELEVEL"] == "0"
    assert "CACHEDB" not in os.environ


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16", "fp64"])
def test_tf32_is_allowed_where_it_is_asked_for(precision: str) -> None:
    prepared(device="cuda:1", precision=precision)
    assert os.environ["DEV"] == "CUDA"
    assert os.environ["ALLOW_TF32"] == str(int(precision == "tf32"))


def test_a_limit_of_memory_holds_for_its_buffers() -> None:
    counters = SimpleNamespace(mem_used=0)

    def allocate(size: int, options: None) -> str:
        counters.mem_used += size
        return f"{size} bytes"

    allocator = SimpleNamespace(_alloc=allocate)
    adapter = SimpleNamespace(
        tinygrad=SimpleNamespace(helpers=SimpleNamespace(GlobalCounters=counters)),
        opened=SimpleNamespace(allocator=allocator),
    )
    job = SimpleNamespace(device="cpu", memory=MemoryRequest(limit_bytes=100))
    Memory(adapter, job)  # type: ignore[arg-type]
    assert allocator._alloc(60, None) == "60 bytes"
    with pytest.raises(MemoryError, match="the limit is 100 bytes"):
        allocator._alloc(41, None)
    assert allocator._alloc(40, None) == "40 bytes"


def test_what_it_does_differently_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    made = object.__new__(Adapter)
    pool = SimpleNamespace(kind="Pool", reduction="max")
    network = SimpleNamespace(layers=[SimpleNamespace(kind="ReLU")])
    vars(made).update(job=SimpleNamespace(network=network, precision="fp32"))
    assert made.notes() == []
    network.layers.append(pool)
    made.job.precision = "fp16"
    monkeypatch.setenv("BEAM", "2")
    notes = made.notes()
    assert [note.split()[0] for note in notes] == ["max", "the", "BEAM"]
    assert notes[1:] == ["the loss is scaled by 1024", "BEAM is 2"]


@pytest.mark.parametrize(
    ("given", "used"),
    [(None, "clang"), ("gcc", "clang"), ("/opt/clang/bin/gcc", "clang"), ("clang-18", "clang-18")],
)
def test_the_compiler_is_a_clang(
    given: str | None, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given is not None:
        monkeypatch.setenv("CC", given)
    prepared()
    assert os.environ["CC"] == used
    assert os.environ["DEV"] == "CPU"


def test_a_cuda_toolkit_of_python_packages_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = tmp_path / "nvidia" / "cu13"
    library, header = toolkit / "lib" / "libnvrtc.so.13", toolkit / "include" / "cuda_fp16.h"
    for path in (library, header):
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    prepared()
    assert "NVRTC_PATH" not in os.environ
    prepared(device="cuda:0")
    assert os.environ["NVRTC_PATH"] == str(library)
    assert os.environ["CUDA_PATH"] == str(toolkit)
    monkeypatch.setenv("CUDA_PATH", "/opt/cuda")
    prepared(device="cuda:0")
    assert os.environ["CUDA_PATH"] == "/opt/cuda"
