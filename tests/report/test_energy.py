"""Joules an image, from blocks that are made by hand."""

from __future__ import annotations

import dataclasses

import pytest

from netdyno.report.energy import energy
from netdyno.stats.block import Block
from netdyno.stats.quantity import quantity
from netdyno.store.trial import Trial


def trial(joules: float | None, *, blocks: int = 10, stretch: float = 0.5) -> Trial:
    """Blocks of four iterations, a joule counter that moves in the last of them only."""
    made = [
        Block("forward_backward", "sample", 4, 0.4, 0.4, 0.0, 0, 0, index * stretch, stretch)
        for index in range(blocks)
    ]
    counted = [0.0] * (blocks - 1) + [joules]
    full = tuple(
        dataclasses.replace(b, energy_joules=j if joules is not None else None)
        for b, j in zip(made, counted, strict=True)
    )
    return Trial("key", 1, "ok", "", full)


def test_all_samples_together() -> None:
    found = energy([trial(800.0)], batch_size=2)
    assert found
    assert found.value == pytest.approx(800 / (10 * 4 * 2))
    assert found.low is None


def test_an_interval_over_processes() -> None:
    found = energy([trial(800.0), trial(820.0), trial(780.0)], batch_size=2)
    assert found
    assert found.processes == 3
    assert found.low
    assert found.high
    assert found.value == pytest.approx(10.0)
    assert found.low < 10 < found.high


def test_too_short_for_the_counter() -> None:
    assert energy([trial(800.0, blocks=1)], batch_size=2) is None


def test_no_gpu() -> None:
    assert energy([trial(None)], batch_size=2) is None


def test_no_values() -> None:
    assert quantity([]) is None
