"""Jobs in, events out."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from netdyno_worker.protocol import (
    SCHEMA,
    Events,
    Hyperparameters,
    Job,
    PlanRequest,
    Sampling,
    finite,
)


def test_a_job_arrives_whole(job_data: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps({**job_data, "scratch": "/scratch"}))
    job = Job.read(str(path))
    assert (job.framework, job.mode, job.batch_size, job.threads) == ("null", "steady", 2, 1)
    assert job.hyperparameters == Hyperparameters(0.05, 0.9, 1e-4)
    assert job.sampling == Sampling(**job_data["sampling"])
    assert job.phases == ["forward_backward", "forward", "train_step"]
    assert job.scratch == "/scratch"
    assert job.checks == []


@pytest.mark.parametrize("schema", [SCHEMA + 1, 0, "1"])
def test_a_job_of_another_schema_is_refused(job_data: dict[str, Any], schema: object) -> None:
    with pytest.raises(ValueError, match=rf"job of schema {schema}, this worker speaks {SCHEMA}"):
        Job.from_json({**job_data, "schema": schema})


@pytest.mark.parametrize("lacking", ["mode", "network", "sampling", "seed"])
def test_a_job_that_lacks_something_is_refused(job_data: dict[str, Any], lacking: str) -> None:
    del job_data[lacking]
    with pytest.raises((KeyError, TypeError), match=lacking):
        Job.from_json(job_data)


def test_fields_that_are_not_known_are_passed_over(job_data: dict[str, Any]) -> None:
    assert Job.from_json({**job_data, "colour": "blue"}) is not None


class Watched(io.StringIO):
    """Remembers what had been written at each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed: list[str] = []

    def flush(self) -> None:
        self.flushed.append(self.getvalue())


def test_every_event_is_one_flushed_line() -> None:
    file = Watched()
    events = Events(file)
    events.emit("started")
    events.emit("note", text="two\nlines \u2028 “quoted”", number=0.1, nothing=None)
    assert file.flushed[0] == '{"event":"started"}\n'
    assert file.flushed[1] == file.getvalue()
    first, second = file.getvalue().splitlines()
    assert json.loads(first) == {"event": "started"}
    assert json.loads(second)["text"] == "two\nlines \u2028 “quoted”"
    assert json.loads(second)["number"] == 0.1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_lacks_is_refused_and_nothing_is_written(value: float) -> None:
    file = io.StringIO()
    with pytest.raises(ValueError, match="JSON"):
        Events(file).emit("loss", value=value)
    assert file.getvalue() == ""
    assert finite(value) is None


def test_finite_numbers_stay() -> None:
    assert finite(1.5) == 1.5


def test_a_request_for_a_plan(job_data: dict[str, Any]) -> None:
    assert Job.from_json(job_data).plan is None
    request = {"in_place": True, "share": False, "compiler": None, "folder": "/build"}
    assert Job.from_json({**job_data, "plan": request}).plan == PlanRequest(
        True, False, None, "/build"
    )
