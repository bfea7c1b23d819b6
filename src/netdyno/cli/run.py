"""``netdyno run``: measure, and print the table."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from netdyno.cli.bench import Ended
from netdyno.cli.measure import measure
from netdyno.cli.options import (
    Duration,
    Names,
    Share,
    frameworks_option,
    jobs_option,
    matrix_options,
    networks_option,
    python_option,
    strict_option,
    wait_option,
)
from netdyno.cli.terminal import console, print_json, progress_console
from netdyno.errors import NetdynoError
from netdyno.host.facts import host_facts
from netdyno.plan.best import choices
from netdyno.plan.estimate import estimate_cell
from netdyno.plan.matrix import cells
from netdyno.plan.request import Request, read_request_file
from netdyno.plan.resume import asked_again, cells_of, refuse_elsewhere
from netdyno.report.plan import plan_json, print_plan
from netdyno.report.ranking import like_for_like
from netdyno.report.summary import summary, summary_json
from netdyno.report.table import print_run
from netdyno.settings import load_settings
from netdyno.store.run import Run, read_run

EXAMPLES = """
\b
Examples:
  netdyno run
  netdyno run --frameworks mxnet,pytorch --networks vgg_a --batch-size 8,32
  netdyno run --frameworks pytorch --modes eager,compile --budget 10m
  netdyno run --networks vgg_a --target 2% --budget 20m --phases forward_backward
  netdyno run matrix.toml --out results/today
"""


@click.command(epilog=EXAMPLES)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@matrix_options(frameworks_option(), networks_option(), batch_size=32)
@click.option(
    "--phases",
    type=Names(),
    help="Of forward_backward, forward, train_step; the first always. Default: all.",
)
@click.option(
    "--rounds", type=int, help="Fresh processes for each cell; with --target at most. Default: 3."
)
@click.option(
    "--target",
    type=Share(),
    help="Go on until every ratio's 95 % interval is within ± this: 2%.",
)
@click.option(
    "--memory", is_flag=True, help="Also measure each cell's memory, in a process of its own."
)
@click.option(
    "--no-limits",
    is_flag=True,
    help="Leave out the devices' limits, which take some seconds to measure.",
)
@click.option(
    "--compile-ahead",
    is_flag=True,
    help="Compile PyTorch's cells before the first trial, on GPUs several at once.",
)
@click.option("--budget", type=Duration(), help="Start no trial that would end later than this.")
@click.option("--trial-timeout", type=Duration(), help="End a trial after this. Default: 10m.")
@click.option("--seed", type=int, help="Of weights, images and the order. Default: 1.")
@click.option("--out", type=click.Path(path_type=Path), help="The run folder. Default: runs/TIME.")
@click.option(
    "--resume", type=click.Path(path_type=Path), help="Go on with this run: measure what it lacks."
)
@jobs_option
@python_option
@click.option(
    "--unverified", is_flag=True, help="Measure without parity checks, and say so everywhere."
)
@strict_option
@wait_option
@click.option(
    "--prepare-ahead/--no-prepare-ahead",
    default=True,
    help="Import the next trial's framework while this one compiles, on GPUs. Default: on.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan, its time and memory; run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(
    file: Path | None,
    out: Path | None,
    resume: Path | None,
    python: tuple[str, ...],
    memory: bool,
    no_limits: bool,
    compile_ahead: bool,
    jobs: int | None,
    unverified: bool,
    strict: bool,
    wait: bool,
    prepare_ahead: bool,
    dry_run: bool,
    as_json: bool,
    **axes: Any,
) -> int:
    """Measure frameworks on networks and print the table.

    FILE is a TOML file with the same options; options on the command line win over it.
    """
    earlier = _earlier(resume, file, out, axes) if resume else None
    request = _resumed(earlier, axes) if earlier else _request(file, axes)
    settings = load_settings(python)
    found = [] if earlier else choices(request)
    defaults = [choice.default for choice in found]
    plan = cells_of(earlier) if earlier else defaults or cells(request)
    candidates = [cell for choice in found for cell in choice.candidates]
    estimates = {cell.key: estimate_cell(cell, request.phases) for cell in [*plan, *candidates]}
    if dry_run:
        if as_json:
            print_json(plan_json(request, plan, estimates))
        else:
            print_plan(request, plan, estimates, console())
        return 0
    measures = {"time": True, "limits": not no_limits, "memory": memory}
    ended = measure(
        request,
        plan,
        estimates,
        settings,
        out=out,
        resume=earlier,
        unverified=unverified,
        wait=wait,
        prepare_ahead=prepare_ahead,
        measures=tuple(what for what, wanted in measures.items() if wanted),
        choices=found,
        compile_ahead=compile_ahead,
        jobs=jobs,
    )
    return _report(ended, as_json, strict)


# What may be said anew of a run that is gone on with: it changes nothing that is measured.
ANEW = {"budget", "trial_timeout"}


def _earlier(resume: Path, file: Path | None, out: Path | None, axes: dict[str, Any]) -> Run:
    """The run to go on with. Raises NetdynoError for what contradicts it."""
    given = {key for key, value in axes.items() if value is not None} - ANEW
    if file or out or given:
        what = str(file) if file else "--out" if out else f"--{min(given).replace('_', '-')}"
        raise NetdynoError(f"--resume goes on with what was asked then: leave {what} out")
    run = read_run(resume)
    refuse_elsewhere(run, host_facts())
    return run


def _resumed(run: Run, axes: dict[str, Any]) -> Request:
    """What was asked then; a budget is that of this part."""
    anew = {f"{key}_seconds": axes[key] for key in ANEW if axes[key] is not None}
    return dataclasses.replace(asked_again(run), **{"budget_seconds": None, **anew})


def _request(file: Path | None, axes: dict[str, Any]) -> Request:
    given = {key: value for key, value in axes.items() if value is not None}
    for key in ("budget", "trial_timeout"):
        if key in given:
            given[f"{key}_seconds"] = given.pop(key)
    values = {**(read_request_file(file) if file else {}), **given}
    # Options win over every part of a file's matrix, too.
    values["matrix"] = tuple(
        {axis: value for axis, value in part.items() if axis not in given}
        for part in values.get("matrix", ())
    )
    return dataclasses.replace(Request(), **values)


def _report(ended: Ended, as_json: bool, strict: bool) -> int:
    run = read_run(ended.folder)
    if as_json:
        print_json(summary_json(run, strict=strict))
    else:
        print_run(run, console(), strict=strict)
    progress_console().print(f"The run is in {ended.folder}", style="dim", markup=False)
    if ended.status == "interrupted":
        return 130
    refused = strict and not like_for_like(run)
    return 0 if all(row.ok for row in summary(run)) and not refused else 1
