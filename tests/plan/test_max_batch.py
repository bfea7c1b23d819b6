"""Which batch size to try next."""

from __future__ import annotations

import pytest

from netdyno.plan.max_batch import Attempt, largest, next_try


def search(limit: int, *, start: int = 32, most: int = 65_536, slope: int = 10) -> list[Attempt]:
    """Batches up to ``limit`` fit; they take 1000 bytes and ``slope`` an image."""

    def attempt(size: int) -> Attempt:
        return Attempt(size, size <= limit, 1000 + slope * size if size <= limit else None)

    return largest(attempt, start=start, most=most, limit_bytes=1000 + slope * limit)


@pytest.mark.parametrize("limit", [1, 2, 3, 31, 32, 33, 100, 257, 1000, 4097, 65_535, 65_536])
@pytest.mark.parametrize("start", [1, 32, 1000])
def test_the_largest_is_found(limit: int, start: int) -> None:
    tried = search(limit, start=start)
    sizes = [attempt.batch_size for attempt in tried]
    assert max(a.batch_size for a in tried if a.fits) == limit
    assert limit + 1 in sizes or limit == 65_536
    assert len(sizes) == len(set(sizes))
    assert len(tried) <= 24


def test_nothing_fits() -> None:
    tried = search(0, start=8)
    assert [attempt.batch_size for attempt in tried] == [8, 4, 2, 1]


def test_a_good_guess_saves_tries() -> None:
    def attempt(size: int) -> Attempt:
        return Attempt(size, size <= 3000)

    blind = largest(attempt, start=32, most=65_536, limit_bytes=None)
    assert len(search(3000)) < len(blind)


def test_a_wrong_guess_only_costs_tries() -> None:
    def attempt(size: int) -> Attempt:
        return Attempt(size, size <= 500, 10 * size if size <= 500 else None)

    tried = largest(attempt, start=32, most=65_536, limit_bytes=10**9)
    assert max(a.batch_size for a in tried if a.fits) == 500
    assert len(tried) <= 24


def test_memory_that_does_not_grow_gives_no_guess() -> None:
    tried = [Attempt(32, True, 100), Attempt(64, True, 100)]
    assert next_try(tried, most=65_536, limit_bytes=1000) == 128


def test_one_that_cannot_run_at_all_is_not_tried_again() -> None:
    assert next_try([Attempt(0, False)], most=65_536, limit_bytes=None) is None
