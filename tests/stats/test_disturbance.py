"""Which blocks are marked, and for what: on readings made by hand, and on a simulated machine."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from netdyno.stats.block import Block, GpuSample
from netdyno.stats.disturbance import GPU_REASONS, Room, disturbances

BOTH = Room(cores=2, spare=0)


def block(seconds: float = 0.1, **fields: Any) -> Block:
    """Of a trial that keeps both cores busy, alone on the machine."""
    told: dict[str, Any] = {
        "start": 100.0,
        "stretch_seconds": seconds,
        "own_busy_seconds": 2 * seconds,
        "machine_busy_seconds": 2 * seconds,
        "steal_seconds": 0.0,
        "swapped_pages": 0,
        "throttles": 0,
    }
    return Block("forward", "sample", 1, seconds, 0, 0, 0, 0, **{**told, **fields})


def causes(blocks: list[Block], **how: Any) -> list[list[str]]:
    how.setdefault("room", BOTH)
    return [[mark.cause for mark in marks] for marks in disturbances(blocks, **how)]


OTHERS = "other programs used the processor"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"own_busy_seconds": 0.9}, [OTHERS]),
        ({"own_busy_seconds": 0.98}, []),  # 4 % of two cores
        ({"steal_seconds": 0.1}, ["the hypervisor took processor time (steal)"]),
        ({"steal_seconds": 0.02}, []),
        ({"swapped_pages": 500}, ["swapping"]),
        ({"swapped_pages": 3}, []),
        ({"throttles": 1}, ["processor throttled (thermal)"]),
        (
            dict.fromkeys(("machine_busy_seconds", "steal_seconds", "swapped_pages", "throttles")),
            [],
        ),
        ({"stretch_seconds": None}, []),
        ({"own_busy_seconds": None}, []),
    ],
)
def test_one_window(fields: dict[str, Any], expected: list[str]) -> None:
    base: dict[str, Any] = {"machine_busy_seconds": 1.02, "own_busy_seconds": 1.0}
    assert causes([block(0.5, **{**base, **fields})]) == [expected]


def test_how_much_is_told() -> None:
    ((mark,),) = disturbances([block(1.0, own_busy_seconds=1.69)], room=BOTH)
    assert mark.detail == "other programs used 0.31 cores"


def test_a_trial_that_used_more_than_was_counted_is_not_marked() -> None:
    """Ticks lag behind: the machine's busy time may be less than the trial's own."""
    assert causes([block(1.0, machine_busy_seconds=1.7)]) == [[]]


def test_all_blocks_of_a_window_are_marked_and_no_others() -> None:
    blocks = [block(0.1) for _ in range(15)]
    blocks[7] = block(0.1, own_busy_seconds=0.0)
    marked = [bool(found) for found in causes(blocks)]
    assert marked == [False] * 5 + [True] * 5 + [False] * 5


def test_the_rest_joins_the_last_window() -> None:
    blocks = [block(0.1) for _ in range(13)]
    blocks[12] = block(0.1, own_busy_seconds=0.0)
    assert [bool(found) for found in causes(blocks)] == [False] * 5 + [True] * 8


def test_phases_and_kinds_are_judged_apart() -> None:
    """A compiler that ran in the first iteration says nothing of the samples."""
    first = replace(block(1.0, own_busy_seconds=0.0), kind="first")
    other = replace(block(0.5, own_busy_seconds=0.0), phase="train_step")
    assert [bool(found) for found in causes([first, block(0.5), other])] == [True, False, True]


def test_a_window_of_a_few_ticks_is_not_judged() -> None:
    assert causes([block(0.05, own_busy_seconds=0.0)]) == [[]]


@pytest.mark.parametrize(("foreign", "marked"), [(1.9, False), (2.3, True)])
def test_others_on_cores_that_the_trial_leaves_free(foreign: float, marked: bool) -> None:
    """Four of eight cores are spare; half of those may be in use."""
    blocks = [block(10.0, own_busy_seconds=40.0, machine_busy_seconds=40.0 + 10 * foreign)]
    assert bool(causes(blocks, room=Room(cores=8, spare=4))[0]) is marked


def sample(at: float, *reasons: str, others: int | None = 0) -> GpuSample:
    return GpuSample(at, reasons, others)


def test_every_reason_of_a_gpu_that_disturbs() -> None:
    for reason, words in GPU_REASONS.items():
        assert causes([block()], gpu=[sample(100.05, reason)]) == [[words]]


@pytest.mark.parametrize(("mhz", "marked"), [(1965, False), (1900, True), (None, True)])
def test_a_power_cap_that_hardly_lowers_the_clock_disturbs_nothing(
    mhz: float | None, marked: bool
) -> None:
    """An H200 at full load: 1965 MHz of 1980 in every sample."""
    before = GpuSample(99.0, (), 0, 1980)
    capped = GpuSample(100.05, ("sw_power_cap",), 0, mhz)
    told = causes([block()], gpu=[before, capped])
    assert told == [["GPU throttled (power cap)"] if marked else []]


def test_what_does_not_disturb_a_gpu() -> None:
    calm = ("gpu_idle", "applications_clocks_setting", "sync_boost", "display_clock_setting")
    assert causes([block()], gpu=[sample(100.05, *calm, others=None)]) == [[]]


def test_a_hardware_slowdown_is_told_by_its_cause() -> None:
    told = causes([block()], gpu=[sample(100.05, "hw_slowdown", "hw_thermal_slowdown")])
    assert told == [["GPU throttled (thermal, hardware)"]]


def test_a_gpu_sample_marks_what_was_measured_around_it() -> None:
    blocks = [block(0.1, start=100.0 + n / 10) for n in range(30)]
    found = causes(blocks, gpu=[sample(101.5, others=1)])
    marked = [b.start for b, told in zip(blocks, found, strict=True) if told]
    assert marked[0] == pytest.approx(100.9, abs=0.11)
    assert marked[-1] == pytest.approx(102.0, abs=0.11)
    assert found[15] == ["another process on the GPU"]


def test_older_runs_have_no_readings() -> None:
    old = Block("forward", "sample", 1, 1.0, 0, 0, 0, 0)
    assert causes([old, old], gpu=[sample(1.0, "sw_power_cap")]) == [[], []]


def simulated(own: float, others: float, seed: int, windows: int = 2000) -> float:
    """Share of windows that are marked, where each tick charges each core to whoever is on it.

    A core runs the trial for a share ``own`` of the time and others for ``others``, at random.
    """
    rng = random.Random(seed)
    blocks = []
    for _ in range(windows):
        busy = sum(rng.random() < own + others for _ in range(2 * 50))
        blocks.append(block(0.5, own_busy_seconds=own, machine_busy_seconds=busy * 0.01))
    found = disturbances(blocks, room=BOTH)
    return sum(map(bool, found)) / windows


@pytest.mark.parametrize("own", [0.3, 0.5, 0.8, 0.95])
def test_a_calm_machine_is_hardly_ever_marked(own: float) -> None:
    """Others use 0.02 cores of two, as an idle system does."""
    assert simulated(own, 0.01, seed=1) < 0.01


@pytest.mark.parametrize("own", [0.3, 0.5, 0.7])
def test_a_program_that_uses_half_a_core_is_found(own: float) -> None:
    assert simulated(own, 0.25, seed=2) > 0.97
