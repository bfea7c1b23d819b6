"""Rows of a hand-made run against figures worked out by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netdyno.report.summary import summary, summary_json
from netdyno.stats.estimate import Estimate
from netdyno.stats.interval import median_interval
from netdyno.store.run import Run, read_run


def near(estimate: Estimate | None) -> tuple[Any, ...]:
    assert estimate is not None
    return (pytest.approx(estimate.seconds, rel=1e-9), estimate.processes, estimate.blocks)


def test_medians(run: Run) -> None:
    row = summary(run)[0]
    # The failing trial measured 1 ms everywhere and is not in it.
    assert near(row.forward) == (0.012, 3, 9)
    assert near(row.forward_backward) == (0.042, 3, 9)
    assert near(row.train_step) == (0.045, 3, 9)


def test_intervals_are_those_of_the_processes_medians(run: Run) -> None:
    forward = summary(run)[0].forward
    assert forward is not None
    interval = median_interval([math.log(0.010), math.log(0.012), math.log(0.014)])
    assert interval is not None
    assert (forward.low, forward.high) == pytest.approx(tuple(map(math.exp, interval)))


def test_backward_is_the_difference_of_the_medians(run: Run) -> None:
    assert summary(run)[0].backward_seconds == pytest.approx(0.042 - 0.012)


def test_images_per_second_are_those_of_the_train_step(run: Run) -> None:
    assert summary(run)[0].images_per_second == pytest.approx(4 / 0.045)


def test_first_iteration_is_the_median_over_processes_of_forward_backward(run: Run) -> None:
    assert summary(run)[0].first_iteration_seconds == pytest.approx(50 * 0.042)


def test_what_the_kernel_did_in_forward_backward(run: Run) -> None:
    row = summary(run)[0]
    assert row.minor_faults == 100
    assert row.system_share == pytest.approx(0.25)


def test_trials_are_counted_and_reasons_kept(run: Run) -> None:
    good, bad, never = summary(run)
    assert good.trials == {"ok": 3, "timed_out": 1}
    assert good.reason == "still running after 9 s"
    assert bad.trials == {"failed": 1, "out_of_memory": 1}
    assert never.trials == {}
    assert not any(row.ok for row in (good, bad, never))


def test_nothing_is_said_of_what_failed(run: Run) -> None:
    for row in summary(run)[1:]:
        assert row.forward is row.forward_backward is row.train_step is None
        assert row.backward_seconds is row.images_per_second is row.first_iteration_seconds is None
        assert row.minor_faults is row.system_share is None
        assert row.fingerprint == {}


def test_a_phase_that_was_not_measured_is_none(
    write_run: Callable[..., Path], good: dict[str, Any]
) -> None:
    sample = {
        "event": "block",
        "phase": "forward",
        "kind": "sample",
        "iterations": 1,
        "seconds": 0.5,
        "user_seconds": 0.0,
        "system_seconds": 0.0,
        "minor_faults": 0,
        "major_faults": 0,
    }
    events = [
        {"event": "trial", "cell": good["key"], "round": 1},
        sample,
        {"event": "outcome", "status": "ok", "reason": ""},
    ]
    (row,) = summary(read_run(write_run([good], {"0001": events})))
    assert row.ok
    assert near(row.forward) == (0.5, 1, 1)
    assert row.backward_seconds is row.forward_backward is row.train_step is None
    assert row.images_per_second is row.system_share is None


def test_json(run: Run) -> None:
    data = json.loads(json.dumps(summary_json(run), allow_nan=False))
    assert data["schema"] == 2
    assert data["run"] == "written"
    assert data["status"] == "budget"
    assert data["host"] == {"machine": "abacus"}
    good, bad, never = data["cells"]
    assert good["framework"] == "null"
    assert good["batch_size"] == 4
    assert good["forward"]["seconds"] == pytest.approx(0.012)
    assert good["forward"]["processes"] == 3
    assert good["forward"]["low"] < 0.012 < good["forward"]["high"]
    assert good["place"]["rank"] == 1
    assert good["place"]["ratio"] is None
    assert bad["place"]["rank"] is None
    assert good["backward_seconds"] == pytest.approx(0.030)
    assert good["images_per_second"] == pytest.approx(4 / 0.045)
    assert good["trials"] == {"ok": 3, "timed_out": 1}
    assert good["fingerprint"]["versions"] == {"null": "1", "blas": "0.3"}
    assert bad["forward"] is None
    assert bad["reason"] == "RuntimeError: [red]no[/]"
    assert never["trials"] == {}
    assert "cell" not in good


def test_json_tells_no_path(run: Run) -> None:
    assert str(run.path.parent) not in json.dumps(summary_json(run))
