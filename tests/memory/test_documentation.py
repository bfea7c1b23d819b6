"""Every figure that docs/memory.md shows of a plan, worked out again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netdyno.memory import (
    MXNET_1_9,
    MXNET_2015,
    PLAIN,
    STRATEGIES,
    RuleSet,
    lower_bound,
    plan,
)
from netdyno.memory.figure7 import BATCH_SIZE, PUBLISHED_GIB, networks
from netdyno.networks import Network, build

PAGE = (Path(__file__).parents[2] / "docs" / "memory.md").read_text(encoding="utf-8")
PHASES = {"forward": False, "forward+backward": True}


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of the tables under a heading; an empty first cell repeats the one above."""
    first = ""
    for line in PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0].splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
            first = cells[0] or first
            yield [first, *cells[1:]]


def needed(
    network: Network, training: bool, rules: RuleSet, batch_size: int, unit_bytes: int
) -> list[float]:
    """Under the four strategies, and the lower bound."""
    totals = [
        plan(
            network, batch_size=batch_size, training=training, strategy=strategy, rules=rules
        ).internal_bytes
        for strategy in STRATEGIES
    ]
    totals.append(lower_bound(network, batch_size=batch_size, training=training, rules=rules))
    return [total / unit_bytes for total in totals]


def test_the_table_of_the_paper() -> None:
    shown = [row for row in rows("Against the paper") if row[0] in PHASES]
    expected = []
    for phase, training in PHASES.items():
        columns = {
            name: needed(network, training, MXNET_2015, BATCH_SIZE, 2**30)
            for name, network in networks().items()
        }
        for index, strategy in enumerate(STRATEGIES):
            published = PUBLISHED_GIB[training][strategy]
            expected.append(
                [
                    phase,
                    strategy,
                    *(f"{columns[n][index]:.3f} / {published[n]:.3f}" for n in columns),
                ]
            )
        expected.append([phase, "lower bound", *(f"{columns[n][-1]:.3f}" for n in columns)])
    assert shown == expected


@pytest.mark.parametrize(
    ("heading", "rules", "digits"),
    [("Against MXNet 1.9.1", MXNET_1_9, 1), ("Without the habits of a build", PLAIN, 0)],
)
def test_the_tables_of_batch_128(heading: str, rules: RuleSet, digits: int) -> None:
    shown = [row for row in rows(heading) if row[1] in PHASES]
    assert len(shown) >= 8
    for name, phase, *cells in shown:
        planned = needed(build(name), PHASES[phase], rules, 128, 2**20)
        assert [cell.split(" / ")[0] for cell in cells] == [f"{x:.{digits}f}" for x in planned]


def test_the_table_of_rules_is_that_of_the_code() -> None:
    shown = {row[0]: row for row in rows("Rules") if row[0] in PLAIN.rules and len(row) == 5}
    assert set(shown) == set(PLAIN.rules)
    for kind, rule in PLAIN.rules.items():
        _, saved, reads, forward, backward = shown[kind]
        assert tuple(reads.split(", ")) == rule.reads
        assert all(one.name in saved for one in rule.saved)
        assert bool(saved) == bool(rule.saved)
        assert bool(forward) == (rule.forward != "no")
        assert forward.startswith("is ") == (rule.forward == "view")
        assert backward.removeprefix("is the ") == (rule.backward_takes or "")
        assert backward.startswith("is ") == rule.backward_view
