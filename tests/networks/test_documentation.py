"""docs/networks.md says what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from netdyno.networks import build, entries, names
from netdyno.networks.cost import count

PAGE = (Path(__file__).parents[2] / "docs" / "networks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", names())
def test_the_table_of_networks(name: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    network = build(name)
    cost = count(network)
    assert [cell.strip() for cell in row.split("|")][3:7] == [
        "x".join(map(str, network.input_shape)),
        f"{cost.parameters:,}",
        f"{cost.forward_flop / 1e9:.3f}",
        f"{cost.backward_flop / 1e9:.3f}",
    ]


def test_the_table_of_options() -> None:
    for entry in entries().values():
        for option in entry.options:
            assert f"\n| `{option.name}` | " in PAGE


@pytest.mark.parametrize(
    "spec",
    ["googlenet:lrn:aux_heads=on:dropout=off", "resnet50:stride_in=1x1:size=192:classes=100"],
)
def test_the_examples_work(spec: str) -> None:
    assert f"\n{spec}\n" in PAGE
    build(spec)
