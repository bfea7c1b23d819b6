"""A worker that is started ahead: what it does before its turn, and behind each gate."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from netdyno.plan.sampling import Sampling as Asked
from netdyno_worker import clock, trial
from netdyno_worker import turns as worker_turns
from netdyno_worker.frameworks.null import adapter as null
from netdyno_worker.protocol import Events, Job
from netdyno_worker.turns import Turns


class Controller:
    """The other end of the worker's standard input, and what became of its events."""

    def __init__(self, folder: Path) -> None:
        reading, self.writing = os.pipe()
        self.lines = os.fdopen(reading, encoding="utf-8")
        self.ahead = folder / "ahead.jsonl"
        self.events = folder / "events.jsonl"
        self.events.write_text('{"event":"trial"}\n')

    def turn(self) -> None:
        os.write(self.writing, json.dumps(str(self.events)).encode() + b"\n")

    def quiet(self) -> None:
        os.write(self.writing, b"\n")

    def end(self) -> None:
        os.close(self.writing)

    def told(self, path: Path) -> list[str]:
        return [json.loads(line)["event"] for line in path.read_text().splitlines()]


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controller]:
    made = Controller(tmp_path)
    monkeypatch.setattr(trial, "_die_with_parent", lambda: None)
    monkeypatch.setattr(Turns, "on_stdin", lambda events: Turns(made.lines, events))
    yield made
    made.lines.close()


@pytest.fixture
def begin(
    controller: Controller, tmp_path: Path, job_data: dict[str, Any], quick: Asked
) -> Iterator[Callable[..., list[int]]]:
    """``begin(mode=…)``: the worker runs in a thread; its exit code will stand in the list."""
    threads: list[threading.Thread] = []

    def call(**fields: Any) -> list[int]:
        path, codes = tmp_path / "job.json", list[int]()
        path.write_text(json.dumps({**job_data, "sampling": vars(quick), "turns": True, **fields}))
        threads.append(
            threading.Thread(
                target=lambda: codes.append(trial.main(str(path), str(controller.ahead)))
            )
        )
        threads[-1].start()
        return codes

    yield call
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 10
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    assert condition()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What touches a device, as it comes."""
    calls: list[str] = []
    gpu = trial.Gpu

    class Noted(null.Adapter):
        def __init__(self, job: Job) -> None:
            calls.append("adapter")
            super().__init__(job)

    monkeypatch.setattr(trial, "adapter_class", lambda name: Noted)
    monkeypatch.setattr(trial, "Gpu", lambda device: calls.append("gpu") or gpu(device))
    return calls


def test_before_its_turn_it_leaves_the_device_alone(
    controller: Controller, begin: Callable[..., list[int]], made: list[str]
) -> None:
    codes = begin()
    until(lambda: controller.ahead.exists() and "ready" in controller.told(controller.ahead))
    time.sleep(0.1)
    assert made == []
    assert controller.told(controller.ahead) == ["started", "ready"]
    assert controller.told(controller.events) == ["trial"]
    controller.turn()
    controller.quiet()
    until(lambda: codes == [0])
    assert made == ["gpu", "adapter"]
    assert controller.told(controller.events)[:4] == ["trial", "started", "ready", "built"]
    assert controller.told(controller.ahead) == ["started", "ready"]


def test_only_the_first_iteration_of_the_first_phase_is_made_before_it_is_quiet(
    controller: Controller, begin: Callable[..., list[int]]
) -> None:
    codes = begin()
    controller.turn()
    until(lambda: "awaiting_quiet" in controller.told(controller.events))
    time.sleep(0.2)
    assert controller.told(controller.events)[-2:] == ["block", "awaiting_quiet"]
    assert controller.told(controller.events).count("block") == 1
    controller.quiet()
    until(lambda: codes == [0])
    assert controller.told(controller.events)[-1] == "finished"
    assert controller.told(controller.events).count("awaiting_quiet") == 1


def test_neither_waiting_nor_drawing_is_building(
    controller: Controller,
    begin: Callable[..., list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = trial._draw
    monkeypatch.setattr(trial, "_draw", lambda job: time.sleep(0.3) or draw(job))
    begin(mode="slow_import")
    until(lambda: controller.ahead.exists() and "ready" in controller.told(controller.ahead))
    time.sleep(0.5)
    controller.turn()
    controller.quiet()
    until(lambda: "built" in controller.told(controller.events))
    lines = map(json.loads, controller.events.read_text().splitlines())
    (built,) = [event["seconds"] for event in lines if event["event"] == "built"]
    assert 0.5 <= built < 0.8  # the import alone takes 0.5


@pytest.mark.parametrize("gate", ["ready", "awaiting_quiet"])
def test_it_ends_quietly_when_nobody_is_there_any_more(
    controller: Controller, begin: Callable[..., list[int]], gate: str
) -> None:
    codes = begin()
    path = controller.ahead
    if gate == "awaiting_quiet":
        controller.turn()
        path = controller.events
    until(lambda: path.exists() and gate in controller.told(path))
    controller.end()
    until(lambda: codes == [0])
    assert controller.told(path)[-1] == gate


def test_everything_is_drawn_before_its_turn(
    controller: Controller, begin: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    draw = trial._draw
    monkeypatch.setattr(trial, "_draw", lambda job: drawn.append(draw(job)) or drawn[-1])
    codes = begin()
    until(lambda: controller.ahead.exists() and "ready" in controller.told(controller.ahead))
    ((parameters, _),) = drawn
    assert parameters._drawn.keys() == set(parameters)
    controller.turn()
    controller.quiet()
    until(lambda: codes == [0])
    assert len(drawn) == 1


def test_what_fails_ahead_is_told(controller: Controller, begin: Callable[..., list[int]]) -> None:
    codes = begin(mode="bad_import")
    until(lambda: codes == [1])
    assert controller.told(controller.ahead) == ["started", "failed"]
    assert controller.told(controller.events) == ["trial"]


def test_the_framework_gets_no_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a child of its own: the descriptors of this process are pytest's."""
    reading, writing = os.pipe()
    os.write(writing, b"turn\n")
    os.close(writing)
    child = os.fork()
    if child == 0:
        os.dup2(reading, 0)
        with (tmp_path / "events").open("w") as file:
            turns = Turns.on_stdin(Events(file))
            good = os.read(0, 1) == b"" and turns._line() == "turn\n"
        os._exit(0 if good else 1)
    os.close(reading)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_clock_of_its_events_is_that_of_the_blocks(tmp_path: Path) -> None:
    with (tmp_path / "events").open("w") as file, (tmp_path / "lines").open("w+") as lines:
        lines.write("\n")
        lines.seek(0)
        before = clock.now()
        worker_turns.Turns(lines, Events(file)).wait_for_quiet()
        after = clock.now()
    event = json.loads((tmp_path / "events").read_text())
    assert before - 1e-6 <= event["at"] <= after + 1e-6
