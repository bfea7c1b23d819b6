"""Host facts: parsing, and what must never be recorded."""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from netdyno.host import compiler, devices, facts
from netdyno.host.cpu import cpu, memory_bytes, parse_cpu_max, parse_cpuinfo
from netdyno.host.devices import Gpu, parse_nvidia_smi
from netdyno.host.facts import host_facts, host_id


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
    machine_id = Path("/etc/machine-id")
    if machine_id.exists() and machine_id.read_text().strip():
        assert machine_id.read_text().strip()[:12] not in text


MACHINE = "a6b24ae6ba5e4c82a4cd04d8fb1d3c5f"


def test_a_host_has_one_id_that_does_not_tell_the_machine_id(tmp_path: Path) -> None:
    def id_of(text: str) -> str | None:
        (tmp_path / "machine-id").write_text(text)
        return host_id(tmp_path / "machine-id")

    found = id_of(MACHINE + "\n")
    assert found == id_of(MACHINE)
    assert found is not None
    assert re.fullmatch("[0-9a-f]{12}", found)
    assert found not in MACHINE
    others = {id_of(f"{number:032x}") for number in range(1, 100)}
    assert len(others | {found}) == 100


def test_the_id_is_as_systemd_derives_it(tmp_path: Path) -> None:
    """HMAC-SHA256 of the application's id, keyed by the machine's, both as 16 bytes (RFC 2104)."""
    (tmp_path / "machine-id").write_text(MACHINE)
    key = bytes.fromhex(MACHINE).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in key) + facts.APPLICATION_ID).digest()
    outer = hashlib.sha256(bytes(b ^ 0x5C for b in key) + inner).hexdigest()
    assert host_id(tmp_path / "machine-id") == outer[:12]


@pytest.mark.parametrize("text", ["", "\n", "uninitialized\n", "0" * 32, "abc", "\xff"])
def test_a_host_without_a_machine_id_has_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "machine-id").write_text(text, encoding="utf-8")
    assert host_id(tmp_path / "machine-id") is None
    assert host_id(tmp_path / "nothing") is None


@pytest.fixture
def fake_clang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only clang there is, called clang-99."""
    path = tmp_path / "clang-99"
    path.write_text("#!/bin/sh\necho clang version 99.0\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    compiler.clang_compiler.cache_clear()
    yield path
    compiler.clang_compiler.cache_clear()


def test_clang_that_cc_names(fake_clang: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "clang-99")
    assert compiler.clang_compiler() == compiler.Compiler("clang-99", "clang version 99.0")


def test_another_c_compiler_is_no_clang(fake_clang: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc")
    assert compiler.clang_compiler() is None
    compiler.clang_compiler.cache_clear()
    fake_clang.rename(fake_clang.with_name("clang"))
    assert compiler.clang_compiler() == compiler.Compiler("clang", "clang version 99.0")


def test_compiler_that_does_not_run_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler.cxx_compiler.cache_clear()
    monkeypatch.setenv("CXX", str(tmp_path / "nothing"))
    assert compiler.cxx_compiler() is None
    compiler.cxx_compiler.cache_clear()
