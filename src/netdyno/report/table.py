"""The table a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from netdyno.frameworks import frameworks
from netdyno.report.summary import Row, summary
from netdyno.stats.estimate import Estimate
from netdyno.store.run import Run

__all__ = ["print_run"]

# Axes that go into the heading when all cells agree, and into the framework's column when not.
SHARED = ("device", "precision", "threads", "host_allocator")


def print_run(run: Run, console: Console) -> None:
    """One table for each network and batch size, then the versions and what went wrong."""
    rows = summary(run)
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cell["network"], row.cell["batch_size"]), []).append(row)
    varying = [axis for axis in SHARED if len({row.cell[axis] for row in rows}) > 1]
    for (network, batch_size), members in groups.items():
        heading = f"{network}, batch {batch_size}"
        fixed = [_axis(axis, rows[0].cell) for axis in SHARED if axis not in varying]
        console.print(_table(f"{heading}  ({', '.join(fixed)})", members, varying))
    _print_remarks(run, rows, console)


def _table(title: str, rows: list[Row], varying: list[str]) -> Table:
    table = Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("framework", no_wrap=True)
    table.add_column("mode", no_wrap=True)
    for axis in varying:
        table.add_column(axis.replace("_", " "))
    for name in ("forward", "backward*", "forward+backward", "train step"):
        table.add_column(f"{name}\nms", justify="right", no_wrap=True)
    table.add_column("images\n/s", justify="right", no_wrap=True)
    table.add_column("first\niter. s", justify="right", no_wrap=True)
    table.add_column("faults\n/iter.", justify="right", no_wrap=True)
    table.add_column("trials", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            frameworks()[row.cell["framework"]].title
            if row.cell["framework"] in frameworks()
            else escape(row.cell["framework"]),
            escape(row.cell["mode"]) + (" [red]†[/red]" if _is_unverified(row) else ""),
            *(escape(str(row.cell[axis])) for axis in varying),
            *_figures(row),
            _trials(row),
        )
    return table


def _is_unverified(row: Row) -> bool:
    return row.forward_backward is not None and not row.verified


def _figures(row: Row) -> list[str]:
    if row.forward_backward is None:
        return ["-"] * 7
    return [
        _ms(row.forward),
        f"{row.backward_seconds * 1e3:.3g}" if row.backward_seconds is not None else "-",
        f"[bold]{_ms(row.forward_backward)}[/bold]",
        _ms(row.train_step),
        _rate(row.images_per_second),
        f"{row.first_iteration_seconds:.2f}" if row.first_iteration_seconds is not None else "-",
        f"{row.minor_faults:,.0f}" if row.minor_faults is not None else "-",
    ]


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ms(value: Estimate | None) -> str:
    if value is None:
        return "-"
    milliseconds = value.seconds * 1e3
    digits = 0 if milliseconds >= 1000 else 1 if milliseconds >= 100 else 2
    return f"{milliseconds:.{digits}f} ±{value.spread:>3.0%}"


def _trials(row: Row) -> str:
    if not row.trials:
        return "[yellow]none[/yellow]"
    parts = []
    for status, count in sorted(row.trials.items()):
        text = f"{count} {status.replace('_', ' ')}"
        parts.append(text if status == "ok" else f"[red]{text}[/red]")
    return ", ".join(parts)


def _axis(axis: str, cell: Mapping[str, Any]) -> str:
    value = cell[axis]
    if axis == "threads":
        return f"{value} thread{'s' if value != 1 else ''}"
    return f"{value} allocator" if axis == "host_allocator" else str(value)


def _print_remarks(run: Run, rows: list[Row], console: Console) -> None:
    console.print(
        "±: half the distance between the fastest and the slowest process.  "
        "*: forward+backward less forward.",
        style="dim",
    )
    if any(map(_is_unverified, rows)):
        console.print("†: NOT VERIFIED to compute what the others compute.", style="red")
    seen = set()
    for row in rows:
        versions = row.fingerprint.get("versions", {})
        line = ", ".join(f"{name} {version}" for name, version in versions.items())
        if line and line not in seen:
            seen.add(line)
            console.print(f"{row.cell['framework']}: {line}", style="dim", markup=False)
        for note in row.fingerprint.get("notes", []):
            text = f"{row.cell['framework']}, {row.cell['network']}: {note}"
            if text not in seen:
                seen.add(text)
                console.print(f"note: {text}", style="yellow", markup=False)
    if len(_kernel_libraries(rows)) > 1:
        console.print(
            "As shipped: each framework brings its own kernel libraries, of the versions above. "
            "A difference between rows may be theirs.",
            style="yellow",
        )
    for row in rows:
        if row.reason:
            console.print(
                f"{row.cell['key']}: {row.reason}", style="red", markup=False, soft_wrap=True
            )
    if run.data["status"] in ("interrupted", "budget"):
        how = {"interrupted": "was interrupted", "budget": "ended when its budget was spent"}
        console.print(f"This run {how[run.data['status']]}.", style="yellow")


def _kernel_libraries(rows: list[Row]) -> set[tuple[tuple[str, str], ...]]:
    """What each row's framework brings besides itself."""
    return {
        tuple(
            (name, version)
            for name, version in sorted(row.fingerprint["versions"].items())
            if name != row.cell["framework"]
        )
        for row in rows
        if row.fingerprint
    }
