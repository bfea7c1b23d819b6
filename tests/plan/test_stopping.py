"""A run goes on until its ratios are known as closely as was asked, and no longer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from netdyno.plan.cell import Cell
from netdyno.plan.stopping import FEWEST_ROUNDS, MOST_ROUNDS, Target

MakeCell = Callable[..., Cell]


def rounds_until_reached(cells: list[Cell], half_width: float, noise: float) -> int:
    target, rng = Target(cells, half_width), np.random.default_rng(1)
    for number in range(1, MOST_ROUNDS + 1):
        for index, cell in enumerate(cells):
            target.add(cell, number, ((2 + index) * np.exp(rng.normal(0, noise, 1))).tolist())
        if all(map(target.reached, cells)):
            return number
    return MOST_ROUNDS + 1


def test_noisier_cells_take_more_rounds(make_cell: MakeCell) -> None:
    cells = [make_cell(mode="steady"), make_cell(mode="drift")]
    assert rounds_until_reached(cells, 0.02, noise=0.001) == FEWEST_ROUNDS
    assert FEWEST_ROUNDS < rounds_until_reached(cells, 0.02, noise=0.03) <= MOST_ROUNDS
    assert rounds_until_reached(cells, 0.001, noise=0.05) > MOST_ROUNDS


def test_what_both_cells_share_costs_no_rounds(make_cell: MakeCell) -> None:
    """The ratio is what is asked for, and drift of the machine cancels in it."""
    first, second = make_cell(mode="steady"), make_cell(mode="drift")
    target = Target([first, second], 0.02)
    for number in range(1, FEWEST_ROUNDS + 1):
        target.add(first, number, [1.0 * number])
        target.add(second, number, [1.2 * number])
    assert target.reached(first)
    alone = Target([first], 0.02)
    for number in range(1, FEWEST_ROUNDS + 1):
        alone.add(first, number, [1.0 * number])
    assert not alone.reached(first)


def test_groups_end_on_their_own(make_cell: MakeCell) -> None:
    quiet, loud = make_cell(batch_size=2), make_cell(batch_size=4)
    target = Target([quiet, loud], 0.02)
    for number in range(1, FEWEST_ROUNDS + 1):
        target.add(quiet, number, [1.0])
        target.add(loud, number, [1.0 + number])
    assert target.reached(quiet)
    assert not target.reached(loud)


def test_a_cell_that_yields_nothing_holds_up_nobody(make_cell: MakeCell) -> None:
    good, other, failing = (make_cell(mode=mode) for mode in ("steady", "leak", "raise"))
    target = Target([good, other, failing], 0.02)
    for number in range(1, FEWEST_ROUNDS + 1):
        target.add(good, number, [1.0])
        target.add(other, number, [2.0])
        target.add(failing, number, [])
    assert target.reached(failing)
    assert not Target([failing], 0.02).reached(failing)


def test_a_cell_that_is_dropped_holds_up_nobody_though_it_went_well_once(
    make_cell: MakeCell,
) -> None:
    good, once = make_cell(mode="steady"), make_cell(mode="raise")
    target = Target([good, once], 0.02)
    target.add(once, 1, [2.0])
    for number in range(1, FEWEST_ROUNDS + 1):
        target.add(good, number, [1.0])
    assert not target.reached(good)
    target.drop(once)
    assert target.reached(good)


def test_never_before_the_fewest_rounds(make_cell: MakeCell) -> None:
    cell = make_cell()
    target = Target([cell], 0.02)
    for number in range(1, FEWEST_ROUNDS):
        target.add(cell, number, [1.0])
        assert not target.reached(cell)


@pytest.mark.parametrize(("wobble", "needed"), [(0.0, FEWEST_ROUNDS), (1.0, MOST_ROUNDS)])
def test_rounds_needed_are_guessed_from_those_measured(
    make_cell: MakeCell, wobble: float, needed: int
) -> None:
    cell = make_cell()
    target = Target([cell], 0.02)
    assert target.rounds_needed(cell) == FEWEST_ROUNDS
    for number in (1, 2, 3):
        target.add(cell, number, [1.0 + wobble * number])
    assert target.rounds_needed(cell) == needed


def test_half_the_width_takes_four_times_the_rounds(make_cell: MakeCell) -> None:
    cell = make_cell()
    values = np.exp(np.random.default_rng(2).normal(0, 0.02, 10)).tolist()

    def needed(half_width: float) -> int:
        target = Target([cell], half_width)
        for number, value in enumerate(values, start=1):
            target.add(cell, number, [value])
        return target.rounds_needed(cell)

    assert needed(0.01) == pytest.approx(4 * needed(0.02), abs=4)
