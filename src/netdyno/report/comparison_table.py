"""A comparison on a terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from netdyno.report.advice import PHASE_NAMES
from netdyno.report.comparison import Pair
from netdyno.report.markdown import escaped
from netdyno.stats.estimate import Estimate
from netdyno.stats.ratio import Ratio

__all__ = ["markdown", "print_comparison"]

COLUMNS = ("cell", "A ms", "B ms", "B / A", "95 % interval", "B is", "comparison")
STYLES = {"slower": "red", "faster": "green", "same": "", "undecided": "yellow"}
LEGEND = (
    "B is slower or faster where the whole interval lies beyond 1 %; the same where all of it lies "
    "within; else undecided, and only more rounds help."
)


def print_comparison(
    pairs: Sequence[Pair], left_out: Sequence[str], phase: str, console: Console
) -> None:
    table = Table(
        title=PHASE_NAMES[phase],
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for name in COLUMNS:
        right = name in ("A ms", "B ms", "B / A")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for pair in pairs:
        *words, call, kind = map(escape, _words(pair))
        style = STYLES.get(call, "")
        table.add_row(*words, f"[{style}]{call}[/{style}]" if style else call, kind)
    console.print(table)
    console.print(LEGEND, style="dim")
    for line in _differences(pairs):
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    for line in left_out:
        console.print(line, style="dim", markup=False, soft_wrap=True)


def markdown(pairs: Sequence[Pair], left_out: Sequence[str], phase: str) -> str:
    """A table that GitHub and GitLab draw, and the differences below it."""
    lines = [
        f"### netdyno: {PHASE_NAMES[phase]}",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---|---:|---:|---:|---|---|---|",
    ]
    for pair in pairs:
        *words, call, kind = map(escaped, _words(pair))
        lines.append(f"| {' | '.join([*words, f'**{call}**', kind])} |")
    below = [*_differences(pairs), *left_out]
    lines += ["", LEGEND, *([""] if below else []), *(f"- {escaped(line)}" for line in below)]
    return "\n".join(lines) + "\n"


def _words(pair: Pair) -> list[str]:
    name = pair.b_key if pair.a_key == pair.b_key else f"{pair.a_key} → {pair.b_key}"
    return [
        name,
        _ms(pair.a),
        _ms(pair.b),
        f"{pair.ratio.value:.3f}" if pair.ratio else "-",
        _interval(pair.ratio),
        pair.call or "not comparable",
        pair.problem or pair.verdict.kind.replace("-", " "),
    ]


def _ms(value: Estimate | None) -> str:
    return f"{value.seconds * 1e3:.4g}" if value else "-"


def _interval(ratio: Ratio | None) -> str:
    if ratio is None or ratio.low is None or ratio.high is None:
        return "too few processes" if ratio else "-"
    return f"{ratio.low:.3f} to {ratio.high:.3f}"


def _differences(pairs: Sequence[Pair]) -> list[str]:
    """Each difference that matters once, however many cells share it."""
    lines = (
        f"{difference.what}: {difference.a} → {difference.b} ({difference.kind}): {difference.why}"
        for pair in pairs
        for difference in pair.verdict.differences
        if difference.kind != "like-for-like"
    )
    return list(dict.fromkeys(lines))
