"""Change points against simulated series whose truth is known, and against plain references."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, rankdata

from netdyno.stats.change_point import LEAST_RUNS, SIGNIFICANCE, ChangePoint, change_points

Runs = list[list[float]]


def series(
    rng: np.random.Generator,
    count: int,
    *steps: tuple[int, float],
    kind: str = "runs differ",
    noise: float = 0.01,
) -> Runs:
    """Runs of three processes around 0.3 s; ``steps`` are (first run after it, ratio)."""
    logs = np.full((count, 3), math.log(0.3))
    if kind == "heavy tails":
        logs += noise * rng.standard_t(2, (count, 1))
    elif kind == "processes differ":
        logs += rng.normal(0, noise, (count, 3))
    else:
        logs += rng.normal(0, noise, (count, 1)) + rng.normal(0, noise / 2, (count, 3))
    if kind == "outliers":
        disturbed = rng.random(count) < 0.06
        logs[disturbed] += rng.exponential(0.15, (int(disturbed.sum()), 1))
    for first, ratio in steps:
        logs[first:] += math.log(ratio)
    found: Runs = np.exp(logs).tolist()
    return found


def near(points: list[ChangePoint], index: int) -> bool:
    return any(abs(point.index - index) <= 1 for point in points)


@pytest.mark.parametrize("kind", ["processes differ", "runs differ", "outliers", "heavy tails"])
def test_false_alarms(kind: str) -> None:
    """Of series without a change at most 5 % show one."""
    rng = np.random.default_rng(11)
    counts = [8] * 10 + [12] * 120 + [30] * 120 + [60] * 50 + [200] * 5
    alarms = sum(bool(change_points(series(rng, count, kind=kind))) for count in counts)
    assert alarms / len(counts) <= 0.05


@pytest.mark.parametrize(
    ("count", "first", "ratio"),
    [
        (12, 6, 1.05),
        (20, 10, 1 / 1.05),
        (30, 15, 1.05),
        (30, 27, 1.05),
        (30, 3, 1 / 1.05),
        (60, 20, 1 / 1.05),
        (80, 75, 1.05),
    ],
)
def test_a_step_of_5_percent_in_noise_of_1_percent(count: int, first: int, ratio: float) -> None:
    rng = np.random.default_rng(12)
    tries = 40
    found = [
        change_points(series(rng, count, (first, ratio), kind="processes differ"))
        for _ in range(tries)
    ]
    assert sum(near(points, first) for points in found) / tries >= 0.95


def test_false_alarms_beside_a_true_one() -> None:
    """Of series with one change at most 5 % show a second one."""
    rng = np.random.default_rng(24)
    found = [
        len(change_points(series(rng, 30, (first, 1.05)))) for first in (15, 27) for _ in range(80)
    ]
    assert sum(count > 1 for count in found) / len(found) <= 0.05


@pytest.mark.parametrize(("count", "first", "ratio"), [(30, 15, 1.03), (24, 19, 1.04)])
def test_both_intervals_cover_the_truth(count: int, first: int, ratio: float) -> None:
    rng = np.random.default_rng(13)
    single = [
        points[0]
        for _ in range(200)
        if len(points := change_points(series(rng, count, (first, ratio)))) == 1
    ]
    assert len(single) > 180
    assert all(p.ratio_low <= p.ratio <= p.ratio_high for p in single)
    assert all(p.first <= p.index <= p.last for p in single)
    # Of 95 %, with 180 tries: two and a half standard errors.
    assert sum(p.ratio_low <= ratio <= p.ratio_high for p in single) / len(single) >= 0.91
    assert sum(p.first <= first <= p.last for p in single) / len(single) >= 0.91
    # Neither is bought with a width that says nothing.
    assert np.median([p.ratio_high / p.ratio_low for p in single]) < 1.03
    assert np.median([p.last - p.first for p in single]) <= 4


def test_slower_and_as_fast_as_before() -> None:
    rng = np.random.default_rng(14)
    tries = 30
    good = 0
    for _ in range(tries):
        points = change_points(series(rng, 60, (30, 1.05), (36, 1 / 1.05)))
        good += len(points) == 2 and near(points, 30) and near(points, 36)
    assert good / tries >= 0.9


def test_several_steps() -> None:
    steps = ((20, 1.06), (35, 1.04), (60, 0.9))
    points = change_points(series(np.random.default_rng(15), 80, *steps))
    assert [point.index for point in points] == [20, 35, 60]
    for point, (_, ratio) in zip(points, steps, strict=True):
        assert point.ratio == pytest.approx(ratio, rel=0.01)


def test_a_step_among_outliers() -> None:
    rng = np.random.default_rng(16)
    found = [change_points(series(rng, 40, (20, 1.05), kind="outliers")) for _ in range(40)]
    assert sum(near(points, 20) for points in found) / 40 >= 0.85


@pytest.mark.parametrize("where", [(10,), (0,), (29,), (10, 20), (0, 29)])
def test_disturbed_runs_here_and_there_are_no_change(where: tuple[int, ...]) -> None:
    runs = series(np.random.default_rng(17), 30)
    for index in where:
        runs[index] = [10 * seconds for seconds in runs[index]]
    assert change_points(runs) == []


def test_a_disturbed_process_does_not_move_its_run() -> None:
    runs = series(np.random.default_rng(18), 30, (15, 1.05))
    before = change_points(runs)
    for run in runs:
        run[run.index(max(run))] *= 50
    assert change_points(runs) == before


def test_p_of_eight_runs_is_exact() -> None:
    """Four slow ones all at the end, or all at the beginning: 2 of the 70 ways to place them."""
    runs = [[1.0], [1.01], [0.99], [1.005], [1.1], [1.11], [1.09], [1.102]]
    (point,) = change_points(runs)
    assert point.p == pytest.approx(2 / 70)
    assert point.p <= SIGNIFICANCE
    assert (point.index, point.first, point.last) == (4, 4, 4)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_p_is_the_share_of_shuffled_series_with_as_clear_a_step(seed: int) -> None:
    """Counted again by brute force; 1.2 % in this noise is hardly there."""
    rng = np.random.default_rng(seed)
    while not (points := change_points(runs := series(rng, 20, (10, 1.012)))):
        pass

    def gain(values: np.ndarray) -> float:
        def squares(part: np.ndarray) -> float:
            return float(np.sum((part - part.mean()) ** 2))

        return max(
            squares(values) / (squares(values[:k]) + squares(values[k:])) for k in range(3, 18)
        )

    logs = np.log([np.median(run) for run in runs])
    centre = np.median(logs)
    reach = 3 * 1.4826 * np.median(np.abs(logs - centre))
    views = np.array([np.clip(logs, centre - reach, centre + reach), rankdata(logs)])
    seen = max(map(gain, views)) * (1 - 1e-9)
    tries = 400
    count = sum(max(map(gain, views[:, rng.permutation(20)])) >= seen for _ in range(tries))
    assert len(points) == 1
    # Three standard errors of both counts at p = 0.02.
    assert points[0].p == pytest.approx(count / tries, abs=0.021)
    assert points[0].p > 0.001 or count / tries < 0.01


def test_what_is_found_differs_by_mann_and_whitneys_test_too() -> None:
    rng = np.random.default_rng(20)
    seen = 0
    for _ in range(25):
        runs = series(rng, 40, (14, 1.03), (27, 1.03))
        levels = [float(np.median(run)) for run in runs]
        points = change_points(runs)
        edges = [0, *(point.index for point in points), len(runs)]
        for (a, b), (_, c) in pairwise(pairwise(edges)):
            seen += 1
            assert mannwhitneyu(levels[a:b], levels[b:c]).pvalue < 0.05
    assert seen >= 45


def test_units_do_not_matter() -> None:
    runs = series(np.random.default_rng(21), 40, (25, 1.05))
    (point,) = change_points(runs)
    (other,) = change_points([[1000 * seconds for seconds in run] for run in runs])
    assert (other.index, other.first, other.last, other.p) == (
        point.index,
        point.first,
        point.last,
        point.p,
    )
    assert other.ratio == pytest.approx(point.ratio)


def test_backwards_in_time() -> None:
    runs = series(np.random.default_rng(22), 40, (25, 1.05))
    (point,) = change_points(runs)
    (mirror,) = change_points(runs[::-1])
    assert mirror.index == 40 - point.index
    assert (mirror.first, mirror.last) == (40 - point.last, 40 - point.first)
    assert mirror.ratio == pytest.approx(1 / point.ratio)
    assert mirror.ratio_low == pytest.approx(1 / point.ratio_high)


def test_the_same_again() -> None:
    runs = series(np.random.default_rng(23), 60, (25, 1.02), (40, 1.02), kind="outliers")
    assert change_points(runs) == change_points(runs)


def test_too_few_runs() -> None:
    assert change_points([]) == []
    assert change_points([[1.0 + i / 1000] for i in range(3)] + [[2.0]] * 4) == []
    assert LEAST_RUNS == 8


def test_equal_runs() -> None:
    assert change_points([[1.0]] * 50) == []
    assert change_points([[1.0]] * 25 + [[3.0]] + [[1.0]] * 25) == []


def test_a_step_without_any_noise() -> None:
    (point,) = change_points([[1.0]] * 10 + [[1.5]] * 10)
    assert (point.first, point.index, point.last) == (10, 10, 10)
    assert (point.ratio, point.ratio_low) == (pytest.approx(1.5), pytest.approx(1.5))


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0], [math.nan], [math.inf]])
def test_what_is_no_time_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="positive seconds"):
        change_points([[1.0]] * 10 + [bad])
