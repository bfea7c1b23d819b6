"""Who is ranked, with whom, and how: runs whose order is known."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from netdyno.report.ranking import like_for_like, places
from netdyno.report.table import print_run
from netdyno.store.run import Run, read_run
from tests.report.conftest import block

MakeRun = Callable[..., Run]
ROUNDS = 8


@pytest.fixture
def make_run(write_run: Callable[..., Path], make_cell: Callable[..., Any]) -> MakeRun:
    """``make_run({mode: milliseconds, …}, versions={mode: {…}}, axes={mode: {…}})``."""

    def make(
        levels: Mapping[str, float],
        versions: Mapping[str, Mapping[str, str]] | None = None,
        axes: Mapping[str, Mapping[str, Any]] | None = None,
        noise: float = 0.01,
    ) -> Run:
        rng = np.random.default_rng(1)
        cells = {
            mode: make_cell(mode=mode, **(axes or {}).get(mode, {})).to_json() for mode in levels
        }
        trials: dict[str, Sequence[Any]] = {}
        for number in range(1, ROUNDS + 1):
            for mode, cell in cells.items():
                told = {"null": "1", **(versions or {}).get(mode, {})}
                figure = levels[mode] * float(np.exp(rng.normal(0, noise)))
                trials[f"{len(trials):04d}"] = [
                    {"event": "trial", "cell": cell["key"], "round": number},
                    *[block("forward_backward", figure) for _ in range(3)],
                    {"event": "fingerprint", "versions": told, "tf32": None, "openmp": []},
                    {"event": "outcome", "status": "ok", "reason": ""},
                ]
        return read_run(write_run(list(cells.values()), trials))

    return make


def by_mode(run: Run, **options: Any) -> dict[str, Any]:
    found = places(run, **options)
    return {cell["mode"]: found[key] for key, cell in run.cells.items()}


def rendered(run: Run, **options: Any) -> str:
    file = io.StringIO()
    print_run(run, Console(file=file, width=200, highlight=False), **options)
    return file.getvalue()


def test_ranks_follow_time_and_who_cannot_be_told_apart_shares_one(make_run: MakeRun) -> None:
    run = make_run({"steady": 20, "drift": 10, "leak": 10.05, "garbage": 30})
    found = by_mode(run)
    ranks = {mode: place.rank for mode, place in found.items()}
    assert ranks == {"drift": 1, "leak": 1, "steady": 3, "garbage": 4}
    fastest = next(mode for mode, place in found.items() if place.ratio is None)
    assert fastest in ("drift", "leak")
    assert found["steady"].call == "slower"
    assert found["steady"].ratio.value == pytest.approx(2, rel=0.03)
    other = {"drift": "leak", "leak": "drift"}[fastest]
    assert found[other].call in ("same", "undecided")


def test_like_for_like_where_nothing_differs(make_run: MakeRun) -> None:
    run = make_run({"steady": 20, "drift": 10})
    assert {place.verdict for place in by_mode(run).values()} == {"like-for-like"}
    assert like_for_like(run)
    text = rendered(run)
    assert "Like for like." in text
    # The fastest first, whatever was asked first.
    assert text.index(" drift ") < text.index(" steady ")


def test_other_kernel_libraries_are_ranked_as_shipped_with_the_difference(
    make_run: MakeRun,
) -> None:
    versions = {"steady": {"cudnn": "8.9.7"}, "drift": {"cudnn": "9.1.0"}}
    run = make_run({"steady": 20, "drift": 10}, versions)
    assert {place.verdict for place in by_mode(run).values()} == {"as-shipped"}
    assert [by_mode(run)[mode].rank for mode in ("drift", "steady")] == [1, 2]
    text = rendered(run)
    assert "Ranked as shipped" in text
    assert "8.9.7" in text.split("Ranked as shipped")[1]
    assert "9.1.0" in text.split("Ranked as shipped")[1]


def test_strict_ranks_only_like_for_like(make_run: MakeRun) -> None:
    versions = {"steady": {"cudnn": "8.9.7"}, "drift": {"cudnn": "9.1.0"}}
    run = make_run({"steady": 20, "drift": 10}, versions)
    assert [place.rank for place in by_mode(run, strict=True).values()] == [None, None]
    assert not like_for_like(run)
    assert "not ranked (--strict)" in rendered(run, strict=True)


@pytest.mark.parametrize(
    "axes", [{"batch_size": 8}, {"threads": 2}, {"precision": "fp64"}, {"host_allocator": "retain"}]
)
def test_cells_that_must_not_be_compared_are_ranked_apart(
    make_run: MakeRun, axes: dict[str, Any]
) -> None:
    run = make_run({"steady": 20, "drift": 10}, axes={"drift": axes})
    found = by_mode(run)
    assert [found[mode].rank for mode in ("steady", "drift")] == [1, 1]
    assert found["steady"].ratio is found["drift"].ratio is None


def test_an_invalid_comparison_is_not_ranked_and_says_why(
    write_run: Callable[..., Path], make_run: MakeRun
) -> None:
    run = make_run({"steady": 20, "drift": 10})
    slow, _ = run.cells
    verification = {**run.data["verification"], slow: {"passed": False, "reason": "x"}}
    run.data["verification"].update(verification)  # type: ignore[attr-defined]
    assert {place.verdict for place in by_mode(run).values()} == {"invalid"}
    assert [place.rank for place in by_mode(run).values()] == [None, None]
    text = rendered(run)
    assert "Not ranked: these must not be compared." in text
    assert "verified" in text.split("must not be compared.")[1]


def test_a_difference_is_named_once_however_many_tables_share_it(
    write_run: Callable[..., Path], make_cell: Callable[..., Any]
) -> None:
    cells = {
        (mode, size): make_cell(mode=mode, batch_size=size).to_json()
        for size in (2, 4)
        for mode in ("steady", "drift")
    }
    trials = {}
    for (mode, _), cell in cells.items():
        version = {"steady": "8.9.7", "drift": "9.1.0"}[mode]
        trials[f"{len(trials):04d}"] = [
            {"event": "trial", "cell": cell["key"], "round": 1},
            block("forward_backward", 10.0),
            {"event": "fingerprint", "versions": {"null": "1", "cudnn": version}, "openmp": []},
            {"event": "outcome", "status": "ok", "reason": ""},
        ]
    text = rendered(read_run(write_run(list(cells.values()), trials)))
    assert text.count("8.9.7, ") == 1
    assert text.count("named above are not named again") == 1
    assert text.count("Ranked as shipped") == 2
    assert "a single process has no interval" in text
