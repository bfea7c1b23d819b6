"""Cells of two runs (or two cells of one) held against each other: what `netdyno compare` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from netdyno.comparability import Verdict, fingerprint_of, verdict
from netdyno.errors import NetdynoError
from netdyno.stats.estimate import Estimate, estimate
from netdyno.stats.ratio import Call, Ratio, paired_ratio, unpaired_ratio
from netdyno.store.run import Run
from netdyno.store.select import Selection

__all__ = ["Pair", "compare", "comparison_json", "unmatched"]


@dataclass(frozen=True)
class Pair:
    """One cell of each side, A the baseline. ``ratio``: time of B over time of A.

    ``problem``: why there is no ratio; empty where there is one.
    """

    a_key: str
    b_key: str
    a: Estimate | None
    b: Estimate | None
    ratio: Ratio | None
    verdict: Verdict
    problem: str

    @property
    def call(self) -> Call | None:
        """Whether B is slower or faster; None where that must not be asked."""
        if self.ratio is None or self.verdict.kind == "invalid":
            return None
        return self.ratio.call()

    def slower_than(self, share: float) -> bool:
        """Whether B is slower than A by more than ``share`` beyond doubt."""
        return (
            self.call is not None
            and self.ratio is not None
            and self.ratio.low is not None
            and self.ratio.low > 1 + share
        )


def compare(a: Selection, b: Selection, phase: str) -> list[Pair]:
    """Cells of equal key; where one cell of each side was named, those two.

    Raises:
        NetdynoError: there is nothing to compare.
    """
    if _same(a.run, b.run):  # read twice: one host, and one set of trials
        b = Selection(a.run, b.pattern, b.keys)
    if len(a.keys) == len(b.keys) == 1 and a.pattern and b.pattern:
        return [_pair(a.run, a.keys[0], b.run, b.keys[0], phase)]
    common = [key for key in a.keys if key in b.keys]
    if not common:
        raise NetdynoError(
            f"{a.run.path} and {b.run.path} have no cell in common; name one of each, as in "
            f"{a.run.path.name}:{a.keys[0]}"
        )
    if _same(a.run, b.run):
        raise NetdynoError("A and B are the same cells: name a cell of each, as in RUN:pytorch")
    return [_pair(a.run, key, b.run, key, phase) for key in common]


def unmatched(a: Selection, b: Selection) -> list[str]:
    """What was left out since only one side has it, one line each."""
    if len(a.keys) == len(b.keys) == 1:
        return []
    return [f"only in A: {key}" for key in a.keys if key not in b.keys] + [
        f"only in B: {key}" for key in b.keys if key not in a.keys
    ]


def _same(a: Run, b: Run) -> bool:
    return a.path.resolve() == b.path.resolve()


def _pair(a: Run, a_key: str, b: Run, b_key: str, phase: str) -> Pair:
    first, second = a.seconds(a_key, phase), b.seconds(b_key, phase)
    paired = _same(a, b)
    ratio = (
        paired_ratio(second, first)
        if paired
        else unpaired_ratio(list(second.values()), list(first.values()))
    )
    problem = ""
    for side, run, key in (("A", a, a_key), ("B", b, b_key)):
        if run.all_disturbed(key, phase):
            problem = f"{side} was measured on a disturbed machine only: measure it again"
        elif not any(run.seconds(key, phase).values()):
            problem = f"{side} has no good trial"
    return Pair(
        a_key,
        b_key,
        estimate(list(first.values())),
        estimate(list(second.values())),
        None if problem else ratio,
        verdict(fingerprint_of(a, a_key), fingerprint_of(b, b_key)),
        problem,
    )


def comparison_json(
    a: Selection, b: Selection, phase: str, pairs: Sequence[Pair], left_out: Sequence[str]
) -> dict[str, Any]:
    """Seconds, shares and verdicts as plain data."""
    return {
        "schema": 1,
        "a": {"run": a.run.path.name, "started": a.run.data["started"]},
        "b": {"run": b.run.path.name, "started": b.run.data["started"]},
        "phase": phase,
        "cells": [_pair_json(pair) for pair in pairs],
        "left_out": list(left_out),
    }


def _pair_json(pair: Pair) -> dict[str, Any]:
    return {
        "a_cell": pair.a_key,
        "b_cell": pair.b_key,
        "a": vars(pair.a) if pair.a else None,
        "b": vars(pair.b) if pair.b else None,
        "ratio": vars(pair.ratio) if pair.ratio else None,
        "call": pair.call,
        "verdict": pair.verdict.kind,
        "differences": [vars(difference) for difference in pair.verdict.differences],
        "problem": pair.problem,
    }
