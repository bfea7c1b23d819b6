"""``netdyno calibrate``: how small a difference can be trusted on this machine?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from netdyno.cli.bench import say
from netdyno.cli.measure import measure
from netdyno.cli.options import (
    Duration,
    frameworks_option,
    matrix_options,
    networks_option,
    phase_option,
    python_option,
    wait_option,
)
from netdyno.cli.terminal import console, print_json
from netdyno.plan.estimate import estimate_cell
from netdyno.plan.matrix import cells
from netdyno.plan.request import PRIMARY_PHASE, Request
from netdyno.report.calibration import calibrations, calibrations_json, print_calibrations
from netdyno.settings import load_settings
from netdyno.store.run import read_run

EXAMPLES = """
\b
Examples:
  netdyno calibrate
  netdyno calibrate --frameworks pytorch --networks vgg_a --batch-size 8 --budget 20m
  netdyno calibrate --run runs/today
"""
DEFAULTS: dict[str, Any] = {
    "frameworks": ("pytorch",),
    "networks": ("alexnet_owt",),
    "batch_size": (8,),
    "budget": 600.0,
}
# The budget ends it, not this.
MOST_TRIALS = 1000


@click.command(epilog=EXAMPLES)
@matrix_options(frameworks_option("pytorch"), networks_option("alexnet_owt"), batch_size=8)
@click.option("--budget", type=Duration(), help="Measure for so long. Default: 10m.")
@phase_option
@click.option("--out", type=click.Path(path_type=Path), help="The run folder. Default: runs/TIME.")
@click.option(
    "--run",
    "earlier",
    type=click.Path(path_type=Path),
    help="Measure nothing: judge by this run, which has many rounds.",
)
@python_option
@click.option("--unverified", is_flag=True, help="Measure without parity checks.")
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(
    phase: str,
    out: Path | None,
    earlier: Path | None,
    python: tuple[str, ...],
    unverified: bool,
    wait: bool,
    as_json: bool,
    **axes: Any,
) -> int:
    """Compare a cell with itself, again and again: how often is that called a difference, and
    which slowdown would be found, in so many rounds?
    """
    given = {key: value for key, value in axes.items() if value is not None}
    if earlier is None:
        folder = _measure(given, phase, python, out, unverified=unverified, wait=wait)
        say(f"The run is in {folder}")
    elif given or out or python or unverified:
        raise click.UsageError("--run measures nothing: leave out the options of measuring")
    else:
        folder = earlier
    run = read_run(folder)
    found = calibrations(run, phase)
    if as_json:
        print_json(calibrations_json(run, phase, found))
    else:
        print_calibrations(run, phase, found, console())
    return 0 if all(calibration.lines for calibration in found) else 1


def _measure(
    given: dict[str, Any],
    phase: str,
    python: tuple[str, ...],
    out: Path | None,
    *,
    unverified: bool,
    wait: bool,
) -> Path:
    axes = {**DEFAULTS, **given}
    budget = axes.pop("budget")
    request = dataclasses.replace(
        Request(),
        **axes,
        budget_seconds=budget,
        rounds=MOST_TRIALS,
        phases=tuple(dict.fromkeys((PRIMARY_PHASE, phase))),
    )
    plan = cells(request)
    estimates = {cell.key: estimate_cell(cell, request.phases) for cell in plan}
    settings = load_settings(python)
    return measure(
        request, plan, estimates, settings, out=out, unverified=unverified, wait=wait
    ).folder
