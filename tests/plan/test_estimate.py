"""Rough guesses, but sane ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest

from netdyno.frameworks import frameworks
from netdyno.networks import build
from netdyno.plan import estimate
from netdyno.plan.cell import Cell
from netdyno.plan.estimate import estimate_cell


@pytest.fixture(autouse=True)
def speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_flop_per_second", lambda: 1e11)


@pytest.fixture
def alexnet(make_cell: Callable[..., Cell]) -> Callable[..., Cell]:
    network = build("alexnet_owt")
    return lambda **axes: make_cell(
        **{"framework": "pytorch", "mode": "eager", **axes},
        network_spec="alexnet_owt",
        network=network,
    )


def test_more_images_never_take_less(alexnet: Callable[..., Cell]) -> None:
    guesses = [estimate_cell(alexnet(batch_size=2**n)) for n in range(10)]
    for less, more in itertools.pairwise(guesses):
        assert less.seconds <= more.seconds
        assert less.memory_bytes < more.memory_bytes
    assert guesses[0].seconds < guesses[-1].seconds


def test_double_precision_takes_more(alexnet: Callable[..., Cell]) -> None:
    single, double = (estimate_cell(alexnet(batch_size=64, precision=p)) for p in ("fp32", "fp64"))
    assert single.seconds < double.seconds
    assert single.memory_bytes < double.memory_bytes


def test_a_gpu_takes_less(alexnet: Callable[..., Cell]) -> None:
    host = estimate_cell(alexnet(batch_size=64))
    assert estimate_cell(alexnet(batch_size=64, device="cuda:0")).seconds < host.seconds


def test_weights_gradients_and_momentum_are_in_the_memory(alexnet: Callable[..., Cell]) -> None:
    assert estimate_cell(alexnet(batch_size=1)).memory_bytes > 3 * 4 * 61_100_840


def test_every_mode_of_every_framework_has_one(alexnet: Callable[..., Cell]) -> None:
    for name, spec in frameworks().items():
        for mode in spec.modes:
            guess = estimate_cell(alexnet(framework=name, mode=mode))
            assert math.isfinite(guess.seconds)
            assert guess.seconds >= spec.startup_seconds


def test_the_speed_of_this_host_is_a_positive_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert 0 < estimate._flop_per_second() < 1e16


def test_a_framework_that_computes_nothing_needs_no_guess_of_speed(
    alexnet: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "_flop_per_second", lambda: 1.0)
    assert estimate_cell(alexnet(framework="null", mode="steady")).seconds < 10
