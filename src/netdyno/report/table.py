"""The table a person reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from netdyno.comparability import differences_summary, fingerprint_of
from netdyno.frameworks import frameworks
from netdyno.report.limits import device_limits
from netdyno.report.limits_table import ceilings_line, disturbed_lines
from netdyno.report.memory_table import megabytes
from netdyno.report.ranking import groups
from netdyno.report.summary import Row, summary
from netdyno.stats.estimate import Estimate
from netdyno.store.run import Run

__all__ = ["estimated_ms", "full_label", "is_unverified", "label", "milliseconds", "print_run"]

ENDINGS = {
    "interrupted": "was interrupted",
    "budget": "ended when its budget was spent",
    "target": "ended when every ratio was known as closely as was asked",
}


def print_run(run: Run, console: Console, *, strict: bool = False) -> None:
    """One table for each group of cells that may be ranked together, then what to know of them.

    ``strict``: rank only what is like for like.
    """
    rows = {row.cell["key"]: row for row in summary(run, strict=strict)}
    told: set[str] = set()
    for keys in groups(run):
        members = [rows[key] for key in keys]
        console.print(_table(sorted(members, key=_standing), console))
        _print_verdict(run, members, told, console)
    _print_remarks(run, list(rows.values()), console)


def _standing(row: Row) -> float:
    """Fastest first where they are ranked; otherwise in the order asked, as sorting is stable."""
    both = row.forward_backward
    if row.place.rank is None or both is None:
        return float("inf")
    return both.seconds


def _table(rows: Sequence[Row], console: Console) -> Table:
    """With as many columns as ``console`` is wide enough for."""
    empty = _empty(rows)
    for count in range(len(DROPPED_FIRST) + 1):
        dropped = (*empty, *DROPPED_FIRST[:count])
        table = _with_columns(rows, [c for c in COLUMNS if c not in dropped])
        unlimited = console.options.update(max_width=1000)
        if Measurement.get(console, unlimited, table).maximum <= console.width:
            break
    return table


def _empty(rows: Sequence[Row]) -> tuple[str, ...]:
    """Columns that nothing was measured for, and the rate in the other device's unit."""
    on_cpu = rows[0].cell["device"] == "cpu"
    facts = {INTERNAL: "internal_bytes", JOULES: "joules_per_image", OF_LIMIT: "of_limit"}
    found = [h for h, fact in facts.items() if all(getattr(row, fact) is None for row in rows)]
    found += [GFLOPS, TFLOPS] if OF_LIMIT in found else [TFLOPS if on_cpu else GFLOPS]
    return tuple(found)


def _with_columns(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    cell = rows[0].cell
    threads = f"{cell['threads']} thread{'s' if cell['threads'] != 1 else ''}"
    shared = f"{cell['device']}, {cell['precision']}, {threads}, {cell['host_allocator']} allocator"
    table = Table(
        title=escape(f"{cell['network']}, batch {cell['batch_size']}  ({shared})"),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("", justify="right", min_width=1)
    table.add_column("framework", no_wrap=True)
    table.add_column("mode", no_wrap=True)
    for heading in columns:
        right = heading != "times the\nfastest"
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(
            str(row.place.rank or ""),
            escape(_title(row)),
            escape(_mode(row, rows)) + _marks(row),
            *(COLUMNS[heading](row) for heading in columns),
        )
    return table


def _title(row: Row) -> str:
    name = row.cell["framework"]
    return frameworks()[name].title if name in frameworks() else str(name)


def _mode(row: Row, rows: Sequence[Row]) -> str:
    """With the layout, or without autotuning, where the mode stands there in several."""
    same = [r for r in rows if _title(r) == _title(row) and r.cell["mode"] == row.cell["mode"]]
    untuned = " untuned" if row.cell.get("autotune") == "off" else ""
    layout = f" {row.cell['layout']}" if len({r.cell["layout"] for r in same}) > 1 else ""
    return f"{row.cell['mode']}{layout}{untuned}"


def label(row: Row, rows: Sequence[Row]) -> str:
    """Of a row among ``rows``: ``PyTorch`` or, where that says too little, ``PyTorch compile``."""
    alone = sum(_title(other) == _title(row) for other in rows) == 1
    return _title(row) if alone else full_label(row, rows)


def full_label(row: Row, rows: Sequence[Row]) -> str:
    """Of a row among ``rows``: ``PyTorch compile``, with its layout where there are several."""
    return f"{_title(row)} {_mode(row, rows)}"


def is_unverified(row: Row) -> bool:
    """Whether it has a time that nothing vouches for."""
    return row.forward_backward is not None and not row.verified


def _marks(row: Row) -> str:
    unverified = " [red]†[/red]" if is_unverified(row) else ""
    return unverified + (" [yellow]‡[/yellow]" if row.disturbed else "")


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _both(row: Row) -> str:
    return f"[bold]{estimated_ms(row.forward_backward)}[/bold]"


def _backward(row: Row) -> str:
    return "-" if row.backward_seconds is None else f"{row.backward_seconds * 1e3:.3g}"


def _first(row: Row) -> str:
    seconds = row.first_iteration_seconds
    return "-" if seconds is None else f"{seconds:.2f}"


def _faults(row: Row) -> str:
    return "-" if row.minor_faults is None else f"{row.minor_faults:,.0f}"


def milliseconds(seconds: float) -> str:
    """With as many digits as a time can be trusted with."""
    value = seconds * 1e3
    return f"{value:.{0 if value >= 1000 else 1 if value >= 100 else 2}f}"


def estimated_ms(value: Estimate | None) -> str:
    """``12.34 ± 2%``, half of its interval as a share; ``?`` where one process has none."""
    if value is None:
        return "-"
    width = value.half_width
    return f"{milliseconds(value.seconds)} ±" + (f"{width:>3.0%}" if width is not None else "  ?")


def _ratio(row: Row) -> str:
    ratio = row.place.ratio
    if ratio is None:
        return "1" if row.place.rank else "-"
    text = f"{ratio.value:.2f}"
    if ratio.low is not None and ratio.high is not None:
        text += f" ({ratio.low:.2f} to {ratio.high:.2f})"
    return text + ("" if row.place.call == "slower" else " ≈")


def _trials(row: Row) -> str:
    if not row.trials:
        return "[yellow]none[/yellow]"
    parts = []
    for status, count in sorted(row.trials.items()):
        text = f"{count} {status.replace('_', ' ')}"
        parts.append(text if status == "ok" else f"[red]{text}[/red]")
    return ", ".join(parts)


def _internal(row: Row) -> str:
    return megabytes(row.internal_bytes)


def _joules(row: Row) -> str:
    found = row.joules_per_image
    if found is None:
        return "-"
    width = found.half_width
    return f"{found.value:.3g} ±" + (f"{width:>3.0%}" if width is not None else "  ?")


# Of forward+backward: where `--memory` asked for it, and where a GPU tells it.
INTERNAL = "internal\nMB"
JOULES = "J an\nimage"


def _of_limit(row: Row) -> str:
    return "-" if row.of_limit is None else f"{row.of_limit:.0%}"


def _flops(scale: float) -> Callable[[Row], str]:
    return lambda row: _rate(row.flop_per_second and row.flop_per_second / scale)


# Of forward+backward; only where the limits of the device are known.
OF_LIMIT = "of the\nlimit"
GFLOPS, TFLOPS = "GFLOP\n/s", "TFLOP\n/s"
COLUMNS: dict[str, Callable[[Row], str]] = {
    "forward\nms": lambda row: estimated_ms(row.forward),
    "backward*\nms": _backward,
    "forward+backward\nms": _both,
    "times the\nfastest": _ratio,
    "train step\nms": lambda row: estimated_ms(row.train_step),
    "images\n/s": lambda row: _rate(row.images_per_second),
    OF_LIMIT: _of_limit,
    GFLOPS: _flops(1e9),
    TFLOPS: _flops(1e12),
    INTERNAL: _internal,
    JOULES: _joules,
    "first\niter. s": _first,
    "faults\n/iter.": _faults,
    "trials": _trials,
}
# On a terminal that is too narrow for all; `--json` has them.
DROPPED_FIRST = (
    GFLOPS,
    TFLOPS,
    OF_LIMIT,
    "faults\n/iter.",
    "first\niter. s",
    "backward*\nms",
    "images\n/s",
    "forward\nms",
    "train step\nms",
)


def _print_verdict(run: Run, rows: Sequence[Row], told: set[str], console: Console) -> None:
    """What kind of comparison the table is, and every difference between its rows.

    ``told``: differences that an earlier table has named; these are not named again.
    """
    measured = [row for row in rows if row.forward_backward is not None]
    if len(measured) < 2:
        return
    verdict = measured[0].place.verdict
    ranked = any(row.place.rank for row in measured)
    if verdict == "like-for-like":
        console.print("Like for like.", style="green")
        return
    if verdict == "as-shipped":
        text = (
            "Ranked as shipped: each framework with its own kernel libraries. A difference between "
            "rows may be theirs, not the framework's."
            if ranked
            else "Not like for like, so not ranked (--strict)."
        )
    else:
        text = "Not ranked: these must not be compared."
    console.print(text, style="yellow")
    fingerprints = {label(row, rows): fingerprint_of(run, row.cell["key"]) for row in measured}
    lines = differences_summary(fingerprints)
    for line in lines:
        if line not in told:
            console.print(f"  {line}", style="dim", markup=False, soft_wrap=True)
    if told.intersection(lines):
        console.print("  (differences that are named above are not named again)", style="dim")
    told.update(lines)


def _print_remarks(run: Run, rows: Sequence[Row], console: Console) -> None:
    console.print(
        "±: half of the 95 % interval, over processes.  *: forward+backward less forward.  "
        "≈: not told apart from the fastest.",
        style="dim",
    )
    if any(row.forward_backward and row.forward_backward.low is None for row in rows):
        console.print("?: a single process has no interval: give it more --rounds.", style="yellow")
    if any(map(is_unverified, rows)):
        console.print("†: NOT VERIFIED to compute what the others compute.", style="red")
    if any(row.disturbed for row in rows):
        console.print("‡: some blocks were disturbed, and are left out:", style="yellow")
    for row in rows:
        for reason, count in row.disturbed.items():
            _remark(console, row, f"{count} blocks: {reason}")
        for text in row.advice:
            _remark(console, row, text)
    _print_search(run, rows, console)
    _print_limits(run, rows, console)
    _print_notes(rows, console)
    for row in rows:
        if row.reason:
            console.print(
                f"{row.cell['key']}: {row.reason}", style="red", markup=False, soft_wrap=True
            )
    status = run.data["status"]
    if status in ENDINGS:
        style = "green" if status == "target" else "yellow"
        console.print(f"This run {ENDINGS[status]}{_asked(run, status)}.", style=style)


def _print_limits(run: Run, rows: Sequence[Row], console: Console) -> None:
    """What the devices can do at most, and why that is not known; each once."""
    told: dict[str, str] = {}
    known = False
    precisions = list(dict.fromkeys(row.cell["precision"] for row in rows))
    for row in rows:
        limits = device_limits(run, row.cell)
        if limits is None:
            continue
        problem = limits.problem(row.cell["precision"])
        if problem:
            place = f"{row.cell['device']}, {row.cell['precision']}"
            told[f"The limits of {place} are not known: {problem}"] = "yellow"
        else:
            known = True
            told[f"At most, {ceilings_line(limits, precisions)}"] = "dim"
            told.update(dict.fromkeys(disturbed_lines(limits, precisions), "yellow"))
    if known:
        console.print(
            "of the limit: the least time of forward+backward, by these figures and the network's "
            "direct convolutions and dense layers, over the time it took.",
            style="dim",
            soft_wrap=True,
        )
    for text, style in told.items():
        console.print(text, style=style, markup=False, soft_wrap=True)


def _remark(console: Console, row: Row, text: str) -> None:
    where = f"{row.cell['framework']} {row.cell['mode']}, {row.cell['network']}"
    console.print(f"  {where}: {text}", style="yellow", markup=False, soft_wrap=True)


def _asked(run: Run, status: str) -> str:
    request = run.data["request"]
    if status == "target":
        return f" (±{request['target'] * 100:.3g} %)"
    if status == "budget" and request.get("budget_seconds"):
        return f" ({request['budget_seconds'] / 60:.3g} min)"
    return ""


def _print_notes(rows: Sequence[Row], console: Console) -> None:
    """Versions of each framework, and what it did not do like the others; each once."""
    seen: set[str] = set()

    def once(text: str, **style: Any) -> None:
        if text not in seen:
            seen.add(text)
            console.print(text, markup=False, **style)

    for row in rows:
        versions = row.fingerprint.get("versions", {})
        line = ", ".join(f"{name} {version}" for name, version in versions.items())
        if line:
            once(f"{row.cell['framework']}: {line}", style="dim")
        for note in row.fingerprint.get("notes", []):
            once(f"note: {row.cell['framework']}, {row.cell['network']}: {note}", style="yellow")


def _print_search(run: Run, rows: Sequence[Row], console: Console) -> None:
    """What ``--modes best`` tried: the default beside the best, so that no flag is forgotten."""
    by_key = {row.cell["key"]: row for row in rows}
    for search in run.data.get("search", ()):
        default, best = search["default"], search["best"]
        if default not in by_key:
            continue
        tried = sorted(
            (seconds, key) for key, seconds in search["seconds"].items() if seconds is not None
        )
        failed = len(search["seconds"]) - len(tried)
        words = [f"{_setting(key)} {seconds * 1e3:.3g}" for seconds, key in tried]
        text = f"best of {_title(by_key[default])}, {by_key[default].cell['network']}: "
        text += "the default" if best == default else _setting(best)
        text += f" (one trial of each, ms: {', '.join(words)}"
        text += f"; {failed} gave no time)" if failed else ")"
        console.print(text, style="dim", markup=False, soft_wrap=True)


def _setting(key: str) -> str:
    """Of a cell's key, what a search may change: ``compile nhwc``."""
    parts = key.split("/")
    mode, layout = parts[1], parts[5]
    return " ".join([mode, layout, *(["untuned"] if parts[-1] == "untuned" else [])])
