"""``netdyno memory``: how much memory does a pass take?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from netdyno.cli.bench import Ended
from netdyno.cli.max_batch import search
from netdyno.cli.measure import measure
from netdyno.cli.options import (
    Bytes,
    Duration,
    frameworks_option,
    matrix_options,
    networks_option,
    python_option,
    wait_option,
)
from netdyno.cli.terminal import console, print_json, progress_console
from netdyno.errors import NetdynoError
from netdyno.plan.estimate import estimate_cell
from netdyno.plan.job import MEMORY_PHASES
from netdyno.plan.matrix import cells
from netdyno.plan.request import Request
from netdyno.report.max_batch import largest_batches, max_batch_json, print_max_batch
from netdyno.report.memory import memory_json
from netdyno.report.memory_table import print_memory
from netdyno.settings import load_settings
from netdyno.store.run import Run, read_run

EXAMPLES = """
\b
Examples:
  netdyno memory
  netdyno memory --frameworks mxnet,pytorch --networks vgg_a --batch-size 8,32
  netdyno memory --frameworks pytorch --modes all --networks resnet50 --json
  netdyno memory --max-batch --networks resnet50 --memory-limit 8GB
"""


@click.command(epilog=EXAMPLES)
@matrix_options(frameworks_option(), networks_option(), batch_size=32)
@click.option(
    "--max-batch",
    is_flag=True,
    help="Find the largest batch that fits, by trying; --batch-size is the first try.",
)
@click.option(
    "--memory-limit",
    type=Bytes(),
    help="With --max-batch on the CPU: what a process may allocate. Default: what is free now.",
)
@click.option(
    "--phase",
    type=click.Choice(MEMORY_PHASES),
    help="Of --max-batch. Default: train_step.",
)
@click.option("--trial-timeout", type=Duration(), help="End a trial after this. Default: 10m.")
@click.option("--seed", type=int, help="Of weights and images. Default: 1.")
@click.option("--out", type=click.Path(path_type=Path), help="The run folder. Default: runs/TIME.")
@python_option
@click.option(
    "--unverified", is_flag=True, help="Measure without parity checks, and say so everywhere."
)
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(
    max_batch: bool,
    memory_limit: int | None,
    phase: str | None,
    out: Path | None,
    python: tuple[str, ...],
    unverified: bool,
    wait: bool,
    as_json: bool,
    **axes: Any,
) -> int:
    """Measure the memory of forward, forward+backward and a train step.

    Internal memory is what a pass allocates beyond its inputs, the parameters, their gradients and
    its outputs: as the framework tells it, and as its allocations show it. Beside it stand the
    total, and what the allocation strategies of the MXNet paper would need. No time is measured.
    """
    if not max_batch and (memory_limit or phase):
        option = "--memory-limit" if memory_limit else "--phase"
        raise NetdynoError(f"{option} belongs to --max-batch: add that, or leave {option} out")
    given = {key: value for key, value in axes.items() if value is not None}
    if "trial_timeout" in given:
        given["trial_timeout_seconds"] = given.pop("trial_timeout")
    request = dataclasses.replace(Request(), **given)
    settings = load_settings(python)
    plan = cells(request)
    how: dict[str, Any] = {"out": out, "unverified": unverified, "wait": wait}
    if max_batch:
        phase = phase or "train_step"
        ended = search(request, plan, settings, phase=phase, limit_bytes=memory_limit, **how)
    else:
        estimates = {cell.key: estimate_cell(cell) for cell in plan}
        ended = measure(request, plan, estimates, settings, measures=("memory",), **how)
    return _report(ended, as_json)


def _report(ended: Ended, as_json: bool) -> int:
    run = read_run(ended.folder)
    show(run, as_json)
    progress_console().print(f"The run is in {ended.folder}", style="dim", markup=False)
    if ended.status == "interrupted":
        return 130
    if "max_batch" in run.data:
        return 0 if all(found.ok for found in largest_batches(run)) else 1
    return 0 if all(trial.status == "ok" for trial in run.memory_trials) else 1


def show(run: Run, as_json: bool) -> None:
    """Print a run that measured memory."""
    if "max_batch" in run.data:
        if as_json:
            print_json(max_batch_json(run))
        else:
            print_max_batch(run, console())
    elif as_json:
        print_json(memory_json(run))
    else:
        print_memory(run, console())
