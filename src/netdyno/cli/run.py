"""``netdyno run``: measure, and print the table."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import click

from netdyno import environments
from netdyno.cli.options import (
    Duration,
    Integers,
    Names,
    device_option,
    frameworks_option,
    layout_option,
    modes_option,
    networks_option,
    precision_option,
    python_option,
)
from netdyno.cli.terminal import console, print_json, progress_console
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.host.cpu import memory_bytes
from netdyno.host.facts import host_facts
from netdyno.plan.budget import Budget
from netdyno.plan.cell import Cell
from netdyno.plan.estimate import CellEstimate, estimate_cell
from netdyno.plan.matrix import cells
from netdyno.plan.request import Request, read_request_file
from netdyno.redact import Redactor
from netdyno.report.plan import plan_json, print_plan
from netdyno.report.progress import RunProgress
from netdyno.report.summary import summary, summary_json
from netdyno.report.table import print_run
from netdyno.runner import Runner, lacking
from netdyno.settings import Settings, load_settings
from netdyno.store.run import read_run
from netdyno.store.run_folder import RunFolder

EXAMPLES = """
\b
Examples:
  netdyno run
  netdyno run --frameworks mxnet,pytorch --networks vgg_a --batch-size 8,32
  netdyno run --frameworks pytorch --modes eager,compile --budget 10m
  netdyno run matrix.toml --out results/today
"""


@click.command(epilog=EXAMPLES)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@frameworks_option
@modes_option
@networks_option
@click.option("--batch-size", type=Integers(), help="Images in a batch. Default: 32.")
@device_option
@click.option("--threads", type=Integers(), help="On CPU. Default: all usable cores.")
@precision_option
@layout_option
@click.option(
    "--host-allocator",
    type=Names(),
    help="system: the C library as it is; retain: freed memory stays. Default: system.",
)
@click.option("--rounds", type=int, help="Fresh processes for each cell. Default: 3.")
@click.option("--budget", type=Duration(), help="Start no trial that would end later than this.")
@click.option("--trial-timeout", type=Duration(), help="End a trial after this. Default: 10m.")
@click.option("--seed", type=int, help="Of weights, images and the order. Default: 1.")
@click.option("--out", type=click.Path(path_type=Path), help="The run folder. Default: runs/TIME.")
@python_option
@click.option(
    "--unverified", is_flag=True, help="Measure without parity checks, and say so everywhere."
)
@click.option("--dry-run", is_flag=True, help="Print the plan, its time and memory; run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(
    file: Path | None,
    out: Path | None,
    python: tuple[str, ...],
    unverified: bool,
    dry_run: bool,
    as_json: bool,
    **axes: Any,
) -> int:
    """Measure frameworks on networks and print the table.

    FILE is a TOML file with the same options; options on the command line win over it.
    """
    request = _request(file, axes)
    settings = load_settings(python)
    plan = cells(request)
    estimates = {cell.key: estimate_cell(cell) for cell in plan}
    if dry_run:
        if as_json:
            print_json(plan_json(request, plan, estimates))
        else:
            print_plan(request, plan, estimates, console())
        return 0
    _check_memory(plan, estimates)
    found = {
        name: environments.find(framework(name), settings)
        for name in dict.fromkeys(cell.framework for cell in plan)
    }
    redact = redactor(settings, found)
    folder = RunFolder(out or _new_folder(), redact)
    folder.begin(request, plan, host_facts())
    with _ended_in_order(folder) as ending:
        refused = {} if unverified else _verify(plan, found, settings, folder, redact)
        runner = Runner(
            request,
            plan,
            found,
            folder,
            Budget(request.budget_seconds, {key: e.seconds for key, e in estimates.items()}),
            redact,
            refused,
            check_work=not unverified,
        )
        ending.status = _measure(runner, estimates)
    return _report(folder, as_json, ending.status == "interrupted")


def _request(file: Path | None, axes: dict[str, Any]) -> Request:
    given = {key: value for key, value in axes.items() if value is not None}
    for key in ("budget", "trial_timeout"):
        if key in given:
            given[f"{key}_seconds"] = given.pop(key)
    return dataclasses.replace(Request(), **{**(read_request_file(file) if file else {}), **given})


def _new_folder() -> Path:
    name = datetime.now().strftime("%Y%m%d-%H%M%S")
    candidates = (Path("runs") / f"{name}{suffix}" for suffix in ("", "-2", "-3", "-4"))
    return next((path for path in candidates if not path.exists()), Path("runs") / name)


def _check_memory(plan: list[Cell], estimates: dict[str, CellEstimate]) -> None:
    """Refuse, before anything runs, what cannot fit the host."""
    have = memory_bytes()
    for cell in plan:
        need = estimates[cell.key].memory_bytes
        if cell.device == "cpu" and need > have:
            raise NetdynoError(
                f"{cell.network_spec} at batch size {cell.batch_size} needs about "
                f"{need / 1e9:.0f} GB, this host has {have / 1e9:.0f} GB: choose a smaller "
                "--batch-size"
            )


def redactor(settings: Settings, found: dict[str, environments.Environment]) -> Redactor:
    folders = {settings.home: "<netdyno-home>"}
    for name, environment in found.items():
        folders[environment.python.parent.parent] = f"<{name}-environment>"
        if environment.root:
            folders[environment.root] = f"<{name}-environment>"
    return Redactor(folders)


def _verify(
    plan: list[Cell],
    found: dict[str, environments.Environment],
    settings: Settings,
    folder: RunFolder,
    redact: Redactor,
) -> dict[str, str]:
    """Why cells are refused, by key: those that do not compute what the reference computes."""
    to_verify = [c for c in plan if framework(c.framework).verifiable and not lacking(c)]
    if not to_verify:
        return {}
    # They import NumPy, which takes as long as all the rest of netdyno.
    from netdyno.parity.certificate import CertificateStore
    from netdyno.parity.gate import certify
    from netdyno.parity.verify import Verifier

    progress = progress_console()

    def started(cell: Cell) -> None:
        text = f"verifying {cell.framework} {cell.mode}, {cell.network_spec} {cell.precision} …"
        progress.print(text, markup=False, soft_wrap=True)

    certificates = certify(
        to_verify,
        found,
        CertificateStore(settings.home / "certificates"),
        Verifier(environments.find(framework("numpy"), settings), redact),
        started,
    )
    folder.verified({key: certificate.summary for key, certificate in certificates.items()})
    return {
        key: f"not verified: {certificate.reason}"
        for key, certificate in certificates.items()
        if not certificate.passed
    }


@dataclass
class _Ending:
    """How a run ended: what ``run.json`` says."""

    status: str = "interrupted"


@contextmanager
def _ended_in_order(folder: RunFolder) -> Iterator[_Ending]:
    """Write how the run ended, whatever ends it; an interrupt ends it without an error.

    SIGTERM counts as an interrupt: batch systems send it.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ending = _Ending()
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield ending
    except KeyboardInterrupt:
        ending.status = "interrupted"
    finally:
        signal.signal(signal.SIGTERM, previous)
        folder.end(ending.status)


def _measure(runner: Runner, estimates: dict[str, CellEstimate]) -> str:
    total = runner.request.rounds * len(runner.cells)
    seconds = runner.request.rounds * sum(e.seconds for e in estimates.values())
    with RunProgress(progress_console(), total, seconds) as progress:
        return runner.run(progress)


def _report(folder: RunFolder, as_json: bool, interrupted: bool) -> int:
    run = read_run(folder.path)
    if as_json:
        print_json(summary_json(run))
    else:
        print_run(run, console())
    progress_console().print(f"The run is in {folder.path}", style="dim", markup=False)
    if interrupted:
        return 130
    return 0 if all(row.ok for row in summary(run)) else 1
