"""Trials that are prepared ahead of their turn: nothing of it reaches what is timed."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from netdyno import session, turns
from netdyno.environments import Environment
from netdyno.host.cpu import Cpu
from netdyno.outcome import Outcome
from netdyno.plan import job as plan_job
from netdyno.plan.best import Choice
from netdyno.plan.budget import Budget
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.request import Request
from netdyno.plan.rounds import round_order
from netdyno.plan.sampling import Sampling
from netdyno.redact import Redactor
from netdyno.report.progress import RunProgress
from netdyno.runner import Runner
from netdyno.session import Task, Worker
from netdyno.store.run import read_run
from netdyno.store.run_folder import RunFolder
from netdyno.turns import Turns

Events = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, quick: Sampling, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(session, "SOON_SECONDS", 0.02)
    monkeypatch.setattr(session, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(plan_job, "SAMPLING", quick)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))


@pytest.fixture(autouse=True)
def nothing_left(impatient: None, tmp_path: Path) -> Iterator[None]:
    """No process and no scratch folder outlives a test, whatever it did."""
    yield
    assert psutil.Process(os.getpid()).children() == []
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """Every worker with turns, as it was started."""
    found: list[Worker] = []

    class Noted(Worker):
        def __init__(self, task: Task) -> None:
            super().__init__(task)
            found.append(self)

    monkeypatch.setattr(turns, "Worker", Noted)
    return found


@pytest.fixture
def make_runner(tmp_path: Path, here: Environment) -> Callable[..., Runner]:
    """A runner of null cells that prepares ahead on the processor as well."""

    def make(cells: Sequence[Cell], limit: float | None = None, **asked: Any) -> Runner:
        how = {key: asked.pop(key) for key in ("ahead", "done", "refused") if key in asked}
        request = Request(**asked)
        folder = RunFolder(tmp_path / "run")
        folder.begin(request, cells, {})
        budget = Budget(limit, dict.fromkeys((cell.key for cell in cells), 10.0))
        environments = {cell.framework: here for cell in cells}
        how = {"ahead": lambda cell, following: True, **how}
        runner = Runner(request, cells, environments, folder, budget, Redactor({}), **how)
        runner.turns = Turns(most=1)
        return runner

    return make


def progress() -> RunProgress:
    return RunProgress(Console(file=io.StringIO()), 1, 1.0)


def trials(runner: Runner) -> list[Events]:
    """Of each trial of the run, in their order, its events."""
    files = sorted((runner.folder.path / "trials").iterdir())
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def told(runner: Runner) -> list[tuple[int, str]]:
    return [(trial.round, trial.status) for trial in read_run(runner.folder.path).trials]


def one(events: Events, name: str) -> dict[str, Any]:
    (event,) = (event for event in events if event["event"] == name)
    return event


def blocks(events: Events) -> Events:
    return [event for event in events if event["event"] == "block"]


def in_round(number: int, cells: Sequence[Cell], seed: int = 1) -> list[Cell]:
    return round_order(cells, number, seed)


@pytest.mark.parametrize("mode", ["steady", "slow_import"])
def test_nothing_but_a_first_iteration_is_timed_while_another_worker_prepares(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    started: list[Worker],
    mode: str,
) -> None:
    cells = [make_cell(mode=mode, batch_size=size) for size in (1, 2)]
    runner = make_runner(cells, rounds=2)
    assert runner.run(progress()) == "complete"
    assert told(runner) == [(1, "ok"), (1, "ok"), (2, "ok"), (2, "ok")]
    assert len(started) == 4  # each once, and ahead of its turn but for the first
    found = trials(runner)
    assert [one(events, "trial")["cell"] for events in found] == [
        cell.key for number in (1, 2) for cell in in_round(number, cells)
    ]
    for events, following in pairwise(found):
        ready = one(following, "ready")["at"]
        first, *others = blocks(events)
        assert first["kind"] == "first"
        assert all(block["start"] > ready for block in others)
        # Prepared it is before the other has ended, and its device is its own.
        end = others[-1]["start"] + others[-1]["seconds"]
        assert ready < end < blocks(following)[0]["start"]


def test_the_events_of_a_trial_that_was_prepared_ahead(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell]
) -> None:
    runner = make_runner([make_cell(mode="slow_import")], rounds=2)
    runner.run(progress())
    for events in trials(runner):
        names = [event["event"] for event in events]
        assert names[:6] == ["trial", "started", "ready", "built", "block", "awaiting_quiet"]
        assert names.count("awaiting_quiet") == 1
        assert names[-4:] == ["fingerprint", "loss", "finished", "outcome"]
        assert one(events, "awaiting_quiet")["at"] < blocks(events)[1]["start"]
        assert blocks(events)[1]["kind"] == "warmup"


def test_a_trial_that_was_prepared_takes_no_longer_than_from_its_turn(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell], started: list[Worker]
) -> None:
    cells = [make_cell(mode="slow_import", batch_size=size) for size in (1, 2)]
    runner = make_runner(cells, rounds=1)
    runner.run(progress())
    second = started[1]
    lived = time.monotonic() - second._start
    assert one(trials(runner)[1], "outcome")["seconds"] < lived - 0.5


@pytest.mark.parametrize(
    ("mode", "status", "reason"),
    [
        ("bad_import", "failed", "ImportError: told to fail at import"),
        ("hung_import", "timed_out", "still preparing after 1.5 s (--trial-timeout)"),
    ],
)
def test_a_bad_preparation_costs_its_own_trial_only(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    mode: str,
    status: str,
    reason: str,
) -> None:
    good, bad = make_cell(batch_size=1), make_cell(mode=mode)
    seed = next(s for s in range(99) if in_round(1, [good, bad], s) == [good, bad])
    # The good one too has no more than this, not counted what it waits for the other.
    runner = make_runner([good, bad], rounds=1, seed=seed, trial_timeout_seconds=1.5)
    assert runner.run(progress()) == "complete"
    first, second = read_run(runner.folder.path).trials
    assert (first.status, second.status) == ("ok", status)
    assert second.reason == reason
    events = trials(runner)[1]
    assert [event["event"] for event in events][:2] == ["trial", "started"]
    assert events[-1]["event"] == "outcome"
    assert second.seconds_taken > 0


def test_a_first_trial_that_hangs_in_its_preparation_is_ended_as_any_other(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell]
) -> None:
    runner = make_runner([make_cell(mode="hung_import")], rounds=2, trial_timeout_seconds=0.8)
    runner.run(progress())
    assert told(runner) == [(1, "timed_out"), (2, "timed_out")]


def test_last_words_of_a_worker_that_dies_in_its_preparation(
    worker: Callable[[str], None], make_cell: Callable[..., Cell], here: Environment, tmp_path: Path
) -> None:
    worker(
        """
        import os, sys
        with open(sys.argv[2], "a") as file:
            file.write('{"event":"started"}\\n{"event":"cut')
        print("no such library", flush=True)
        os.abort()
        """
    )
    task = Task(make_cell(), here, job(make_cell(), 1), 5.0, Redactor({}))
    events = tmp_path / "events.jsonl"
    events.write_text('{"event":"trial"}\n')
    with Worker(task) as worker:
        while worker.preparing():
            time.sleep(0.02)
        assert events.read_text() == '{"event":"trial"}\n'
        outcome = worker.measure(events)
    assert outcome.status == "failed"
    assert outcome.reason == "killed by signal 6 (SIGABRT); its last words: no such library"
    assert events.read_text() == '{"event":"trial"}\n{"event":"started"}\n{"event":"cut'


def test_an_interpreter_that_is_not_there_costs_its_own_trial_only(
    make_cell: Callable[..., Cell], tmp_path: Path
) -> None:
    nowhere = Environment("null", tmp_path / "nothing", "existing", "cpu", "ready")
    with Worker(Task(make_cell(), nowhere, job(make_cell(), 1), 5.0, Redactor({}))) as worker:
        assert not worker.preparing()
        outcome = worker.measure(tmp_path / "events.jsonl")
    assert outcome.status == "failed"
    assert "nothing" in outcome.reason


@pytest.fixture
def waiting(make_cell: Callable[..., Cell], here: Environment) -> Iterator[Worker]:
    """A worker that has prepared, and waits for its turn."""
    task = Task(make_cell(), here, {**job(make_cell(), 1), "turns": True}, 30.0, Redactor({}))
    with Worker(task) as worker:
        while worker.preparing():
            time.sleep(0.02)
        yield worker


def test_a_worker_ahead_takes_no_processor_time(
    waiting: Worker,
) -> None:
    process = psutil.Process(waiting._process.pid)
    time.sleep(0.1)
    before = process.cpu_times()
    time.sleep(0.5)
    after = process.cpu_times()
    assert after.user + after.system - before.user - before.system <= 0.01


def test_what_no_trial_wants_is_dismissed(
    waiting: Worker,
) -> None:
    """Its standard input ends: no controller is there any more to end it."""
    assert waiting._process.stdin
    waiting._process.stdin.close()
    assert waiting._process.wait(10) == 0
    assert waiting._ahead
    assert '"failed"' not in waiting._ahead.text()


def test_the_framework_finds_nothing_on_standard_input(
    waiting: Worker,
) -> None:
    assert Path(f"/proc/{waiting._process.pid}/fd/0").readlink() == Path(os.devnull)


def interrupt_at(
    monkeypatch: pytest.MonkeyPatch, name: str, trial: int, then: Callable[[], None]
) -> None:
    """``then`` is called when trial number ``trial`` of the run emits ``name``."""
    begun = 0

    def event(self: RunProgress, event: dict[str, Any]) -> None:
        nonlocal begun
        begun += event["event"] == "started"
        if begun == trial and event["event"] == name:
            then()

    monkeypatch.setattr(RunProgress, "event", event)


@pytest.mark.parametrize("name", ["started", "awaiting_quiet", "finished"])
def test_an_interrupt_leaves_nothing_of_what_was_prepared(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    started: list[Worker],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    def press() -> None:
        raise KeyboardInterrupt

    interrupt_at(monkeypatch, name, 2, press)
    runner = make_runner([make_cell(mode="slow_import")], rounds=4)
    with pytest.raises(KeyboardInterrupt):
        runner.run(progress())
    assert told(runner) == [(1, "ok"), (2, "interrupted")]
    assert [worker._process.returncode is None for worker in started] == [False] * len(started)
    assert len(started) == 3


def test_a_budget_that_is_spent_meanwhile_ends_what_was_prepared(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    started: list[Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = make_runner([make_cell()], limit=100.0, rounds=3)
    # The first trial takes far longer than was thought.
    record = runner.budget.record
    monkeypatch.setattr(runner.budget, "record", lambda cell, seconds: record(cell, 1000.0))
    assert runner.run(progress()) == "budget"
    assert told(runner) == [(1, "ok")]
    assert len(started) == 2  # the second in vain


def test_what_the_budget_will_forbid_is_not_prepared(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    started: list[Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = make_runner([make_cell()], limit=65.0, rounds=3)
    record = runner.budget.record
    record(make_cell(), 60.0)
    monkeypatch.setattr(runner.budget, "record", lambda cell, seconds: record(cell, 60.0))
    runner.run(progress())
    assert started == []  # behind each trial, as long as it was thought to be, none would fit
    assert told(runner)[0] == (1, "ok")


def test_a_wrong_guess_is_ended_and_the_right_trial_is_made(
    make_cell: Callable[..., Cell], here: Environment, tmp_path: Path, started: list[Worker]
) -> None:
    tasks = [
        Task(cell, here, job(cell, 1), 30.0, Redactor({}))
        for cell in (make_cell(batch_size=size) for size in (1, 2, 3))
    ]
    turn = Turns()
    assert turn.run_trial(tasks[0], tmp_path / "0", following=tasks[1:2]).status == "ok"
    assert turn.prepared(tasks[1])
    assert not turn.prepared(tasks[2])
    assert turn.run_trial(tasks[2], tmp_path / "2", following=()).status == "ok"
    assert [worker.task.cell.batch_size for worker in started] == [1, 2, 3]
    assert not (tmp_path / "1").exists()
    turn.end()


def test_a_target_that_is_reached_ends_what_was_prepared(
    make_runner: Callable[..., Runner],
    make_cell: Callable[..., Cell],
    started: list[Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = make_runner([make_cell(batch_size=size) for size in (1, 2)], target=0.5)
    assert runner.target
    monkeypatch.setattr(
        runner.target, "reached", lambda cell: len(read_run(runner.folder.path).trials) >= 2
    )
    assert runner.run(progress()) == "target"
    assert told(runner) == [(1, "ok"), (1, "ok")]
    assert len(started) == 3


def test_what_a_resumed_run_has_is_not_prepared(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell], started: list[Worker]
) -> None:
    cells = [make_cell(batch_size=size) for size in (1, 2, 3)]
    done = [(in_round(1, cells)[1].key, 1), *((cell.key, 2) for cell in in_round(2, cells)[:2])]
    runner = make_runner(cells, rounds=2, done=done)
    assert runner.run(progress()) == "complete"
    left = [in_round(1, cells)[0], in_round(1, cells)[2], in_round(2, cells)[2]]
    assert [worker.task.cell for worker in started] == left
    assert told(runner) == [(1, "ok"), (1, "ok"), (2, "ok")]


def test_what_must_not_be_measured_is_not_prepared(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell], started: list[Worker]
) -> None:
    cells = [make_cell(batch_size=size) for size in (1, 2, 3)]
    refused = in_round(1, cells)[1]
    runner = make_runner(cells, rounds=1, refused={refused.key: "not verified"})
    runner.run(progress())
    assert told(runner) == [(1, "ok"), (1, "skipped"), (1, "ok")]
    assert refused not in [worker.task.cell for worker in started]
    assert len(started) == 2


def test_a_search_prepares_ahead_too(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell], started: list[Worker]
) -> None:
    tried = [make_cell(mode=mode) for mode in ("steady", "drift", "leak")]
    runner = make_runner(tried, rounds=1)
    found = runner.search([Choice(tried[0], tuple(tried))], progress())
    assert tried[0] in found
    assert [worker.task.cell for worker in started] == tried
    for events, following in pairwise(trials(runner)):
        ready = one(following, "ready")["at"]
        assert all(block["start"] > ready for block in blocks(events)[1:])


def test_only_what_is_asked_for_is_prepared(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell], started: list[Worker]
) -> None:
    runner = make_runner([make_cell()], rounds=2, ahead=lambda cell, following: False)
    runner.run(progress())
    assert started == []
    for events in trials(runner):
        assert not {"ready", "awaiting_quiet"} & {event["event"] for event in events}


@pytest.mark.parametrize(
    ("device", "following", "expected"),
    [
        ("cuda:0", "cuda:1", True),
        ("cuda:0", "cuda:0", True),
        ("cpu", "cuda:0", False),
        ("cuda:0", "cpu", False),
        ("cpu", "cpu", False),
    ],
)
def test_where_it_is_worthwhile(
    make_cell: Callable[..., Cell], device: str, following: str, expected: bool
) -> None:
    cells = [make_cell(device=name) for name in (device, following)]
    assert turns.worthwhile(*cells) is expected


def test_without_cores_to_spare_nothing_is_prepared(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell], started: list[Worker]
) -> None:
    runner = make_runner([make_cell(batch_size=size) for size in (1, 2)], rounds=1)
    runner.turns = Turns(most=0)
    assert runner.run(progress()) == "complete"
    assert started == []


def test_tasks_differ_in_all_that_their_workers_are_told(
    make_cell: Callable[..., Cell], here: Environment
) -> None:
    cell = make_cell()
    task = Task(cell, here, job(cell, 1), 30.0, Redactor({}))
    retained = dataclasses.replace(cell, host_allocator="retain")
    for other in (
        dataclasses.replace(task, job=job(cell, 1, check_work=True)),
        dataclasses.replace(task, cell=retained),
    ):
        assert other != task


def test_outcome_is_that_of_a_plain_trial(
    make_cell: Callable[..., Cell], here: Environment, tmp_path: Path
) -> None:
    turn = Turns()
    for mode in ("crash", "raise", "diverge", "oom"):
        cell = make_cell(mode=mode)
        task = Task(cell, here, job(cell, 1), 30.0, Redactor({}))
        plain = session.run_trial(
            cell, here, task.job, tmp_path / "a", timeout_seconds=30.0, redact=Redactor({})
        )
        in_turn = turn.run_trial(task, tmp_path / "b", following=())
        assert in_turn == Outcome(plain.status, plain.reason, in_turn.seconds)


def test_several_are_prepared_at_once_and_then_none_until_they_are_used(
    make_runner: Callable[..., Runner], make_cell: Callable[..., Cell], started: list[Worker]
) -> None:
    cells = [make_cell(mode="slow_import", batch_size=size) for size in range(1, 7)]
    runner = make_runner(cells, rounds=1)
    runner.turns = Turns(most=3)
    seen: list[int] = []
    trial = runner.turns.run_trial

    def run_trial(*args: Any, **how: Any) -> Outcome:
        outcome = trial(*args, **how)
        seen.append(len(started))
        return outcome

    runner.turns.run_trial = run_trial  # type: ignore[method-assign]
    runner.run(progress())
    # The first starts itself and three; the two behind it none; the last of the three the rest.
    assert seen == [4, 4, 4, 6, 6, 6]
    found = trials(runner)
    assert [one(events, "trial")["cell"] for events in found] == [
        cell.key for cell in in_round(1, cells)
    ]
    ready = [one(events, "ready")["at"] for events in found]
    assert max(ready[1:4]) < blocks(found[0])[1]["start"] < min(ready[4:])
    for events in found[3:]:  # nor was anything timed while the last two were prepared
        quiet = blocks(events)[1]["start"]
        assert all(at < quiet for at in ready[4:])


@pytest.mark.parametrize(
    ("usable", "quota", "expected"),
    [(64, None, 4), (16, None, 4), (12, None, 3), (4, None, 1), (3, None, 0), (16, 6.5, 1)],
)
def test_how_many_may_prepare_at_once(
    monkeypatch: pytest.MonkeyPatch, usable: int, quota: float | None, expected: int
) -> None:
    host = Cpu("x", 64, 32, usable, quota, (), None)
    monkeypatch.setattr(turns, "cpu", lambda: host)
    assert turns.preparations() == expected
