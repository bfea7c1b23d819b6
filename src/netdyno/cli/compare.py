"""``netdyno compare``: is B slower than A, by how much, and may they be compared at all?"""

from __future__ import annotations

import click

from netdyno.cli.options import Share, phase_option
from netdyno.cli.terminal import console, print_json, progress_console
from netdyno.report.comparison import compare, comparison_json, unmatched
from netdyno.report.comparison_table import markdown, print_comparison
from netdyno.store.select import select

EXAMPLES = """
\b
Examples:
  netdyno compare runs/before runs/after
  netdyno compare runs/before runs/after --fail-if-slower 3%
  netdyno compare runs/today:pytorch/eager runs/today:pytorch/compile
  netdyno compare runs/before runs/after --markdown >> "$GITHUB_STEP_SUMMARY"

\b
Exit codes: 0 done; 1 something is slower than --fail-if-slower beyond doubt;
2 wrong input, or --strict and not like for like.
"""


@click.command(epilog=EXAMPLES)
@click.argument("a")
@click.argument("b")
@phase_option
@click.option(
    "--fail-if-slower",
    type=Share(),
    help="Exit with 1 if B is slower by more than this and the whole interval says so: 3%.",
)
@click.option("--strict", is_flag=True, help="Refuse what is not like for like.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    a: str,
    b: str,
    phase: str,
    fail_if_slower: float | None,
    strict: bool,
    as_markdown: bool,
    as_json: bool,
) -> int:
    """Compare B with A, the baseline.

    Each is a run folder, or RUN:CELL for some of its cells: a key as the run has it, its beginning
    (pytorch/eager) or a pattern (*/vgg_a/*). Cells of two runs are matched by key.
    """
    if as_markdown and as_json:
        raise click.UsageError("--markdown and --json exclude each other")
    first, second = select(a), select(b)
    if first.pattern and not second.pattern:
        second = second.matching(first.pattern)
    elif second.pattern and not first.pattern:
        first = first.matching(second.pattern)
    pairs = compare(first, second, phase)
    left_out = unmatched(first, second)
    if as_json:
        print_json(comparison_json(first, second, phase, pairs, left_out))
    elif as_markdown:
        click.echo(markdown(pairs, left_out, phase), nl=False)
    else:
        print_comparison(pairs, left_out, phase, console())
    refused = [pair for pair in pairs if pair.verdict.kind != "like-for-like"]
    if strict and refused:
        progress_console().print(
            f"--strict: {len(refused)} of {len(pairs)} comparisons are not like for like",
            style="red",
        )
        return 2
    if fail_if_slower is None:
        return 0
    slower = [pair for pair in pairs if pair.slower_than(fail_if_slower)]
    unjudged = sum(pair.call in (None, "undecided") for pair in pairs)
    progress_console().print(
        f"--fail-if-slower: {len(slower)} of {len(pairs)} are slower by more than "
        f"{fail_if_slower:.3g} beyond doubt; {unjudged} could not be judged",
        style="red" if slower else "yellow" if unjudged else "green",
    )
    return 1 if slower else 0
