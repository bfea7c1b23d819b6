"""The table that docs/figure-7.md shows, worked out again where no MXNet is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from netdyno.memory import MXNET_1_9, MXNET_2015, STRATEGIES
from netdyno.memory.figure7 import BATCH_SIZE, networks
from netdyno.published.figure7 import PHASES, planned, published

PAGE = (Path(__file__).parents[2] / "docs" / "figure-7.md").read_text(encoding="utf-8")
# MXNet rounds down to MiB and counts its output; the page shows three digits.
ROUNDING_GIB = 0.001 + 0.0003 + 0.0005


def rows() -> Iterator[list[float]]:
    """Paper, both planners and MXNet, in the order of the table."""
    for line in PAGE.splitlines():
        found = re.search(rf"\b(?:{'|'.join(STRATEGIES)})((?: +\d\.\d{{3}}){{4}})$", line)
        if found:
            yield [float(word) for word in found[1].split()]


def test_every_row_of_the_table() -> None:
    keys = [(n, p, s) for n in networks() for p in PHASES for s in STRATEGIES]
    shown = dict(zip(keys, rows(), strict=True))
    paper, _ = published(BATCH_SIZE)
    old, new = (planned(BATCH_SIZE, rules) for rules in (MXNET_2015, MXNET_1_9))
    for key, (paper_gib, old_gib, new_gib, mxnet_gib) in shown.items():
        expected = (f"{values[key]:.3f}" for values in (paper, old, new))
        assert [f"{gib:.3f}" for gib in (paper_gib, old_gib, new_gib)] == list(expected), key
        assert abs(mxnet_gib - new[key]) < ROUNDING_GIB, key
