"""Trials of limits on the null framework, which computes nothing but does say how fast."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from netdyno import limits_runner
from netdyno.device_limits import DeviceLimits, limits_from_json, limits_of_trial
from netdyno.environments import Environment
from netdyno.frameworks import frameworks
from netdyno.limits_runner import LimitsRunner, candidates, targets
from netdyno.networks.roofline import Ceilings
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.redact import Redactor
from netdyno.settings import Settings

MakeCell = Callable[..., Cell]


class Recorder:
    """Where trials go, and how each ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: list[Outcome] = []
        self.cells: list[Cell] = []

    def new(self, cell: Cell) -> Path:
        self.cells.append(cell)
        return self.folder / f"{len(self.cells)}.jsonl"

    def end(self, path: Path, outcome: Outcome) -> None:
        self.ended.append(outcome)

    @property
    def runner(self) -> LimitsRunner:
        return LimitsRunner(self.new, self.end, Redactor({}))


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


def test_figures_come_back_and_raw_blocks_stay_in_the_file(
    recorder: Recorder, here: Environment
) -> None:
    limits = recorder.runner.measure(("cpu", 1, ("fp32", "bf16")), [here])
    assert (limits.device, limits.threads, limits.framework) == ("cpu", 1, "null")
    assert (limits.status, limits.reason) == ("ok", "")
    assert limits.versions == {"null": "1"}
    product = limits.figure("product", "fp32")
    copy = limits.figure("copy")
    assert product
    assert product.value
    assert copy
    assert copy.value
    assert limits.ceilings("fp32") == Ceilings(product.value, copy.value)
    assert limits.ceilings("bf16") is None
    assert limits.problem("bf16") == "it counts in fp32 only"
    assert limits.problem("fp64") == "nothing was measured in fp64"
    assert limits.figure("launch")
    assert limits.figure("launch_back_to_back")
    events = [json.loads(line) for line in (recorder.folder / "1.jsonl").read_text().splitlines()]
    (raw,) = [e for e in events if e.get("precision") == "fp32"]
    assert raw["samples"]
    assert raw["value"] == product.value
    assert product.samples[0] == raw["samples"][0]
    assert [outcome.status for outcome in recorder.ended] == ["ok"]


def test_what_is_written_is_what_is_read(recorder: Recorder, here: Environment) -> None:
    limits = recorder.runner.measure(("cpu", 1, ("fp32", "bf16")), [here])
    (again,) = limits_from_json(json.loads(json.dumps([limits.to_json()])))
    bare = tuple(dataclasses.replace(figure, samples=()) for figure in limits.figures)
    assert again == dataclasses.replace(limits, figures=bare)
    assert "samples" in limits.to_json(samples=True)["figures"][0]


@pytest.mark.parametrize(
    ("foreign_cores", "causes"),
    [(0.0, ()), (0.9, ("other programs used the processor",))],
)
def test_other_programs_leave_a_mark(
    make_cell: MakeCell, foreign_cores: float, causes: tuple[str, ...]
) -> None:
    def sample(size: int, foreign: float) -> dict[str, object]:
        usage = dict.fromkeys(("user_seconds", "system_seconds"), 0.3)
        faults = dict.fromkeys(("minor_faults", "major_faults"), 0)
        meanwhile = {"own_busy_seconds": 0.6, "machine_busy_seconds": 0.6 + 0.3 * foreign}
        told = {"size": size, "kind": "sample", "iterations": 1, "start": 1.0, "seconds": 0.3}
        return {**told, **usage, **faults, **meanwhile, "stretch_seconds": 0.3}

    figure = {"event": "limit", "name": "product", "precision": "fp32", "unit": "FLOP/s"}
    # At the other size it was always disturbed, which does not matter.
    samples = [*2 * [sample(256, 1.0)], *3 * [sample(512, foreign_cores)]]
    events = [
        {**figure, "value": 1e9, "size": 512, "samples": samples, "problem": ""},
        {"event": "machine", "phase": "limits", "cores": 2, "physical_cores": 2, "mhz": 2000},
    ]
    limits = limits_of_trial(make_cell(threads=2), Outcome("ok"), events)
    assert limits.disturbed("fp32") == causes


def test_a_gpu_at_its_power_limit_is_not_disturbed(make_cell: MakeCell) -> None:
    """It reaches what it can sustain; a hot one could do better."""
    reasons = ["sw_power_cap", "hw_thermal_slowdown"]
    sample = {"size": 512, "kind": "sample", "iterations": 1, "start": 1.0, "seconds": 0.3}
    names = ("user_seconds", "system_seconds", "minor_faults", "major_faults")
    events = [
        {
            "event": "limit",
            "name": "product",
            "precision": "bf16",
            "unit": "FLOP/s",
            "value": 1e15,
            "size": 512,
            "problem": "",
            "samples": [{**sample, **dict.fromkeys(names, 0)}],
        },
        {"event": "gpu", "at": 0.1, "sm_mhz": 1980, "reasons": []},
        {"event": "gpu", "at": 1.1, "sm_mhz": 1500, "reasons": reasons},
    ]
    limits = limits_of_trial(make_cell(device="cuda:0"), Outcome("ok"), events)
    assert limits.disturbed("bf16") == ("GPU throttled (thermal, hardware)",)


@pytest.mark.parametrize(
    "odd",
    [None, 3, {}, [3], [{}], [{"figures": 3 * [{}]}], [{"figures": [{"value": "fast"}, 4]}]],
)
def test_odd_content_of_a_shared_folder_gives_no_ceilings(odd: object) -> None:
    assert not any(limits.usable for limits in limits_from_json(odd))


def test_the_next_one_is_asked_where_one_fails(recorder: Recorder, here: Environment) -> None:
    gone = dataclasses.replace(here, python=Path("/nowhere/python"))
    limits = recorder.runner.measure(("cpu", 1, ("fp32",)), [gone, here])
    assert [outcome.status for outcome in recorder.ended] == ["failed", "ok"]
    assert limits.usable


def test_a_failure_is_told(recorder: Recorder, here: Environment) -> None:
    gone = dataclasses.replace(here, python=Path("/nowhere/python"))
    limits = recorder.runner.measure(("cpu", 1, ("fp32",)), [gone])
    assert limits.status == "failed"
    assert "cannot start" in limits.problem("fp32")
    nobody = recorder.runner.measure(("cpu", 1, ("fp32",)), [])
    assert nobody.problem("fp32") == "no framework that can is ready"


def test_one_that_hangs_is_ended(
    recorder: Recorder, here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits_runner, "TIMEOUT_SECONDS", 0.0)
    limits = recorder.runner.measure(("cpu", 1, ("fp32",)), [here])
    assert limits.status == "timed_out"


def test_an_interrupt_leaves_the_trial_ended(
    recorder: Recorder, here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **options: object) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(limits_runner, "run_trial", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recorder.runner.measure(("cpu", 1, ("fp32",)), [here])
    assert [outcome.status for outcome in recorder.ended] == ["interrupted"]


def test_targets_are_devices_with_the_threads_that_count(make_cell: MakeCell) -> None:
    def cell(device: str, threads: int, precision: str = "fp32") -> Cell:
        return make_cell(
            framework="pytorch", mode="eager", device=device, threads=threads, precision=precision
        )

    plan = [
        cell("cpu", 1),
        cell("cpu", 2),
        cell("cpu", 2, "fp64"),
        cell("cuda:0", 1, "tf32"),
        cell("cuda:0", 8, "bf16"),
        make_cell(threads=7),
    ]
    assert targets(plan) == [
        ("cpu", 1, ("fp32",)),
        ("cpu", 2, ("fp32", "fp64")),
        ("cuda:0", 1, ("tf32", "bf16")),
    ]


def test_a_framework_that_computes_nothing_needs_no_limits(make_cell: MakeCell) -> None:
    assert targets([make_cell()]) == []


def test_threads_of_the_host_do_not_matter_to_a_gpu() -> None:
    gpu = DeviceLimits("cuda:0", 1, "pytorch", "ok")
    assert gpu.holds_for("cuda:0", 8)
    assert not gpu.holds_for("cuda:1", 1)
    cpu = DeviceLimits("cpu", 2, "pytorch", "ok")
    assert cpu.holds_for("cpu", 2)
    assert not cpu.holds_for("cpu", 1)


def test_numpy_is_always_there_for_a_cpu_and_never_for_a_gpu(tmp_path: Path) -> None:
    settings = Settings(tmp_path)
    assert [found.framework for found in candidates("cpu", settings)] == ["numpy"]
    assert candidates("cuda:0", settings) == []


def test_the_one_that_is_preferred_comes_first(
    here: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        limits_runner.environments,
        "inspect",
        lambda spec, settings: dataclasses.replace(here, framework=spec.name),
    )
    found = [environment.framework for environment in candidates("cpu", Settings(tmp_path))]
    assert found == ["pytorch", "jax", "numpy"]
    assert [e.framework for e in candidates("cuda:0", Settings(tmp_path))] == ["pytorch", "jax"]


def test_who_is_preferred_can_measure() -> None:
    preferred = {n for n, spec in frameworks().items() if spec.limits_preference is not None}
    assert preferred == {n for n, spec in frameworks().items() if spec.has_limits} - {"null"}
