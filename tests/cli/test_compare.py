"""`netdyno compare`: two runs made by hand, whose difference is known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.report.conftest import block

from netdyno.cli.compare import command
from netdyno.errors import NetdynoError

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(
    tmp_path: Path, write_run: Callable[..., Path], make_cell: Callable[..., Any]
) -> MakeRun:
    """``make_run("before", {mode: milliseconds}, version="1", rounds=8)`` -> its folder."""

    def make(
        name: str, levels: dict[str, float], version: str = "1", rounds: int = 8, **axes: Any
    ) -> Path:
        rng = np.random.default_rng(len(name))
        cells = {mode: make_cell(mode=mode, **axes).to_json() for mode in levels}
        trials = {}
        for number in range(1, rounds + 1):
            for mode, cell in cells.items():
                figure = levels[mode] * float(np.exp(rng.normal(0, 0.005)))
                trials[f"{len(trials):04d}"] = [
                    {"event": "trial", "cell": cell["key"], "round": number},
                    *[block("forward_backward", figure) for _ in range(3)],
                    {
                        "event": "fingerprint",
                        "versions": {"null": "1", "cudnn": version},
                        "tf32": False,
                        "openmp": [],
                    },
                    {"event": "outcome", "status": "ok", "reason": ""},
                ]
        written = write_run(list(cells.values()), trials, host={"id": "one", "machine": "abacus"})
        target = tmp_path / name
        shutil.move(written, target)
        return target

    return make


def call(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], standalone_mode=False)


def told(*words: object) -> dict[str, Any]:
    result = call(*words, "--json")
    assert result.exception is None
    return json.loads(result.stdout)


def test_a_regression_is_found_and_sized(make_run: MakeRun) -> None:
    before = make_run("before", {"steady": 10, "drift": 20})
    after = make_run("after", {"steady": 11, "drift": 20})
    slower, same = told(before, after)["cells"]
    assert slower["call"] == "slower"
    assert slower["ratio"]["low"] < 1.1 < slower["ratio"]["high"]
    assert not slower["ratio"]["paired"]
    assert slower["verdict"] == "like-for-like"
    assert same["call"] in ("same", "undecided")
    assert same["ratio"]["low"] < 1 < same["ratio"]["high"]
    # The other way round it is an improvement.
    assert told(after, before)["cells"][0]["call"] == "faster"


@pytest.mark.parametrize(("limit", "code"), [("3%", 1), ("0.05", 1), ("20%", 0)])
def test_fails_only_where_the_whole_interval_lies_beyond(
    make_run: MakeRun, limit: str, code: int
) -> None:
    before, after = make_run("before", {"steady": 10}), make_run("after", {"steady": 11})
    assert call(before, after, "--fail-if-slower", limit).return_value == code
    assert call(after, before, "--fail-if-slower", limit).return_value == 0


def test_too_few_processes_to_fail(make_run: MakeRun) -> None:
    before = make_run("before", {"steady": 10}, rounds=1)
    after = make_run("after", {"steady": 20}, rounds=1)
    result = call(before, after, "--fail-if-slower", "3%")
    assert result.return_value == 0
    assert "too few processes" in result.stdout
    assert "undecided" in result.stdout


def test_cells_of_one_run_are_paired_by_round(make_run: MakeRun) -> None:
    run = make_run("run", {"steady": 10, "drift": 12})
    (cell,) = told(f"{run}:null/steady", f"{run}:null/drift")["cells"]
    assert cell["ratio"]["paired"]
    assert cell["ratio"]["value"] == pytest.approx(1.2, rel=0.02)
    assert cell["call"] == "slower"


def test_one_pattern_does_for_both_sides(make_run: MakeRun) -> None:
    before = make_run("before", {"steady": 10, "drift": 20})
    after = make_run("after", {"steady": 11, "drift": 20})
    assert len(told(f"{before}:null/drift", after)["cells"]) == 1
    assert len(told(before, f"{after}:null/drift")["cells"]) == 1


def test_kernel_libraries_make_it_as_shipped_and_strict_refuses(make_run: MakeRun) -> None:
    before = make_run("before", {"steady": 10}, version="8.9.7")
    after = make_run("after", {"steady": 11}, version="9.1.0")
    (cell,) = told(before, after)["cells"]
    assert cell["verdict"] == "as-shipped"
    assert {"8.9.7", "9.1.0"} <= {d[side] for d in cell["differences"] for side in ("a", "b")}
    result = call(before, after)
    assert result.return_value == 0
    assert "8.9.7 → 9.1.0" in result.stdout
    strict = call(before, after, "--strict")
    assert strict.return_value == 2
    assert "not like for like" in strict.stderr


def test_what_must_not_be_compared_is_not_called_slower(make_run: MakeRun, tmp_path: Path) -> None:
    before, after = make_run("before", {"steady": 10}), make_run("after", {"steady": 20})
    data = json.loads((after / "run.json").read_text())
    (after / "run.json").write_text(json.dumps({**data, "host": {"id": "two", "machine": "loom"}}))
    (cell,) = told(before, after)["cells"]
    assert cell["verdict"] == "invalid"
    assert cell["call"] is None
    assert cell["ratio"]["value"] == pytest.approx(2, rel=0.02)
    assert call(before, after, "--fail-if-slower", "3%").return_value == 0
    assert "not comparable" in call(before, after).stdout


def test_cells_that_only_one_side_has_are_named(make_run: MakeRun) -> None:
    before = make_run("before", {"steady": 10, "drift": 20})
    after = make_run("after", {"steady": 10, "leak": 20})
    left_out = told(before, after)["left_out"]
    assert [line.split("/")[:2] for line in left_out] == [
        ["only in A: null", "drift"],
        ["only in B: null", "leak"],
    ]


def test_markdown_is_a_table_that_no_name_can_break(make_run: MakeRun) -> None:
    odd = "x|y <b>"
    before = make_run("before", {"steady": 10}, network_spec=odd)
    after = make_run("after", {"steady": 11}, network_spec=odd)
    lines = call(before, after, "--markdown").stdout.splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 3
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
    assert "**slower**" in rows[2]
    assert "<b>" not in rows[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("{run}", "{run}"), "A and B are the same cells"),
        (("{run}", "{other}"), "have no cell in common; name one of each, as in run:null/steady"),
        (("{run}:jax", "{run}"), "has no cell 'jax'"),
        (("{run}", "nowhere"), "nowhere does not exist"),
    ],
)
def test_what_cannot_be_compared_is_named(
    make_run: MakeRun, words: tuple[str, ...], message: str
) -> None:
    places = {
        "run": make_run("run", {"steady": 10}),
        "other": make_run("other", {"drift": 10}),
    }
    result = call(*(word.format(**places) for word in words))
    assert isinstance(result.exception, NetdynoError)
    assert message in str(result.exception)


def test_a_failed_cell_has_no_ratio(make_run: MakeRun) -> None:
    before, after = make_run("before", {"steady": 10}), make_run("after", {"steady": 11})
    for path in (after / "trials").iterdir():
        path.write_text(path.read_text().replace('"ok"', '"failed"'))
    (cell,) = told(before, after)["cells"]
    assert cell["ratio"] is None
    assert cell["problem"] == "B has no good trial"
    assert call(before, after, "--fail-if-slower", "3%").return_value == 0
