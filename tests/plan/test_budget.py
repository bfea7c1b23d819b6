"""Whether one more trial fits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from netdyno.plan.budget import Budget
from netdyno.plan.cell import Cell


@pytest.fixture
def one(make_cell: Callable[..., Cell]) -> Cell:
    return make_cell(batch_size=1)


@pytest.fixture
def two(make_cell: Callable[..., Cell]) -> Cell:
    return make_cell(batch_size=2)


def budget(limit: float | None, one: Cell, two: Cell) -> Budget:
    return Budget(limit, {one.key: 10.0, two.key: 40.0})


def test_without_a_limit_everything_is_allowed(one: Cell, two: Cell) -> None:
    assert budget(None, one, two).allows(one, 1e9)


def test_the_first_trial_of_a_cell_is_allowed_until_the_limit_has_passed(
    one: Cell, two: Cell
) -> None:
    limited = budget(20.0, one, two)
    assert limited.allows(two, 0.0)  # though it is expected to take 40 s
    assert limited.allows(two, 19.9)
    assert not limited.allows(two, 20.0)


def test_a_later_trial_must_be_expected_to_fit(one: Cell, two: Cell) -> None:
    limited = budget(20.0, one, two)
    limited.record(one, 6.0)
    limited.record(one, 8.0)
    assert limited.expected_seconds(one) == 7.0
    assert limited.allows(one, 13.0)
    assert not limited.allows(one, 13.1)


def test_estimates_are_corrected_by_what_was_measured(one: Cell, two: Cell) -> None:
    limited = budget(None, one, two)
    assert limited.expected_seconds(two) == 40.0
    limited.record(one, 20.0)  # twice its estimate
    assert limited.expected_seconds(two) == 80.0
    limited.record(one, 10.0)  # 15 s on average
    assert limited.expected_seconds(two) == 60.0
    limited.record(two, 30.0)  # from here on its own
    assert limited.expected_seconds(two) == 30.0
