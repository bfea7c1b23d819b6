"""What tells of the memory of a person's own model, where its framework does not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netdyno_worker import allocations, own_memory
from netdyno_worker.growth import Growth
from netdyno_worker.memory import Reported

MEGABYTE = 10**6


def own(told: Reported | None = None, megabytes: int = 40) -> Any:
    """A model whose pass needs ``megabytes``, and keeps as much in its gradient."""
    gradient = np.zeros(megabytes * MEGABYTE, np.uint8)

    def whole_pass(batch: Any) -> None:
        gradient[:] = np.ones(len(gradient), np.uint8)

    return SimpleNamespace(title="Mine", reported=lambda batch: told, whole_pass=whole_pass)


def without_memray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        own_memory.allocations, "Instrument", lambda folder: SimpleNamespace(problem="not here")
    )


def test_what_the_framework_tells_comes_first() -> None:
    told = Reported(5, "static plan", "its own words")
    assert own_memory.internal_memory(own(told), (), "cuda:0") is told


def test_a_gpu_of_which_nothing_is_told() -> None:
    found = own_memory.internal_memory(own(), (), "cuda:0")
    assert found.bytes is None
    assert found.remark == "Mine tells nothing of a GPU's memory"


def test_an_installed_memray() -> None:
    found = own_memory.internal_memory(own(), (), "cpu")
    assert found.bytes == pytest.approx(40 * MEGABYTE, rel=0.01)
    assert found.source.startswith("memray ")


@pytest.mark.parametrize("megabytes", [40, 80])
def test_the_process_without_memray(monkeypatch: pytest.MonkeyPatch, megabytes: int) -> None:
    without_memray(monkeypatch)
    found = own_memory.internal_memory(own(megabytes=megabytes), (), "cpu")
    assert found.kind == "process peak"
    assert found.bytes == pytest.approx(megabytes * MEGABYTE, abs=2 * MEGABYTE)


def test_a_process_that_tells_wrong_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    without_memray(monkeypatch)
    real = Growth.watch

    def half(self: Growth, work: Callable[[], None]) -> Any:
        seen = real(self, work)
        return seen._replace(peak_bytes=seen.peak_bytes // 2)

    monkeypatch.setattr(Growth, "watch", half)
    found = own_memory.internal_memory(own(), (), "cpu")
    assert found.bytes is None
    assert "install memray" in found.remark


def test_memray_in_use_already_is_a_problem_and_no_error() -> None:
    problems = []
    instrument = allocations.Instrument(allocations.INSTALLED)
    instrument.watch(lambda: problems.append(allocations.Instrument(allocations.INSTALLED).problem))
    assert problems[0].startswith("memray cannot be used: ")
