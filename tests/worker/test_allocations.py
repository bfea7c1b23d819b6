"""Counting blocks that are allocated and freed within a piece of work."""

from __future__ import annotations

from pathlib import Path

import memray
import numpy as np
import pytest

from netdyno_worker.allocations import Instrument, account

FOLDER = str(Path(memray.__file__).parent.parent)
MEGABYTE = 10**6


def test_only_what_is_born_and_freed_within_counts() -> None:
    seen = account(
        [
            (1, 100, False),  # kept
            (9, 0, True),  # was there before
            (2, 30, False),
            (3, 40, False),
            (2, 0, True),
            (4, 25, False),
            (4, 0, True),
            (3, 0, True),
        ]
    )
    assert (seen.peak_bytes, seen.kept_bytes) == (70, 100)
    assert seen.largest == [40, 30]


def test_an_address_serves_again() -> None:
    seen = account([(1, 10, False), (1, 0, True), (1, 20, False), (1, 0, True), (1, 7, False)])
    assert (seen.peak_bytes, seen.kept_bytes, seen.largest) == (20, 7, [20])


def test_a_block_of_no_bytes_is_none() -> None:
    # Both are there, and gone, before the peak, up to which the largest are looked for.
    records = [(1, 0, False), (1, 0, True), (2, 8, False), (2, 0, True)]
    assert account(records) == (8, 0, [8])


def test_nothing_happened() -> None:
    assert account([]) == (0, 0, [])


def test_against_blocks_of_known_size() -> None:
    instrument = Instrument(FOLDER)
    assert instrument.problem == ""
    before = np.ones(3 * MEGABYTE, np.uint8)
    kept = []

    def work() -> None:
        first = np.ones(8 * MEGABYTE, np.uint8)
        kept.append(np.ones(5 * MEGABYTE, np.uint8))
        del first
        second = np.ones(6 * MEGABYTE, np.uint8)
        third = np.ones(4 * MEGABYTE, np.uint8)
        del second, third

    seen = instrument.watch(work)
    assert seen.peak_bytes == pytest.approx(10 * MEGABYTE, rel=1e-3)
    assert seen.kept_bytes == pytest.approx(5 * MEGABYTE, rel=1e-3)
    assert seen.largest[:2] == [6 * MEGABYTE, 4 * MEGABYTE]
    assert before.any()


def test_what_the_work_raises_comes_through() -> None:
    def work() -> None:
        raise RuntimeError("told to")

    with pytest.raises(RuntimeError, match="told to"):
        Instrument(FOLDER).watch(work)


def test_without_a_folder() -> None:
    assert Instrument(None, "no network").problem == "no network"


def test_what_is_not_memray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memray.py").write_text("raise ImportError('made for another libc')")
    monkeypatch.delitem(__import__("sys").modules, "memray")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert "made for another libc" in Instrument(str(tmp_path)).problem


def test_one_that_counts_wrong_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Instrument.watch

    def half(self: Instrument, work: object) -> object:
        seen = real(self, work)  # type: ignore[arg-type]
        return seen._replace(peak_bytes=seen.peak_bytes // 2)

    monkeypatch.setattr(Instrument, "watch", half)
    assert "where" in Instrument(FOLDER).problem
