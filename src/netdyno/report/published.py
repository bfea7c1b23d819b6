"""A run's forward+backward times beside the published ones: what the tables of both hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netdyno.comparability import fingerprint_of
from netdyno.comparability.difference import text as printed
from netdyno.comparability.fingerprint import look
from netdyno.comparability.machine import gpu_model
from netdyno.plan.request import PRIMARY_PHASE
from netdyno.published.times import PublishedTime, times_of
from netdyno.report.summary import Row, summary
from netdyno.report.table import estimated_ms, full_label, is_unverified, milliseconds
from netdyno.store.run import Run

__all__ = ["Figure", "Line", "Page", "Section", "Sheet", "page", "published_json"]

LEAST = "least time at this device's limits"
NOTHING = "Nothing was published of this run's networks at its batch sizes."
BOLD = (
    "±: half of the 95 % interval, over processes. Bold: the fastest of its network, batch size "
    "and precision, beyond doubt."
)
MARKS: Mapping[str, Callable[[Row], bool]] = {
    "?: a single process has no interval.": lambda row: (
        row.forward_backward is not None and row.forward_backward.low is None
    ),
    "†: NOT VERIFIED to compute what the others compute.": is_unverified,
    "‡: some blocks were disturbed, and are left out.": lambda row: bool(row.disturbed),
}
BESIDE = (
    "What was published is of other hardware, with other kernel libraries (another cuDNN), and in "
    "part of other work (netdyno times the softmax and its loss): it stands beside this run's "
    "times and is not ranked together with them."
)

# Network and batch size.
Column = tuple[str, int]


@dataclass(frozen=True)
class Figure:
    """``text`` is in ms, or says why there is no time. ``fastest``: beyond doubt, as ranked."""

    text: str = ""
    fastest: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Line:
    """A figure for each column of its sheet. ``precision`` is empty for what was published."""

    precision: str
    name: str
    figures: tuple[Figure, ...]
    measured: bool = True


@dataclass(frozen=True)
class Section:
    """Lines of one precision, or of one source, which has its name and hardware above them."""

    lines: tuple[Line, ...]
    heading: tuple[str, str] | None = None


@dataclass(frozen=True)
class Sheet:
    """What was measured on one device, with the same threads, and what was published of it."""

    title: str
    columns: tuple[Column, ...]
    sections: tuple[Section, ...]

    def part(self, first: int, count: int) -> Sheet:
        """Some of its columns, without published lines that have nothing there."""
        here = slice(first, first + count)
        sections = []
        for section in self.sections:
            cut = (dataclasses.replace(li, figures=li.figures[here]) for li in section.lines)
            kept = [li for li in cut if section.heading is None or any(f.text for f in li.figures)]
            if kept:
                sections.append(dataclasses.replace(section, lines=tuple(kept)))
        return Sheet(self.title, self.columns[here], tuple(sections))


@dataclass(frozen=True)
class Page:
    """A sheet for each device and number of threads, in the order asked; and what to know."""

    sheets: tuple[Sheet, ...]
    notes: tuple[str, ...]


def page(run: Run, *, strict: bool = False) -> Page:
    """``strict``: rank only what is like for like."""
    rows = summary(run, strict=strict)
    grouped: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        axes = (row.cell["device"], row.cell["threads"], row.cell["host_allocator"])
        grouped.setdefault(axes, []).append(row)
    hardware = _hardware(run)
    sheets = [_sheet(of, _title(axes, grouped, hardware)) for axes, of in grouped.items()]
    return Page(tuple(sheets), tuple(_notes(rows, _when(run, hardware))))


def published_json(run: Run) -> list[dict[str, Any]]:
    """Of the run's networks and batch sizes, in seconds."""
    return [time.to_json() for time in times_of(map(_column, run.cells.values()))]


def _notes(rows: Sequence[Row], when: str) -> Iterator[str]:
    """How the figures were made, and why nobody may rank all of them together."""
    found = times_of(_column(row.cell) for row in rows)
    if not found:
        yield NOTHING
    yield BOLD
    for what, marked in MARKS.items():
        if any(map(marked, rows)):
            yield what
    yield when
    if found:
        yield BESIDE
    for source in dict.fromkeys(time.source for time in found):
        yield f"{source.title}: {source.evidence}; {source.settings}. {source.citation}."


def _sheet(rows: Sequence[Row], title: str) -> Sheet:
    columns = tuple(dict.fromkeys(_column(row.cell) for row in rows))
    by_precision: dict[str, list[Row]] = {}
    for row in rows:
        by_precision.setdefault(row.cell["precision"], []).append(row)
    sections = [_measured(precision, of, rows, columns) for precision, of in by_precision.items()]
    by_source: dict[tuple[str, str], list[PublishedTime]] = {}
    for time in times_of(columns):
        by_source.setdefault((time.source.title, time.source.hardware), []).append(time)
    sections += [_published(heading, times, columns) for heading, times in by_source.items()]
    return Sheet(title, columns, tuple(sections))


def _measured(
    precision: str, rows: Sequence[Row], all_rows: Sequence[Row], columns: Sequence[Column]
) -> Section:
    """``all_rows`` of the sheet say which of them need their layout to be told apart."""
    fastest = _fastest(rows)
    lines: dict[tuple[Any, ...], dict[Column, Figure]] = {}
    labels: dict[tuple[Any, ...], str] = {}
    limits: dict[Column, Figure] = {}
    for row in rows:
        way = tuple(row.cell.get(axis) for axis in ("framework", "mode", "layout", "autotune"))
        column = _column(row.cell)
        labels.setdefault(way, full_label(row, all_rows))
        lines.setdefault(way, {})[column] = _figure(row, row.cell["key"] in fastest)
        if row.limit_seconds:
            limits[column] = Figure(milliseconds(row.limit_seconds[PRIMARY_PHASE]))
    found = [_line(precision, labels[way], of, columns) for way, of in lines.items()]
    if limits:
        found.append(_line(precision, LEAST, limits, columns, measured=False))
    return Section(tuple(found))


def _line(
    precision: str,
    name: str,
    figures: Mapping[Column, Figure],
    columns: Sequence[Column],
    *,
    measured: bool = True,
) -> Line:
    found = tuple(figures.get(column, Figure("-")) for column in columns)
    return Line(printed(precision), printed(name), found, measured)


def _published(
    heading: tuple[str, str], times: Sequence[PublishedTime], columns: Sequence[Column]
) -> Section:
    figures: dict[str, dict[Column, Figure]] = {}
    for time in times:
        column = (time.network, time.batch_size)
        # As it was printed, with no digit that was not.
        figures.setdefault(time.library, {})[column] = Figure(f"{time.total_seconds * 1e3:g}")
    lines = [
        Line("", library, tuple(of.get(column, Figure()) for column in columns), measured=False)
        for library, of in figures.items()
    ]
    return Section(tuple(lines), heading)


def _figure(row: Row, fastest: bool) -> Figure:
    if row.forward_backward is None:
        bad = {status: count for status, count in row.trials.items() if status != "ok"}
        if not bad:
            return Figure("-")
        return Figure(printed(max(bad, key=lambda s: bad[s]).replace("_", " ")), failed=True)
    marks = (" †" if is_unverified(row) else "") + (" ‡" if row.disturbed else "")
    return Figure(estimated_ms(row.forward_backward) + marks, fastest)


def _fastest(rows: Iterable[Row]) -> set[str]:
    """Keys, one a column at most, of those that all others are slower than by the run's ranking."""
    columns: dict[Column, list[tuple[float, Row]]] = {}
    for row in rows:
        if row.forward_backward:
            timed = (row.forward_backward.seconds, row)
            columns.setdefault(_column(row.cell), []).append(timed)
    found = set()
    for entries in columns.values():
        first, *others = [row for _, row in sorted(entries, key=lambda entry: entry[0])]
        # A rank is shared with what cannot be told apart, and None where nothing is ranked.
        alone = others and all((other.place.rank or 1) > 1 for other in others)
        if first.place.rank == 1 and alone and not is_unverified(first):
            found.add(first.cell["key"])
    return found


def _column(cell: Mapping[str, Any]) -> Column:
    return cell["network"], cell["batch_size"]


def _title(
    axes: tuple[Any, ...], all_axes: Iterable[tuple[Any, ...]], hardware: Mapping[str, str]
) -> str:
    """The device and what it is; threads and allocator where they matter to it or differ."""
    device, threads, allocator = axes
    others = [other for other in all_axes if other[0] == device]
    text = f"{device} ({hardware[device]})" if hardware[device] else str(device)
    if device == "cpu" or len({other[1] for other in others}) > 1:
        text += f", {threads} thread{'s' if threads != 1 else ''}"
    if len({other[2] for other in others}) > 1:
        text += f", {allocator} allocator"
    return f"forward+backward in ms on {printed(text)}"


def _when(run: Run, hardware: Mapping[str, str]) -> str:
    names = ", ".join(dict.fromkeys(name for name in hardware.values() if name))
    day, netdyno = printed(run.data["started"])[:10], printed(run.data["netdyno"])
    return f"Measured on {day}{f', on {names},' if names else ''} by netdyno {netdyno}."


def _hardware(run: Run) -> dict[str, str]:
    """What each device is called; empty where the run does not tell."""
    firsts: dict[str, str] = {}
    for key, cell in run.cells.items():
        firsts.setdefault(cell["device"], key)
    found = {device: fingerprint_of(run, key) for device, key in firsts.items()}
    names = {
        device: gpu_model(of) if of.on_gpu else look(of.host, "cpu", "model")
        for device, of in found.items()
    }
    return {device: printed(name) if name else "" for device, name in names.items()}
