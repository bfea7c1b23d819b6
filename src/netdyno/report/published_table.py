"""A run's times beside the published ones: on a terminal, and as Markdown for a README."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from netdyno.comparability.difference import text as printed
from netdyno.report.markdown import escaped
from netdyno.report.published import Figure, Line, Sheet, page
from netdyno.store.run import Run

__all__ = ["print_published", "published_markdown"]


def print_published(run: Run, console: Console, *, strict: bool = False) -> None:
    """A table for each device, or several where the terminal is too narrow for its columns."""
    found = page(run, strict=strict)
    for sheet in found.sheets:
        for table in _fitting(sheet, console):
            console.print(table)
    for note in found.notes:
        console.print(note, style="dim", markup=False, soft_wrap=True)


def published_markdown(run: Run, *, strict: bool = False) -> str:
    """The same; nothing in a run folder can break it."""
    found = page(run, strict=strict)
    lines = []
    for sheet in found.sheets:
        headings = (f"{network} b{batch_size}" for network, batch_size in sheet.columns)
        lines += [f"### {escaped(sheet.title)}", "", _row(["", "", *map(_name, headings)])]
        lines.append(f"|---|---|{'---:|' * len(sheet.columns)}")
        for section in sheet.sections:
            if section.heading:
                source = ": ".join(map(escaped, section.heading))
                lines.append(_row(["", f"**{source}**", *[""] * len(sheet.columns)]))
            for line in section.lines:
                figures = map(_markdown_figure, line.figures)
                lines.append(_row([escaped(line.precision), escaped(line.name), *figures]))
        lines.append("")
    lines += [f"- {escaped(note)}" for note in found.notes]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _name(text: str) -> str:
    return escaped(printed(text))


def _markdown_figure(figure: Figure) -> str:
    return f"**{escaped(figure.text)}**" if figure.fastest else escaped(figure.text)


def _fitting(sheet: Sheet, console: Console) -> Iterator[Table]:
    """As few tables as hold all columns in full; a terminal may be too narrow even for one."""
    unlimited = console.options.update(max_width=10_000)
    for count in range(len(sheet.columns), 0, -1):
        starts = range(0, len(sheet.columns), count)
        tables = [_table(sheet.part(start, count)) for start in starts]
        widths = [Measurement.get(console, unlimited, table).maximum for table in tables]
        if max(widths) <= console.width or count == 1:
            yield from tables
            return


def _table(sheet: Sheet) -> Table:
    # Text, not markup: names are shown as they are.
    table = Table(title=Text(sheet.title, style="bold"), title_justify="left", box=SIMPLE_HEAD)
    table.pad_edge = False
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    for network, batch_size in sheet.columns:
        heading = Text(f"{printed(network)}\nb{batch_size}")
        table.add_column(heading, justify="right", no_wrap=True)
    for section in sheet.sections:
        if section.heading:
            table.add_row("", Text(":\n".join(section.heading), style="italic"))
        for line in section.lines:
            table.add_row(*_cells(line), end_section=line is section.lines[-1])
    return table


def _cells(line: Line) -> Iterator[Text]:
    style = "" if line.measured else "dim"
    yield Text(line.precision)
    yield Text(line.name, style=style)
    for figure in line.figures:
        own = "bold" if figure.fastest else "red" if figure.failed else style
        yield Text(figure.text, style=own)
