"""The largest batches that fit, from the trials of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from netdyno.frameworks import frameworks
from netdyno.report.progress import PHASE_NAMES
from netdyno.store.run import Run
from netdyno.store.trial import Trial

__all__ = ["LargestBatch", "largest_batches", "max_batch_json", "print_max_batch"]

# All of a cell's axes but the one that was searched along.
AXES = ("network", "framework", "mode", "precision", "layout", "device", "threads")


@dataclass(frozen=True)
class LargestBatch:
    """What came of one search. ``batch_size``: the largest that fits, None if none was seen to.

    ``total_bytes`` were held then. ``bound``: how the smallest that does not fit ended, with its
    ``reason``: ``out_of_memory``, or something else that stopped the search there. ``exact``: the
    very next batch size was tried. ``tried``: how each ended, by batch size. ``verified``: it was
    held against the reference before, and passed.
    """

    cell: Mapping[str, Any]
    batch_size: int | None
    total_bytes: int | None
    bound: str
    reason: str
    exact: bool
    tried: Mapping[int, str]
    verified: bool

    @property
    def ok(self) -> bool:
        """Whether there is an answer, and it is memory that sets it."""
        return self.exact and self.bound in ("", "out_of_memory")


def largest_batches(run: Run) -> list[LargestBatch]:
    """A result for each cell that was asked for."""
    searches: dict[tuple[Any, ...], list[Trial]] = {}
    for trial in run.memory_trials:
        axes = tuple(run.cells[trial.cell][axis] for axis in AXES)
        searches.setdefault(axes, []).append(trial)
    return [_result(run, trials) for trials in searches.values()]


def _result(run: Run, trials: list[Trial]) -> LargestBatch:
    size_of = {trial.cell: int(run.cells[trial.cell]["batch_size"]) for trial in trials}
    fitting = [trial for trial in trials if trial.status == "ok"]
    others = [trial for trial in trials if trial.status != "ok"]
    best = max(fitting, key=lambda trial: size_of[trial.cell], default=None)
    worst = min(others, key=lambda trial: size_of[trial.cell], default=None)
    low = size_of[best.cell] if best else 0
    high = size_of[worst.cell] if worst else run.data["max_batch"]["most"] + 1
    memory = best.memory.get(run.data["max_batch"]["phase"]) if best else None
    return LargestBatch(
        cell=run.cells[trials[0].cell],
        batch_size=low or None,
        total_bytes=memory.total_bytes if memory else None,
        bound=worst.status if worst else "",
        reason=worst.reason if worst else "",
        exact=high - low == 1,
        tried={size_of[trial.cell]: trial.status for trial in trials},
        # Of the first try: larger batches run the same code.
        verified=bool(run.data.get("verification", {}).get(trials[0].cell, {}).get("passed")),
    )


def max_batch_json(run: Run) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {
        "schema": 1,
        "netdyno": run.data["netdyno"],
        "run": run.path.name,
        "status": run.data["status"],
        "host": run.data["host"],
        **{key: run.data["max_batch"][key] for key in ("phase", "limit_bytes")},
        "searches": [
            {
                **{axis: found.cell[axis] for axis in AXES},
                "largest_batch_size": found.batch_size,
                "total_bytes": found.total_bytes,
                "bound": found.bound,
                "reason": found.reason,
                "exact": found.exact,
                "verified": found.verified,
                "tried": {str(size): status for size, status in sorted(found.tried.items())},
            }
            for found in largest_batches(run)
        ],
    }


def print_max_batch(run: Run, console: Console) -> None:
    """One table for all searches, then why some have no answer."""
    how = run.data["max_batch"]
    found = largest_batches(run)
    table = Table(
        title=escape(f"largest batch of a {PHASE_NAMES[how['phase']]} that fits"),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for heading in ("network", "framework", "mode", "device"):
        table.add_column(heading, no_wrap=True)
    for heading in ("largest\nbatch", "total\nGB", "GB an\nimage", "tries"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in found:
        table.add_row(*_cells(result))
    console.print(table)
    on_cpu = any(result.cell["device"] == "cpu" for result in found)
    if on_cpu:
        limit = f"{how['limit_bytes'] / 1e9:.3g} GB"
        console.print(f"On the CPU a process may allocate {limit} here.", style="dim")
    if any(result.batch_size and not result.verified for result in found):
        console.print("†: NOT VERIFIED to compute what the others compute.", style="red")
    for result in found:
        if not result.ok:
            where = f"{result.cell['framework']} {result.cell['mode']}, {result.cell['network']}"
            why = f"{result.bound.replace('_', ' ')}: {result.reason}" if result.bound else "?"
            console.print(f"≥ {where}: the search ended by {why}", style="yellow", markup=False)


def _cells(result: LargestBatch) -> list[str]:
    name = str(result.cell["framework"])
    title = frameworks()[name].title if name in frameworks() else name
    size, total = result.batch_size, result.total_bytes
    largest = "[red]none[/red]" if size is None else f"[bold]{size}[/bold]"
    return [
        escape(str(result.cell["network"])),
        escape(title),
        escape(str(result.cell["mode"])) + ("" if result.verified else " †"),
        str(result.cell["device"]),
        largest + ("" if result.ok else " ≥"),
        f"{total / 1e9:.2f}" if total else "-",
        f"{total / size / 1e9:.4f}" if total and size else "-",
        str(len(result.tried)),
    ]
