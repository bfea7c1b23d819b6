"""Every cell once a round, in an order that is shuffled anew and comes back with its seed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from netdyno.plan.cell import Cell
from netdyno.plan.rounds import rounds


@pytest.fixture
def eight(make_cell: Callable[..., Cell]) -> list[Cell]:
    return [make_cell(batch_size=size) for size in range(1, 9)]


def test_every_cell_once_a_round(eight: list[Cell]) -> None:
    made = list(rounds(eight, 5, seed=1))
    assert [number for number, _ in made] == [1, 2, 3, 4, 5]
    for _, order in made:
        assert sorted(cell.batch_size for cell in order) == list(range(1, 9))


def test_orders_differ_between_rounds_and_seeds(eight: list[Cell]) -> None:
    orders = [
        tuple(cell.key for cell in order) for s in (1, 2) for _, order in rounds(eight, 5, seed=s)
    ]
    assert len(set(orders)) == 10


def test_equal_seeds_give_equal_orders(eight: list[Cell]) -> None:
    assert list(rounds(eight, 3, seed=7)) == list(rounds(eight, 3, seed=7))


def test_more_rounds_do_not_change_the_first_ones(eight: list[Cell]) -> None:
    assert list(rounds(eight, 5, seed=7))[:3] == list(rounds(eight, 3, seed=7))


def test_what_is_given_stays_as_it_is(eight: list[Cell]) -> None:
    before = list(eight)
    list(rounds(eight, 3, seed=1))
    assert eight == before


def test_the_order_of_a_seed_is_pinned(eight: list[Cell]) -> None:
    """A published run names its seed: the order behind it must not change with a release."""
    (_, order), *_ = rounds(eight, 1, seed=1)
    assert [cell.batch_size for cell in order] == [2, 6, 3, 4, 7, 5, 1, 8]
