"""Runs over time, as a person reads them and as JSON."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from netdyno.history import Change, Series, level
from netdyno.redact import printable
from netdyno.stats.change_point import LEAST_RUNS

__all__ = ["history_json", "labels", "print_history", "sparkline"]

BARS = "▁▂▃▄▅▆▇█"
TREND_WIDTH = 24
# In columns: below this, trends are short and the first run's date is left out.
WIDE = 120
NARROW_TREND_WIDTH = 8
# The least difference between the lowest and the highest bar: noise shall look like noise.
LEAST_RANGE = 1.05
# Of what changed, so many are told on a terminal, and so much of each value; JSON has all.
TOLD = 8
VALUE_WIDTH = 40


def print_history(series: Sequence[Series], phase: str, console: Console) -> None:
    """One table, then the changes of each cell, then what the figures mean."""
    named = labels(series)
    console.print(_table(series, named, phase, wide=console.width >= WIDE))
    for one, label in zip(series, named, strict=True):
        if one.changes:
            console.print(_name(one, label), style="bold", markup=False, soft_wrap=True)
        for change in one.changes:
            console.print(
                f"  {_told(change)}",
                style="red" if change.point.ratio > 1 else "green",
                markup=False,
                soft_wrap=True,
            )
    _print_remarks(series, console)


def labels(series: Sequence[Series]) -> list[str]:
    """What tells series of one cell apart: the host where there are several, or the network."""
    several_hosts = len({one.host for one in series}) > 1
    hashes = Counter(cell for cell, _ in {(one.cell, one.network_hash) for one in series})
    return [
        ", ".join(
            printable(part)
            for part in (
                f"on {one.host}" if several_hosts else "",
                f"network {one.network_hash[:8]}" if hashes[one.cell] > 1 else "",
            )
            if part
        )
        for one in series
    ]


def sparkline(seconds: Sequence[float], width: int) -> str:
    """Bars from the fastest to the slowest, in logarithms; neighbours share one if need be."""
    count = min(width, len(seconds))
    edges = [round(i * len(seconds) / count) for i in range(count + 1)]
    shown = [math.log(statistics.median(seconds[edges[i] : edges[i + 1]])) for i in range(count)]
    low = min(shown)
    step = max(max(shown) - low, math.log(LEAST_RANGE)) / (len(BARS) - 1)
    return "".join(BARS[round((value - low) / step)] for value in shown)


def _table(series: Sequence[Series], named: Sequence[str], phase: str, *, wide: bool) -> Table:
    table = Table(
        title="train step" if phase == "train_step" else phase.replace("_", "+"),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("cell", overflow="fold", min_width=16)
    if any(named):
        table.add_column("", overflow="fold")
    table.add_column("runs", justify="right", no_wrap=True)
    for name in ("first", "last") if wide else ("last",):
        table.add_column(name, no_wrap=True)
    table.add_column("latest\nms", justify="right", no_wrap=True)
    table.add_column("trend", no_wrap=True)
    table.add_column("changes", justify="right", no_wrap=True)
    for one, label in zip(series, named, strict=True):
        unverified = " [red]†[/red]" if _is_unverified(one) else ""
        first, last = one.runs[0], one.runs[-1]
        table.add_row(
            escape(printable(one.cell)) + unverified,
            *([escape(label)] if any(named) else []),
            str(len(one.runs)),
            *(f"{run.started:%Y-%m-%d}" for run in ((first, last) if wide else (last,))),
            _ms(level(last)),
            sparkline(
                [level(run) for run in one.runs], TREND_WIDTH if wide else NARROW_TREND_WIDTH
            ),
            str(len(one.changes)) if len(one.runs) >= LEAST_RUNS else "too few",
        )
    return table


def _is_unverified(series: Series) -> bool:
    return not all(run.verified for run in series.runs)


def _ms(seconds: float) -> str:
    milliseconds = seconds * 1e3
    return f"{milliseconds:.{0 if milliseconds >= 1000 else 1 if milliseconds >= 100 else 2}f}"


def _name(series: Series, label: str) -> str:
    return printable(f"{series.cell}  {label}")


def _told(change: Change) -> str:
    """One line: when, by how much, between which runs, and what else changed meanwhile."""
    point = change.point
    told = [
        f"{_short(d.what)} {_short(d.before)} → {_short(d.after)}"
        for d in change.differences[:TOLD]
    ]
    if len(change.differences) > TOLD:
        told.append(f"{len(change.differences) - TOLD} more (--json)")
    return (
        f"{change.first.started:%Y-%m-%d}: {point.ratio:.3f} ({point.ratio_low:.3f} to "
        f"{point.ratio_high:.3f}) {'slower' if point.ratio > 1 else 'faster'}, between "
        f"{_run(change.before.run)} and {_run(change.after.run)}; "
        f"changed meanwhile: {', '.join(told) or 'nothing that is recorded'}"
    )


def _run(path: Path) -> str:
    return printable(path.name)


def _short(text: str) -> str:
    text = printable(text)
    return text if len(text) <= VALUE_WIDTH else f"{text[: VALUE_WIDTH - 1]}…"


def _print_remarks(series: Sequence[Series], console: Console) -> None:
    remarks = [
        "latest: median over the newest run's processes.  trend: from the fastest to the slowest "
        "run, 5 % at least."
    ]
    if any(one.changes for one in series):
        remarks.append(
            "Changes: time after / time before and when, both with a 95 % interval; the date is "
            "that of the first run after it."
        )
    if any(len(one.runs) < LEAST_RUNS for one in series):
        remarks.append(f"too few: fewer than {LEAST_RUNS} runs cannot show a change.")
    for remark in remarks:
        console.print(remark, style="dim", markup=False, soft_wrap=True)
    if any(map(_is_unverified, series)):
        console.print(
            "†: in some runs NOT VERIFIED to compute what the others compute.", style="red"
        )


def history_json(
    series: Sequence[Series], phase: str, skipped: Mapping[Path, str]
) -> dict[str, Any]:
    """What ``--json`` prints: units in the names, times as they were measured."""
    return {
        "schema": 1,
        "phase": phase,
        "series": [_series_json(one) for one in series],
        "skipped": [{"run": run.name, "reason": reason} for run, reason in skipped.items()],
    }


def _series_json(series: Series) -> dict[str, Any]:
    return {
        "cell": series.cell,
        "network_hash": series.network_hash,
        "host": series.host,
        "runs": [
            {
                "run": run.run.name,
                "started": run.started.isoformat(),
                "netdyno": run.netdyno,
                "verified": run.verified,
                "seconds": level(run),
                "process_seconds": list(run.seconds),
            }
            for run in series.runs
        ],
        "changes": [_change_json(change) for change in series.changes],
    }


def _change_json(change: Change) -> dict[str, Any]:
    point = change.point
    return {
        "run": change.first.run.name,
        "started": change.first.started.isoformat(),
        "after": change.before.run.name,
        "until": change.after.run.name,
        "ratio": point.ratio,
        "ratio_low": point.ratio_low,
        "ratio_high": point.ratio_high,
        "p": point.p,
        "changed": {d.what: [d.before, d.after] for d in change.differences},
    }
