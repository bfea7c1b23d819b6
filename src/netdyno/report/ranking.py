"""Who is faster than whom, where that may be said."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netdyno.comparability import Kind, fingerprint_of, grouping
from netdyno.plan.cell import GROUP_AXES
from netdyno.plan.request import PRIMARY_PHASE
from netdyno.stats.ratio import Call, Ratio, paired_ratio
from netdyno.store.run import Run

__all__ = ["Place", "groups", "like_for_like", "places"]


@dataclass(frozen=True)
class Place:
    """Of a cell among those it may be ranked with.

    ``verdict``: of the comparison within its group. ``rank``: 1 + how many are faster beyond doubt,
    so that cells that cannot be told apart share one; None where there is no ranking.
    ``ratio``: to the fastest, ``fastest``, by key; None for itself. ``call``: what may be said of
    the ratio.
    """

    verdict: Kind
    rank: int | None = None
    fastest: str | None = None
    ratio: Ratio | None = None
    call: Call | None = None


def groups(run: Run) -> list[list[str]]:
    """Keys of the cells whose axes allow a ranking together, in the order asked."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for key, cell in run.cells.items():
        found.setdefault(tuple(cell.get(axis) for axis in GROUP_AXES), []).append(key)
    return list(found.values())


def places(run: Run, *, strict: bool = False) -> dict[str, Place]:
    """Of every cell, by key. ``strict``: rank only what is like for like."""
    found: dict[str, Place] = {}
    for keys in groups(run):
        measured = {
            key: blocks
            for key in keys
            # What was measured on a disturbed machine only, is shown and not ranked.
            if not run.all_disturbed(key, PRIMARY_PHASE)
            and any((blocks := run.seconds(key, PRIMARY_PHASE)).values())
        }
        verdict = grouping([fingerprint_of(run, key) for key in measured])
        found.update({key: Place(verdict) for key in keys})
        may_rank = verdict == "like-for-like" if strict else verdict != "invalid"
        if may_rank and measured:
            found.update(_ranked(measured, verdict))
    return found


def like_for_like(run: Run) -> bool:
    """Whether every group of cells may be ranked without reserve."""
    return all(place.verdict == "like-for-like" for place in places(run, strict=True).values())


def _ranked(
    measured: Mapping[str, Mapping[int, Sequence[float]]], verdict: Kind
) -> dict[str, Place]:
    fastest = min(measured, key=lambda key: _centre(measured[key]))
    found = {}
    for key, blocks in measured.items():
        faster = [
            ratio.call() == "slower"
            for other, theirs in measured.items()
            if other != key and (ratio := paired_ratio(blocks, theirs))
        ]
        ratio = paired_ratio(blocks, measured[fastest]) if key != fastest else None
        call = ratio.call() if ratio else None
        found[key] = Place(verdict, 1 + sum(faster), fastest, ratio, call)
    return found


def _centre(blocks: Mapping[int, Sequence[float]]) -> float:
    return statistics.median(statistics.median(values) for values in blocks.values() if values)
