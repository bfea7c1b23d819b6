"""Figure 7 of the MXNet paper, side by side, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from netdyno.memory import MXNET_1_9, STRATEGIES
from netdyno.memory.figure7 import networks
from netdyno.published.figure7 import (
    PHASES,
    SOURCES,
    Cause,
    Figure7,
    Reason,
    Source,
    images_gradient_gib,
)

__all__ = ["figure7_json", "print_figure7"]

SCHEMA = 1

WORDS = {"forward": "forward", "forward_backward": "forward+backward"}

# Why a rule of 1.9 is another than that of 2015; for other kinds the rule names its source.
WHY = {
    "Flatten": "is the same memory as what it flattens, where 2015 copied if that was still needed",
    "LRN": "keeps its norm, which cuDNN does not",
    "Pool max": "oneDNN has a hidden workspace as large as the output, and in training zeros that "
    "stand for its gradient",
    "ReLU": "can take over its input in training; cuDNN of 2015 read it again going backward",
}

# Half of the last digit that is printed.
VISIBLE_GIB = 0.0005


def print_figure7(figure: Figure7, causes: Sequence[Cause], console: Console) -> None:
    """A row for each strategy, what is saved below them; then one line for each reason."""
    console.print(
        f"Internal memory in GiB, batch size {figure.batch_size}, float32: "
        "figure 7 of arXiv:1512.01274",
        soft_wrap=True,
    )
    console.print(_table(figure))
    for line in [*_agreement(figure), *_causes(figure, causes)]:
        console.print(line, markup=False, soft_wrap=True)
    for reason in figure.reasons:
        style = "red" if reason.failed else "yellow"
        console.print(_reason(figure, reason), style=style, markup=False, soft_wrap=True)


def figure7_json(figure: Figure7, causes: Sequence[Cause]) -> dict[str, Any]:
    """Everything in GiB; what a source lacks is null."""
    keys = [(n, p, s) for n in networks() for p in PHASES for s in STRATEGIES]
    return {
        "schema": SCHEMA,
        "batch_size": figure.batch_size,
        "mxnet_version": figure.mxnet_version,
        "internal_gib": [
            {
                "network": network,
                "phase": phase,
                "strategy": strategy,
                **{
                    source: figure.gib[source].get((network, phase, strategy)) for source in SOURCES
                },
            }
            for network, phase, strategy in keys
        ],
        "naive_over_both": [
            {
                "network": network,
                "phase": phase,
                **{source: figure.saving(source, network, phase) for source in SOURCES},
            }
            for network in networks()
            for phase in PHASES
        ],
        "largest_difference_gib": {
            "published_planned_2015": figure.largest_difference_gib("published", "planned_2015"),
            "planned_1_9_mxnet": figure.largest_difference_gib("planned_1_9", "mxnet"),
        },
        "images_gradient_gib": images_gradient_gib(figure.batch_size),
        "causes": [
            {
                "layer": cause.kind,
                "why": _why(cause),
                "naive_gib": dict(cause.naive),
                "both_gib": dict(cause.both),
            }
            for cause in causes
        ],
        "reasons": [
            {
                "source": reason.source,
                "where": reason.where,
                "reason": reason.text,
                "failed": reason.failed,
            }
            for reason in figure.reasons
        ],
    }


def _table(figure: Figure7) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("network", "pass", "strategy"):
        table.add_column(heading, no_wrap=True)
    for source in SOURCES:
        table.add_column(_title(figure, source), justify="right", no_wrap=True)
    for network in networks():
        for phase in PHASES:
            for strategy in STRATEGIES:
                first = strategy == STRATEGIES[0]
                values = (figure.gib[s].get((network, phase, strategy)) for s in SOURCES)
                table.add_row(
                    network if first and phase == PHASES[0] else "",
                    WORDS[phase] if first else "",
                    strategy,
                    *("-" if value is None else f"{value:.3f}" for value in values),
                )
            savings = (figure.saving(source, network, phase) for source in SOURCES)
            table.add_row(
                "",
                "",
                "naive / both",
                *("-" if saving is None else f"{saving:.2f}x" for saving in savings),
                style="bold",
                end_section=True,
            )
    return table


def _title(figure: Figure7, source: Source) -> str:
    titles: Mapping[Source, str] = {
        "published": "paper",
        "planned_2015": "planner\n2015",
        "planned_1_9": "planner\n1.9",
        "mxnet": f"MXNet\n{figure.mxnet_version or ''}".rstrip(),
    }
    return titles[source]


def _agreement(figure: Figure7) -> list[str]:
    """Where the planner stands for the real thing, and how closely."""
    lines = []
    paper = figure.largest_difference_gib("published", "planned_2015")
    if paper is not None:
        lines.append(f"planner 2015 and paper differ by at most {paper:.3f} GiB")
    real = figure.largest_difference_gib("planned_1_9", "mxnet")
    if real is not None:
        lines.append(
            f"planner 1.9 and MXNet {figure.mxnet_version or ''} differ by at most "
            f"{real:.4f} GiB; MXNet rounds down to MiB and counts its output"
        )
    return lines


def _causes(figure: Figure7, causes: Sequence[Cause]) -> list[str]:
    names = " / ".join(networks())
    images = images_gradient_gib(figure.batch_size)
    lines = [
        f"from 2015 to 1.9, forward+backward, one rule at a time, GiB ({names}):",
        *(f"  {cause.kind} {_why(cause)}: {_numbers(cause)}" for cause in causes),
        f"all hold a gradient of the images in training, {images:.3f} GiB, which nobody asks for",
    ]
    return lines if causes else lines[-1:]


def _why(cause: Cause) -> str:
    return WHY.get(cause.kind) or f"has another rule ({MXNET_1_9.rules[cause.kind].source})"


def _numbers(cause: Cause) -> str:
    parts = []
    for strategy, changes in (("naive", cause.naive), ("both", cause.both)):
        if any(abs(change) >= VISIBLE_GIB for change in changes.values()):
            parts.append(f"{strategy} {' / '.join(_signed(c) for c in changes.values())}")
    return ", ".join(parts) or "less than can be shown"


def _signed(change: float) -> str:
    return f"{change:+.3f}" if abs(change) >= VISIBLE_GIB else "0"


def _reason(figure: Figure7, reason: Reason) -> str:
    title = " ".join(_title(figure, reason.source).split())
    return f"{title}{f', {reason.where}' if reason.where else ''}: {reason.text}"
