"""A whole plan of the null framework: what is bad never stops the others."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from netdyno import runner, session
from netdyno.environments import Environment
from netdyno.host.compiler import Compiler
from netdyno.outcome import Outcome
from netdyno.plan import job as plan_job
from netdyno.plan.budget import Budget
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.request import Request
from netdyno.plan.sampling import Sampling
from netdyno.redact import Redactor
from netdyno.report.progress import RunProgress
from netdyno.report.ranking import places
from netdyno.report.summary import summary
from netdyno.runner import Runner
from netdyno.store.run import Run, read_run
from netdyno.store.run_folder import RunFolder
from tests.report.conftest import block


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, quick: Sampling) -> None:
    monkeypatch.setattr(session, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(session, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(plan_job, "SAMPLING", quick)


@pytest.fixture
def make_runner(tmp_path: Path, here: Environment) -> Callable[..., Runner]:
    def make(
        cells: Sequence[Cell], limit: float | None = None, memory: bool = False, **asked: Any
    ) -> Runner:
        request = Request(**asked)
        folder = RunFolder(tmp_path / "run")
        folder.begin(request, cells, {})
        budget = Budget(limit, dict.fromkeys((cell.key for cell in cells), 10.0))
        environments = {cell.framework: here for cell in cells}
        return Runner(request, cells, environments, folder, budget, Redactor({}), memory=memory)

    return make


def progress() -> RunProgress:
    return RunProgress(Console(file=io.StringIO()), 1, 1.0)


def told(run: Run) -> list[tuple[int, str]]:
    return [(trial.round, trial.status) for trial in run.trials]


@pytest.fixture
def short_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what hangs is ended early: on a busy host the others may take their time."""

    def run_trial(cell: Cell, *args: Any, **options: Any) -> Outcome:
        if cell.mode == "hang":
            options["timeout_seconds"] = 1.0
        return session.run_trial(cell, *args, **options)

    monkeypatch.setattr(runner, "run_trial", run_trial)


@pytest.mark.usefixtures("short_hang")
def test_other_cells_are_measured_whatever_one_does(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell]
) -> None:
    expected = {
        "steady": ("ok", ""),
        "raise": ("failed", "told to raise"),
        "crash": ("failed", "SIGSEGV"),
        "oom": ("out_of_memory", "MemoryError"),
        "diverge": ("diverged", "not finite"),
        "hang": ("timed_out", "still running after 1 s"),
        "leak": ("ok", ""),
    }
    cells = [make_cell(mode=mode) for mode in expected]
    made = make_runner(cells, rounds=1, seed=3)
    assert made.run(progress()) == "complete"
    rows = summary(read_run(made.folder.path))
    assert [row.cell["mode"] for row in rows] == list(expected)
    for row, (status, reason) in zip(rows, expected.values(), strict=True):
        assert row.trials == {status: 1}
        assert reason in row.reason
        assert (row.train_step is not None) == (status == "ok")


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Outcome | BaseException]:
    """What trials come to, in place of processes; the last one again and again."""
    given: list[Outcome | BaseException] = [Outcome("ok", "", 3.0)]

    def run_trial(*args: object, **options: object) -> Outcome:
        outcome = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(runner, "run_trial", run_trial)
    return given


@pytest.mark.usefixtures("outcomes")
def test_every_cell_once_a_round(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell]
) -> None:
    cells = [make_cell(mode=mode) for mode in ("steady", "drift", "leak")]
    made = make_runner(cells, rounds=4)
    made.run(progress())
    run = read_run(made.folder.path)
    assert [trial.round for trial in run.trials] == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3
    for cell in cells:
        assert [trial.round for trial in run.trials_of(cell.key)] == [1, 2, 3, 4]


def test_a_failing_cell_is_tried_in_every_round_a_skipped_one_is_not(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    outcomes: list[Outcome | BaseException],
) -> None:
    outcomes[:] = [Outcome("failed", "x"), Outcome("failed", "x"), Outcome("skipped", "no LRN")]
    made = make_runner([make_cell()], rounds=5)
    assert made.run(progress()) == "complete"
    assert told(read_run(made.folder.path)) == [(1, "failed"), (2, "failed"), (3, "skipped")]


@pytest.mark.usefixtures("outcomes")
def test_a_mode_that_needs_a_compiler_is_skipped_without_one(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "cxx_compiler", lambda: None)
    made = make_runner([make_cell(framework="pytorch", mode="compile"), make_cell()], rounds=2)
    made.run(progress())
    compiled, steady = summary(read_run(made.folder.path))
    assert compiled.trials == {"skipped": 1}
    assert "needs a C++ compiler: install one, or set CXX" in compiled.reason
    assert steady.trials == {"ok": 2}


def test_clang_is_needed_on_a_cpu_only(
    make_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = make_cell(framework="tinygrad", mode="jit")
    monkeypatch.setattr(runner, "clang_compiler", lambda: Compiler("clang", "clang 14"))
    assert not runner.lacking(cell)
    monkeypatch.setattr(runner, "clang_compiler", lambda: None)
    assert "needs clang on a CPU: install it, or name one in CC" in runner.lacking(cell)
    assert not runner.lacking(dataclasses.replace(cell, device="cuda:0"))


@pytest.mark.usefixtures("outcomes")
def test_a_skipped_cell_says_nothing_of_how_long_others_take(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "cxx_compiler", lambda: None)
    skipped = make_cell(framework="pytorch", mode="compile")
    measured, other = make_cell(), make_cell(mode="drift")
    made = make_runner([skipped, measured], rounds=1)
    made.budget = Budget(None, {cell.key: 10.0 for cell in (skipped, measured, other)})
    made.run(progress())
    # 3 s where 10 s were estimated, so 3 s here too.
    assert made.budget.expected_seconds(other) == pytest.approx(3.0)


@pytest.mark.usefixtures("outcomes")
def test_a_spent_budget_ends_the_run(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell]
) -> None:
    """Trials that pretend 3 s each: the second round is not expected to fit into 2 s."""
    cells = [make_cell(mode=mode) for mode in ("steady", "drift")]
    made = make_runner(cells, limit=2.0, rounds=3)
    assert made.run(progress()) == "budget"
    assert told(read_run(made.folder.path)) == [(1, "ok"), (1, "ok")]


def test_an_interrupted_trial_is_recorded_before_the_interrupt_goes_on(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    outcomes: list[Outcome | BaseException],
) -> None:
    outcomes[:] = [Outcome("ok", "", 1.0), KeyboardInterrupt()]
    made = make_runner([make_cell()], rounds=3)
    with pytest.raises(KeyboardInterrupt):
        made.run(progress())
    assert told(read_run(made.folder.path)) == [(1, "ok"), (2, "interrupted")]


@pytest.mark.usefixtures("outcomes")
def test_time_left_shrinks_to_the_last_trial(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[float] = []
    monkeypatch.setattr(
        RunProgress,
        "trial_started",
        lambda self, cell, number, trials, seconds: left.append(seconds),
    )
    cells = [make_cell(mode=mode) for mode in ("steady", "drift")]
    make_runner(cells, rounds=2).run(progress())
    # Estimated at 10 s each; once one took 3 s, all are expected to.
    assert left == [40.0, 9.0, 6.0, 3.0]


def test_the_job_is_plain_json(make_cell: Callable[..., Cell], quick: Sampling) -> None:
    cell = make_cell(threads=2)
    data = json.loads(json.dumps(job(cell, seed=5), allow_nan=False))
    assert data["schema"] == 1
    assert data["seed"] == 5
    assert data["threads"] == 2
    assert data["network"]["hash"] == cell.network.hash
    assert data["phases"] == ["forward_backward", "forward", "train_step"]
    assert data["sampling"] == vars(quick)


def test_a_cell_that_is_not_verified_is_not_measured(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell]
) -> None:
    wrong, right = make_cell(), make_cell(batch_size=8)
    made = make_runner([wrong, right], rounds=2)
    made.refused = {wrong.key: "not verified: gradient/c1.weight is 5.0e-01 off"}
    made.run(progress())
    run = read_run(made.folder.path)
    (trial,) = run.trials_of(wrong.key)
    assert (trial.status, trial.blocks) == ("skipped", ())
    assert trial.reason == "not verified: gradient/c1.weight is 5.0e-01 off"
    assert [trial.status for trial in run.trials_of(right.key)] == ["ok", "ok"]


def timed(levels: dict[str, float], noise: float) -> Callable[..., Outcome]:
    """Trials whose forward+backward takes ``levels`` by mode, give or take ``noise``."""
    rng = np.random.default_rng(1)

    def run_trial(cell: Cell, environment: object, job: object, path: Path, **_: Any) -> Outcome:
        if cell.mode not in levels:
            return Outcome("failed", "as told", 1.0)
        seconds = levels[cell.mode] * float(np.exp(rng.normal(0, noise)))
        with path.open("a") as file:
            file.write(json.dumps(block("forward_backward", seconds * 1e3)) + "\n")
        return Outcome("ok", "", 1.0)

    return run_trial


def test_a_run_ends_when_its_target_is_reached(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "run_trial", timed({"steady": 1.0, "drift": 1.5}, 0.04))
    cells = [make_cell(mode=mode) for mode in ("steady", "drift")]
    made = make_runner(cells, target=0.02)
    assert made.run(progress()) == "target"
    run = read_run(made.folder.path)
    rounds = max(trial.round for trial in run.trials)
    assert 6 < rounds < 50
    (slower,) = [p.ratio for p in places(run).values() if p.ratio]
    assert slower.half_width is not None
    assert slower.half_width <= 0.02


def test_a_target_out_of_reach_ends_with_the_rounds_or_the_budget(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "run_trial", timed({"steady": 1.0, "drift": 1.5}, 0.5))
    cells = [make_cell(mode=mode) for mode in ("steady", "drift")]
    made = make_runner(cells, target=0.001, rounds=8)
    assert made.run(progress()) == "complete"
    assert len(read_run(made.folder.path).trials) == 16


def test_a_cell_that_never_goes_well_is_left_alone_where_a_target_would_go_on(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "run_trial", timed({"steady": 1.0}, 0.0))
    cells = [make_cell(mode=mode) for mode in ("steady", "raise")]
    made = make_runner(cells, target=0.02)
    assert made.run(progress()) == "target"
    run = read_run(made.folder.path)
    assert len(run.trials_of(cells[1].key)) == runner.PATIENCE
    assert len(run.trials_of(cells[0].key)) == 6


def test_time_left_is_no_more_than_the_budget_allows(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "run_trial", timed({"steady": 1.0}, 0.0))
    told: list[tuple[int, float]] = []
    monkeypatch.setattr(
        RunProgress,
        "trial_started",
        lambda self, cell, number, trials, seconds: told.append((trials, seconds)),
    )
    made = make_runner([make_cell()], 25.0, rounds=100)
    made.run(progress())
    assert told[0][1] <= 25.0
    assert told[0][0] == 2  # of 10 s each, by the estimate


def test_the_first_trial_on_a_gpu_is_asked_for_its_memory(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell], tmp_path: Path
) -> None:
    cells = [make_cell(), make_cell(device="cuda:0")]
    assert make_runner(cells, memory=True, rounds=2).run(progress()) == "complete"
    run = read_run(tmp_path / "run")
    assert [(trial.cell, trial.round) for trial in run.memory_trials] == [(cells[1].key, 1)]
    of_processor, of_gpu = summary(run)
    assert of_processor.internal_bytes is None
    assert of_gpu.internal_bytes
    assert of_gpu.total_bytes is None
    assert of_gpu.trials == {"ok": 2}
