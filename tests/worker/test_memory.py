"""Trials that measure memory, on the null framework, whose blocks are known."""

from __future__ import annotations

import io
import json
import resource
from pathlib import Path
from typing import Any

import memray
import numpy as np
import pytest

from netdyno_worker import memory, resident, trial
from netdyno_worker.frameworks.null.memory import BYTES
from netdyno_worker.protocol import Events, Job

FOLDER = str(Path(memray.__file__).parent.parent)
PHASES = ["forward", "forward_backward", "train_step"]


@pytest.fixture
def job(job_data: dict[str, Any]) -> Job:
    asked = {"instrument": FOLDER, "problem": "", "limit_bytes": None}
    return Job.from_json({**job_data, "phases": PHASES, "memory": asked})


def ran(job: Job) -> list[dict[str, Any]]:
    file = io.StringIO()
    trial.run(job, Events(file))
    return [json.loads(line) for line in file.getvalue().splitlines()]


def measured(job: Job) -> dict[str, dict[str, Any]]:
    return {e["phase"]: e for e in ran(job) if e["event"] == "memory"}


def test_what_is_seen_is_what_was_allocated(job: Job) -> None:
    found = measured(job)
    assert list(found) == PHASES
    for phase, event in found.items():
        known = BYTES[phase] * job.batch_size
        assert event["internal_bytes"] == known
        assert event["observed_bytes"] == pytest.approx(known, rel=0.02)
        assert event["observed_largest"][0] == known
        assert event["process_bytes"] > known
        assert event["device_bytes"] is None


def test_nothing_is_timed(job: Job) -> None:
    names = {event["event"] for event in ran(job)}
    assert names == {"started", "built", "memory", "fingerprint", "finished"}


def test_without_an_instrument(job: Job) -> None:
    assert job.memory
    event = measured(job._replace(memory=job.memory._replace(instrument=None, problem="none")))
    assert event["forward"]["observed_bytes"] is None
    assert event["forward"]["observed_problem"] == "none"
    assert event["forward"]["internal_bytes"]


def test_a_framework_that_tells_nothing(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_class", lambda name: memory.Memory)
    event = measured(job)["forward"]
    assert event["internal_bytes"] is None
    assert event["remark"] == "it tells nothing of its memory"
    assert event["observed_bytes"] is not None


def test_what_is_not_internal_is_taken_off(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    own = memory.memory_class("null")

    class Foreign(own):  # type: ignore[valid-type,misc]
        def foreign_bytes(self, phase: str) -> int:
            return 2**19

    monkeypatch.setattr(memory, "memory_class", lambda name: Foreign)
    known = BYTES["forward"] * job.batch_size - 2**19
    assert measured(job)["forward"]["observed_bytes"] == pytest.approx(known, rel=0.02)


def test_after_the_timed_blocks_the_framework_is_asked(job: Job) -> None:
    phases = ["forward_backward", "forward"]  # in the order of their timing
    events = ran(job._replace(memory=None, memory_after=True, phases=phases))
    names = [event["event"] for event in events]
    found = [event for event in events if event["event"] == "memory"]
    assert names.index("memory") > len(names) - names[::-1].index("block") - 1
    assert [event["phase"] for event in found] == ["forward", "forward_backward"]
    for event in found:
        assert event["internal_bytes"] == BYTES[event["phase"]] * job.batch_size
        assert event["observed_bytes"] is event["device_bytes"] is event["process_bytes"] is None
    assert names[-1] == "finished"


def test_a_pass_that_fails_then_costs_only_its_own_figure(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = memory.memory_class("null")

    class Full(own):  # type: ignore[valid-type,misc]
        def at_hand(self, phase: str) -> bool:
            return phase != "train_step"

        def begin(self, phase: str) -> None:
            if phase == "forward":
                raise MemoryError("no more")

    monkeypatch.setattr(memory, "memory_class", lambda name: Full)
    events = ran(job._replace(memory=None, memory_after=True))
    found = {event["phase"]: event for event in events if event["event"] == "memory"}
    assert list(found) == ["forward", "forward_backward"]
    assert found["forward"]["internal_bytes"] is None
    assert found["forward"]["remark"] == "MemoryError: no more"
    assert found["forward_backward"]["internal_bytes"]
    assert events[-1]["event"] == "finished"


def test_only_frameworks_with_something_to_tell_have_a_class() -> None:
    assert memory.memory_class("numpy") is memory.Memory
    assert memory.memory_class("null") is not memory.Memory


def test_the_limit_holds_before_the_framework_is_there(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, limit: limits.append((what, limit)))
    assert job.memory
    ran(job._replace(memory=job.memory._replace(limit_bytes=10**9)))
    assert limits == [(resource.RLIMIT_DATA, (10**9, 10**9))]


def test_the_peak_of_the_process_can_be_set_back() -> None:
    first = np.ones(60 * 10**6, np.uint8)
    del first
    resident.reset_peak()
    low = resident.peak_bytes()
    if low is None or low > (resident.now_bytes() or 0) + 10**7:
        pytest.skip("this system does not let a process set its peak back")
    second = np.ones(40 * 10**6, np.uint8)
    high = resident.peak_bytes()
    assert high is not None
    assert 30e6 < high - low < 50e6
    assert second.any()
