"""The table of memory that a person reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from netdyno.frameworks import frameworks
from netdyno.plan.job import MEMORY_PHASES
from netdyno.report.memory import LOWER_BOUND, MemoryRow, memory_rows, planned
from netdyno.report.progress import PHASE_NAMES
from netdyno.store.run import Run

__all__ = ["megabytes", "print_memory"]

AXES = ("network", "batch_size", "device", "precision")
HEADINGS = (
    "internal\nMB",
    "by the\nframework",
    "MB an\nimage",
    "times the\nlower bound",
    "arrays\nMB",
    "other\nMB",
    "total\nMB",
)
# Of the planner; `--json` has all strategies.
PLANNED = ("naive", "both", LOWER_BOUND)


def print_memory(run: Run, console: Console) -> None:
    """A table for each network and batch size, phase by phase; then what to know of them."""
    rows = memory_rows(run)
    groups: dict[tuple[object, ...], list[MemoryRow]] = {}
    for row in rows:
        groups.setdefault(tuple(row.cell[axis] for axis in AXES), []).append(row)
    for members in groups.values():
        console.print(_table(members))
    _print_remarks(rows, console)


def megabytes(value: float | None) -> str:
    """Of bytes: MB are 10^6."""
    if value is None:
        return "-"
    number = value / 1e6
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _table(rows: Sequence[MemoryRow]) -> Table:
    cell = rows[0].cell
    title = (
        f"{cell['network']}, batch {cell['batch_size']}  ({cell['device']}, {cell['precision']})"
    )
    table = Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("framework", no_wrap=True)
    table.add_column("mode", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for phase in MEMORY_PHASES:
        members = [row for row in rows if row.phase == phase]
        if members:
            table.add_row(f"[bold]{PHASE_NAMES[phase]}[/bold]")
            for row in members:
                table.add_row(*_cells(row))
            _add_planner(table, members[0])
            table.add_section()
    return table


def _cells(row: MemoryRow) -> list[str]:
    name = [escape(_title(row)), escape(str(row.cell["mode"])) + ("" if row.verified else " †")]
    memory = row.memory
    if memory is None:
        return [*name, f"[red]{row.status.replace('_', ' ')}[/red]"]
    reported = megabytes(memory.reported_bytes)
    if memory.disagreement is not None and not memory.agrees:
        reported = f"[yellow]{reported} ≠[/yellow]"
    return [
        *name,
        f"[bold]{megabytes(memory.internal_bytes)}[/bold]",
        reported,
        megabytes(row.bytes_per_image),
        _times(memory.internal_bytes, planned(row.case)[LOWER_BOUND]),
        megabytes(row.arrays.total),
        megabytes(row.other_bytes),
        megabytes(memory.total_bytes),
    ]


def _times(value: int | None, bound: int) -> str:
    return "-" if value is None or not bound else f"{value / bound:.2f}"


def _add_planner(table: Table, row: MemoryRow) -> None:
    found = planned(row.case)
    for strategy in PLANNED:
        size = found[strategy]
        table.add_row(
            "planner",
            strategy,
            megabytes(size),
            "",
            megabytes(size / row.case.batch_size),
            _times(size, found[LOWER_BOUND]),
            style="dim",
        )


def _title(row: MemoryRow) -> str:
    name = str(row.cell["framework"])
    return frameworks()[name].title if name in frameworks() else name


def _where(row: MemoryRow) -> str:
    return f"{_title(row)} {row.cell['mode']}, {PHASE_NAMES[row.phase]}, {row.cell['network']}"


def _print_remarks(rows: Sequence[MemoryRow], console: Console) -> None:
    console.print(
        "MB: 10^6 bytes.  internal: the peak of what one pass allocates and frees, which is beyond "
        "its arrays.  arrays: parameters, gradients, optimizer state, inputs, outputs, each once.  "
        "total: all that the process holds (on a GPU: that the GPU holds).  other: the rest of it, "
        "context, libraries, caches, second copies.",
        style="dim",
        soft_wrap=True,
    )
    once = _Once(console)
    for row in rows:
        if row.memory and row.memory.source:
            once.line(f"{_title(row)} {row.cell['mode']}: {row.memory.kind}, {row.memory.source}")
        if row.memory and row.memory.observed_bytes is not None:
            once.line(f"internal of {_title(row)}: as seen by {row.memory.observed_source}")
    for row in rows:
        if row.memory and row.memory.observed_problem:
            once.line(
                f"{_title(row)} {row.cell['mode']}: internal is what the framework itself tells: "
                f"{row.memory.observed_problem}",
                "yellow",
            )
    _print_differences(rows, once)
    if any(row.memory and not row.verified for row in rows):
        once.line("†: NOT VERIFIED to compute what the others compute.", "red")
    for row in rows:
        if row.reason:
            once.line(f"{row.cell['key']}: {row.reason}", "red")


def _print_differences(rows: Iterable[MemoryRow], once: _Once) -> None:
    for row in rows:
        memory = row.memory
        if memory is None:
            continue
        if memory.disagreement is not None and not memory.agrees:
            reason = memory.remark or "not explained"
            once.line(f"≠ {_where(row)}: {memory.disagreement:+.0%}: {reason}", "yellow")
        elif memory.reported_bytes is None and memory.remark:
            once.line(f"{_title(row)} {row.cell['mode']}: {memory.remark}", "dim")


class _Once:
    """Says nothing twice."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: set[str] = set()

    def line(self, text: str, style: str = "dim") -> None:
        if text not in self._said:
            self._said.add(text)
            self._console.print(text, style=style, markup=False, soft_wrap=True)
