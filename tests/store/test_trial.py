"""A trial's disturbed samples, as they are read from its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netdyno.plan.cell import Cell
from netdyno.stats.disturbance import Room
from netdyno.store.run import Trial, read_run

OLD: dict[str, Any] = {
    "event": "block",
    "phase": "forward",
    "index": 0,
    "kind": "sample",
    "iterations": 1,
    "seconds": 0.5,
    "user_seconds": 1.0,
    "system_seconds": 0.0,
    "minor_faults": 0,
    "major_faults": 0,
}
CALM = {
    **OLD,
    "start": 50.0,
    "stretch_seconds": 0.5,
    "own_busy_seconds": 1.0,
    "machine_busy_seconds": 1.01,
    "steal_seconds": 0.0,
    "swapped_pages": 0,
    "throttles": None,
}
MACHINE = {"event": "machine", "phase": "forward", "cores": 2, "physical_cores": 2, "mhz": 2600.5}
GPU = {
    "event": "gpu",
    "at": 50.1,
    "sm_mhz": 1200,
    "reasons": ["sw_power_cap"],
    "power_watts": 700.5,
    "temperature_celsius": 70,
    "memory_used_bytes": 10,
    "other_processes": 0,
}
BUSY = {**CALM, "own_busy_seconds": 0.5, "swapped_pages": 1000}
POWER_CAP = "GPU throttled (power cap)"
OTHERS = "other programs used the processor"


@pytest.fixture
def read(write_run: Callable[..., Path], make_cell: Callable[..., Cell]) -> Callable[..., Trial]:
    """``read(event, …, device="cuda:0")``: the trial with those events, in a run of one cell."""

    def write(*events: Any, host: Any = None, **axes: Any) -> Trial:
        cell = make_cell(**{"threads": 2, **axes}).to_json()
        head = {"event": "trial", "schema": 1, "cell": cell["key"], "round": 1, "started": ""}
        fields = {} if host is None else {"host": host}
        (trial,) = read_run(write_run([cell], {"0001": [head, *events]}, **fields)).trials
        return trial

    return write


def test_disturbed_samples_are_left_out_and_counted(read: Callable[..., Trial]) -> None:
    trial = read(CALM, BUSY, CALM, {**BUSY, "phase": "train_step"}, MACHINE)
    assert [block.own_busy_seconds for block in trial.of("forward")] == [1.0, 0.5, 1.0]
    assert [block.own_busy_seconds for block in trial.undisturbed("forward")] == [1.0, 1.0]
    assert trial.disturbed("forward") == {OTHERS: 1, "swapping": 1}
    assert trial.undisturbed("train_step") == []
    assert trial.undisturbed("nothing") == []
    assert trial.disturbed("nothing") == {}
    assert trial.mhz == {"forward": 2600.5}


def test_only_samples_count(read: Callable[..., Trial]) -> None:
    trial = read({**BUSY, "kind": "first"}, {**BUSY, "kind": "warmup"}, CALM)
    assert trial.disturbed("forward") == {}
    assert len(trial.undisturbed("forward")) == 1


def test_a_run_from_before_there_were_readings(read: Callable[..., Trial]) -> None:
    trial = read(OLD, OLD)
    assert trial.undisturbed("forward") == trial.of("forward")
    assert len(trial.of("forward")) == 2
    assert trial.disturbed("forward") == {}


@pytest.mark.parametrize("odd", ["1", [1], {}, True, None])
def test_odd_values_are_none(read: Callable[..., Trial], odd: Any) -> None:
    names = set(CALM) - set(OLD)
    trial = read(
        {**CALM, **dict.fromkeys(names, odd)},
        {**MACHINE, "cores": odd, "physical_cores": odd, "mhz": odd},
        {"event": "gpu", "at": odd},
        {**GPU, "reasons": odd, "other_processes": odd, "sm_mhz": odd},
    )
    assert trial.undisturbed("forward") == trial.of("forward") != []
    assert trial.mhz == {}
    assert [sample.sm_mhz for sample in trial.gpu_samples] == [None]
    assert trial.disturbed("forward") == {}


@pytest.mark.parametrize("host", [{}, [], None, {"cpu": None}, {"cpu": 3}])
def test_a_host_that_tells_nothing(read: Callable[..., Trial], host: Any) -> None:
    assert read(BUSY, host=host if host is not None else {}).disturbed("forward")


@pytest.mark.parametrize(
    ("axes", "machine", "expected"),
    [
        ({"threads": 2}, MACHINE, Room(2, 0)),
        ({"threads": 1}, MACHINE, Room(2, 1)),
        ({"threads": 4}, MACHINE, Room(2, 0)),
        # Of eight hardware threads on four cores, two cores are free.
        ({"threads": 2}, {**MACHINE, "cores": 8, "physical_cores": 4}, Room(8, 2)),
        ({"threads": 2}, {**MACHINE, "cores": 8, "physical_cores": None}, Room(8, 6)),
        ({"threads": 64, "device": "cuda:0"}, {**MACHINE, "cores": 64}, Room(64, 0)),
        ({"threads": 1}, {"event": "nothing"}, Room(16, 7)),  # what run.json says
    ],
)
def test_the_room_beside_a_trial(
    read: Callable[..., Trial], axes: dict[str, Any], machine: Any, expected: Room
) -> None:
    host = {"cpu": {"usable_cores": 16, "physical_cores": 8}}
    assert read(machine, host=host, **axes).room == expected


def test_gpu_samples(read: Callable[..., Trial]) -> None:
    trial = read(CALM, GPU, {**GPU, "at": 40.0, "sm_mhz": 1980}, device="cuda:0")
    sample, _ = trial.gpu_samples
    assert (sample.at, sample.sm_mhz, sample.power_watts) == (50.1, 1200, 700.5)
    assert (sample.temperature_celsius, sample.memory_used_bytes) == (70, 10)
    assert sample.other_processes == 0
    assert trial.disturbed("forward") == {POWER_CAP: 1}
    assert trial.undisturbed("forward") == []
