"""``netdyno history``: runs over time, and where a cell became slower or faster."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netdyno.cli.options import Share, phase_option
from netdyno.cli.terminal import console, print_json, progress_console
from netdyno.errors import NetdynoError
from netdyno.redact import printable

if TYPE_CHECKING:
    from netdyno.history import Series
    from netdyno.store.query import Found, Measurement

EXAMPLES = """
\b
Examples:
  netdyno history
  netdyno history nightly/ --cell 'pytorch/*' --since 2026-10-01
  netdyno history --fail-on-slowdown 3%
"""


class Date(click.ParamType[datetime]):
    """ISO 8601; without a time zone, UTC, as in run folders."""

    name = "DATE"

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"'{value}' is no date like 2026-10-31", param, ctx)
        return found if found.tzinfo else found.replace(tzinfo=UTC)


@click.command(epilog=EXAMPLES)
@click.argument("folders", nargs=-1, metavar="[FOLDER]...", type=click.Path(path_type=Path))
@click.option("--cell", "pattern", metavar="PATTERN", help="Only these cells: 'pytorch/*/b32/*'.")
@phase_option
@click.option("--since", type=Date(), help="Only runs started then or later, in UTC.")
@click.option(
    "--fail-on-slowdown",
    type=Share(),
    help="Exit code 1 if the last change of a cell is a slowdown of more than this.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(
    folders: tuple[Path, ...],
    pattern: str | None,
    phase: str,
    since: datetime | None,
    fail_on_slowdown: float | None,
    as_json: bool,
) -> int:
    """Print each cell's runs over time, and where it became slower or faster.

    FOLDER is a run folder or holds run folders; by default runs/.
    """
    # They import DuckDB and NumPy, which take as long as all the rest of netdyno.
    from netdyno.history import series_of
    from netdyno.report.history import history_json, print_history
    from netdyno.store.folders import find_runs
    from netdyno.store.query import measurements

    asked = folders or (Path("runs"),)
    found = measurements(find_runs(asked), phase)
    _tell_skipped(found)
    series = series_of(_chosen(found, asked, phase, since, pattern))
    if as_json:
        print_json(history_json(series, phase, found.skipped))
    else:
        print_history(series, phase, console())
    if fail_on_slowdown is None:
        return 0
    return 1 if _tell_slowdowns(series, fail_on_slowdown) else 0


def _tell_skipped(found: Found) -> None:
    if found.skipped:
        (run, reason), count = next(iter(found.skipped.items())), len(found.skipped)
        which = "a folder" if count == 1 else f"{count} folders, the first of them"
        _remark(f"skipped {which} {run}: {reason}")


def _remark(text: str) -> None:
    progress_console().print(printable(text), style="yellow", markup=False, soft_wrap=True)


def _chosen(
    found: Found,
    asked: Sequence[Path],
    phase: str,
    since: datetime | None,
    pattern: str | None,
) -> list[Measurement]:
    """The measurements that were asked for; NetdynoError, with what there is, if there are none."""
    where = printable(", ".join(map(str, asked)))
    if not found.runs:
        raise NetdynoError(f"there is no run in {where}: name folders that hold runs")
    if not found.measurements:
        raise NetdynoError(
            f"no run in {where} has a good trial with {phase}: see `netdyno show RUN`, or choose "
            "another --phase"
        )
    newest = found.measurements[-1]
    kept = [run for run in found.measurements if since is None or run.started >= since]
    if not kept:
        raise NetdynoError(
            f"no run in {where} was started since then: the newest one with {phase} is "
            f"{printable(newest.run.name)}, of {newest.started:%Y-%m-%d %H:%M} UTC"
        )
    if pattern is None:
        return kept
    matching = [run for run in kept if fnmatchcase(run.cell, pattern)]
    if not matching:
        raise NetdynoError(
            f"no cell matches '{printable(pattern)}'; the nearest: "
            f"{', '.join(map(printable, _nearest(pattern, (run.cell for run in kept))))}"
        )
    return matching


def _nearest(pattern: str, cells: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(pattern, sorted(set(cells)), n=3, cutoff=0.0)


def _tell_slowdowns(series: Sequence[Series], share: float) -> bool:
    """Whether the newest level of a cell is a slowdown by more than ``share``, for sure."""
    slower = [one for one in series if one.changes and one.changes[-1].point.ratio_low > 1 + share]
    for one in slower:
        point = one.changes[-1].point
        _remark(
            f"slower by more than {100 * share:g} %: {one.cell} on {one.host}: {point.ratio:.3f} "
            f"({point.ratio_low:.3f} to {point.ratio_high:.3f})"
        )
    return bool(slower)
