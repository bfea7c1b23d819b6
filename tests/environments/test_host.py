"""Host facts: parsing, and what must never be recorded."""

from __future__ import annotations

import getpass
import json
import platform
from pathlib import Path

import pytest

from netdyno.host import compiler, devices
from netdyno.host.cpu import cpu, memory_bytes, parse_cpu_max, parse_cpuinfo
from netdyno.host.devices import Gpu, parse_nvidia_smi
from netdyno.host.facts import host_facts


def test_nvidia_smi() -> None:
    text = "NVIDIA H200, 570.86, 143771, 9.0\nOld, 470.1, [N/A], [N/A]\nNo devices were found\n"
    assert parse_nvidia_smi(text) == (
        Gpu("NVIDIA H200", "570.86", 143771 * 2**20, "9.0"),
        Gpu("Old", "470.1", None, None),
    )


def test_gpus_of_the_kernel_driver(tmp_path: Path) -> None:
    folder = tmp_path / "gpus" / "0000:01:00.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("Model: \t\t NVIDIA A10\nIRQ:   16\n")
    assert devices._from_driver(tmp_path) == (Gpu("NVIDIA A10"),)


@pytest.mark.parametrize("script", ["exit 9", "echo NVIDIA-SMI has failed"])
def test_nvidia_smi_that_fails_is_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert devices._from_nvidia_smi() == ()


def test_cpuinfo() -> None:
    text = "processor : 0\nmodel name\t: Fast CPU\nflags\t\t: fma avx2\n\nmodel name: other\n"
    assert parse_cpuinfo(text) == ("Fast CPU", {"fma", "avx2"})
    assert parse_cpuinfo("") == ("", frozenset())


def test_cgroup_quota() -> None:
    assert parse_cpu_max("150000 100000\n") == 1.5
    assert parse_cpu_max("max 100000\n") is None
    assert parse_cpu_max("") is None


def test_this_host() -> None:
    here = cpu()
    assert here.model
    assert 1 <= here.usable_cores <= here.logical_cores
    assert memory_bytes() > 2**20


def test_facts_are_json_and_anonymous() -> None:
    text = json.dumps(host_facts(), allow_nan=False)
    for secret in (platform.node(), str(Path.home()), f'"{getpass.getuser()}"'):
        assert secret not in text


def test_compiler_that_does_not_run_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler.cxx_compiler.cache_clear()
    monkeypatch.setenv("CXX", str(tmp_path / "nothing"))
    assert compiler.cxx_compiler() is None
    compiler.cxx_compiler.cache_clear()
