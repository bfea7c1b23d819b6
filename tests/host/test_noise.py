"""A look at the machine before a run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from netdyno.host import noise
from netdyno.host.noise import look


@pytest.fixture
def spinning() -> Iterator[subprocess.Popen[bytes]]:
    """A program that keeps a core busy, and has said that it does."""
    code = "print(flush=True)\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing is to be said, whatever this one is."""
    monkeypatch.setattr(noise, "_busy", lambda seconds: (0.01, []))
    monkeypatch.setattr(noise, "_swap_percent", lambda: 0.0)
    monkeypatch.setattr(noise, "_on_battery", lambda: None)
    monkeypatch.setattr(noise, "cpu", lambda: SimpleNamespace(governor="performance"))
    monkeypatch.setattr(noise, "other_processes", lambda device: 0)


def test_what_is_kept_is_json_and_names_no_program(
    spinning: subprocess.Popen[bytes],
) -> None:
    seen = look(seconds=0.3)
    assert seen.conditions["busy_cores"] > 0
    assert 1 <= seen.conditions["cores"] <= (psutil.cpu_count() or 1)
    assert len(seen.conditions["load"]) == 3
    text = json.dumps(seen.conditions, allow_nan=False)
    assert psutil.Process(spinning.pid).name() not in text


def test_the_busy_programs_are_named(
    spinning: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # However busy this machine is with other things.
    monkeypatch.setattr(noise, "NAMED", 10_000)
    monkeypatch.setattr(noise, "NAMED_CORES", 1e-3)
    _, programs = noise._busy(0.3)
    shares = dict(programs)
    assert shares[psutil.Process(spinning.pid).name()] > 0
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert min(shares.values()) >= 1e-3


def test_few_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([{}, {(pid, f"p{pid}"): 1.0 for pid in range(9)}])
    monkeypatch.setattr(noise, "_by_process", lambda: next(used))
    assert noise._busy(0.01)[1] == []  # they began meanwhile: nobody knows since when
    used = iter([{(1, "a"): 0.0, (2, "a"): 0.0, (3, "b"): 5.0}, {(1, "a"): 1.0, (2, "a"): 1.0}])
    ((name, cores),) = noise._busy(0.01)[1]
    assert name == "a"
    assert cores > 1


@pytest.mark.usefixtures("calm")
def test_nothing_is_said_of_a_calm_machine() -> None:
    assert look(["cpu", "cuda:0"]).warnings == ()


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("_busy", (0.5, [("chrome", 0.4)]), ["busy with other things", "chrome 0.4 cores"]),
        ("_busy", (0.5, []), ["busy with other things: end them"]),
        ("cpu", SimpleNamespace(governor="powersave"), ["cpupower frequency-set -g performance"]),
        ("_on_battery", True, ["battery", "plug it in"]),
        ("other_processes", 2, ["cuda:1", "2 of them", "nvidia-smi"]),
    ],
)
def test_what_is_said(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any, words: list[str]
) -> None:
    monkeypatch.setattr(noise, name, lambda *_: value)
    (said,) = look(["cuda:1", "cuda:1"]).warnings
    for word in words:
        assert word in said


@pytest.mark.usefixtures("calm")
def test_the_share_is_of_the_usable_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_usable_cores", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(noise, "_busy", lambda seconds: (1.0, []))
    assert "the machine is 25% busy" in look().warnings[0]


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize(("memory", "said"), [(95.0, 1), (40.0, 0)])
def test_swap_matters_when_memory_is_short(
    monkeypatch: pytest.MonkeyPatch, memory: float, said: int
) -> None:
    monkeypatch.setattr(noise, "_swap_percent", lambda: 80.0)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(percent=memory))
    assert len(look().warnings) == said


def test_a_system_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NotImplementedError

    monkeypatch.delattr(psutil, "sensors_battery", raising=False)
    monkeypatch.setattr(psutil, "cpu_freq", refuse)
    monkeypatch.setattr(psutil, "swap_memory", refuse)
    conditions = look(seconds=0.01).conditions
    assert conditions["on_battery"] is conditions["mhz"] is conditions["swap_percent"] is None
