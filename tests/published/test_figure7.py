"""Figure 7 from its four sources, with trials of MXNet that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from netdyno.environments import Environment
from netdyno.host.compiler import Compiler
from netdyno.memory import MXNET_1_9, MXNET_2015, STRATEGIES
from netdyno.memory.figure7 import BATCH_SIZE, READING_ERROR_GIB, networks
from netdyno.outcome import Outcome
from netdyno.published import figure7
from netdyno.published.figure7 import (
    PHASES,
    Figure7,
    causes,
    images_gradient_gib,
    mxnet_plans,
    planned,
    published,
)
from netdyno.redact import Redactor

COMPILER = Compiler("ccache c++", "c++ 12")


class Trials:
    """Stands in for run_trial: remembers the jobs, and tells ``told[strategy]`` GiB a phase."""

    def __init__(self, outcomes: Mapping[tuple[str, bool, bool], Outcome] | None = None) -> None:
        self.outcomes = outcomes or {}
        self.jobs: list[Mapping[str, Any]] = []

    def __call__(self, cell: Any, environment: Any, job: Any, events: Path, **how: Any) -> Outcome:
        self.jobs.append(job)
        request = job["plan"]
        outcome = self.outcomes.get(
            (cell.network_spec, request["in_place"], request["share"]), Outcome("ok")
        )
        for phase in job["phases"] if outcome.status == "ok" else job["phases"][:1]:
            size = 2**30 * (4 - request["in_place"] - 2 * request["share"])
            how["listener"]({"event": "plan", "phase": phase, "planned_bytes": size})
        how["listener"]({"event": "finished"})
        return outcome


def plans(trials: Trials, compiler: Compiler | None = COMPILER) -> Any:
    environment = Environment("mxnet", Path("python"), "existing", "cpu", "ready")
    return mxnet_plans(8, environment, compiler, Redactor({}), trial=trials)


def test_one_process_for_each_network_and_strategy() -> None:
    trials = Trials()
    values, reasons = plans(trials)
    assert reasons == []
    assert len(trials.jobs) == len(networks()) * len(STRATEGIES)
    assert len(values) == len(trials.jobs) * len(PHASES)
    found = {strategy: values["vgg_a", "forward", strategy] for strategy in STRATEGIES}
    assert found == {"naive": 4.0, "inplace": 3.0, "coshare": 2.0, "both": 1.0}
    for told in trials.jobs:
        assert (told["framework"], told["mode"], told["batch_size"]) == ("mxnet", "symbol", 8)
        assert set(told["phases"]) == set(PHASES)
        assert told["plan"]["compiler"] == ["ccache", "c++"]
    assert len({told["plan"]["folder"] for told in trials.jobs}) == 1


def test_without_a_compiler_two_strategies_are_left() -> None:
    trials = Trials()
    values, reasons = plans(trials, compiler=None)
    assert {key[2] for key in values} == {"inplace", "both"}
    assert [(reason.where, reason.failed) for reason in reasons] == [
        ("naive", False),
        ("coshare", False),
    ]
    assert all("C++ compiler" in reason.text for reason in reasons)


def test_a_crash_costs_only_its_own_row() -> None:
    crash = Outcome("failed", "killed by signal 11 (SIGSEGV)")
    values, reasons = plans(Trials({("googlenet", False, False): crash}))
    lost = {(n, p, s) for n in networks() for p in PHASES for s in STRATEGIES} - values.keys()
    assert lost == {("googlenet", "forward", "naive")}  # the other phase had been told before
    (reason,) = reasons
    assert (reason.where, reason.text) == ("googlenet, naive", crash.reason)
    assert reason.failed


def test_planner_and_paper() -> None:
    paper, absent = published(BATCH_SIZE)
    assert absent == []
    figure = Figure7(
        BATCH_SIZE,
        {"published": paper, "planned_2015": planned(BATCH_SIZE, MXNET_2015), "mxnet": {}},
    )
    difference = figure.largest_difference_gib("published", "planned_2015")
    assert difference is not None
    assert 0 < difference < READING_ERROR_GIB
    assert figure.largest_difference_gib("published", "mxnet") is None
    assert figure.saving("published", "vgg_a", "forward_backward") == pytest.approx(7.873 / 4.685)
    assert figure.saving("mxnet", "vgg_a", "forward_backward") is None


def test_the_paper_has_one_batch_size() -> None:
    paper, (reason,) = published(32)
    assert paper == {}
    assert "batch size 64 only" in reason.text
    assert not reason.failed


def test_causes_of_the_naive_strategy_add_up() -> None:
    """Without sharing, what a layer needs depends on no other layer."""
    found = causes(BATCH_SIZE)
    assert [cause.kind for cause in found[:2]] == ["Pool max", "LRN"]
    before, after = (planned(BATCH_SIZE, rules) for rules in (MXNET_2015, MXNET_1_9))
    for name in networks():
        key = (name, "forward_backward", "naive")
        total = sum(cause.naive[name] for cause in found)
        assert total == pytest.approx(after[key] - before[key], abs=1e-9)
    (relu,) = [cause for cause in found if cause.kind == "ReLU"]
    assert set(relu.naive.values()) == {0}
    assert all(change < 0 for change in relu.both.values())


def test_the_hidden_workspace_of_pooling_counted_by_hand() -> None:
    """vgg_a has five max poolings; each output twice, as workspace and as its zeros."""
    outputs = 64 * 112**2 + 128 * 56**2 + 256 * 28**2 + 512 * 14**2 + 512 * 7**2
    (pooling,) = [cause for cause in causes(2) if cause.kind == "Pool max"]
    assert pooling.naive["vgg_a"] * figure7.GIB == pytest.approx(2 * 2 * 4 * outputs)


def test_the_gradient_of_the_images() -> None:
    assert images_gradient_gib(64) == pytest.approx(64 * 3 * 224 * 224 * 4 / 2**30)
