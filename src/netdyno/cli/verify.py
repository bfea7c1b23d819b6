"""``netdyno verify``: do the frameworks compute the same thing?"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import click

from netdyno import environments
from netdyno.at_once import jobs_for
from netdyno.cli.bench import redactor
from netdyno.cli.options import (
    device_option,
    frameworks_option,
    jobs_option,
    layout_option,
    modes_option,
    networks_option,
    precision_option,
    python_option,
    wait_option,
)
from netdyno.cli.terminal import console, print_json, progress_console
from netdyno.frameworks import framework
from netdyno.host.lock import measuring
from netdyno.parity.certificate import CertificateStore
from netdyno.parity.side_by_side import side_by_side
from netdyno.parity.verify import Verification, Verifier
from netdyno.plan.cell import Cell
from netdyno.plan.matrix import cells
from netdyno.plan.request import Request
from netdyno.report.parity import print_verifications, verifications_json
from netdyno.settings import load_settings
from netdyno.store.run_folder import now


@click.command()
@frameworks_option()
@modes_option
@networks_option()
@device_option
@precision_option
@layout_option
@click.option("--layers", is_flag=True, help="Also single layers of random shapes.")
@click.option("--input-gradient", is_flag=True, help="Also the gradient by the images.")
@jobs_option
@python_option
@wait_option
@click.option("--verbose", "-v", is_flag=True, help="Every tensor, not only the worst.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(
    layers: bool,
    input_gradient: bool,
    jobs: int | None,
    python: tuple[str, ...],
    wait: bool,
    verbose: bool,
    as_json: bool,
    **axes: Any,
) -> int:
    """Hold frameworks against a reference in double precision.

    Loss, logits, every gradient and the parameters after three train steps of each network, and
    each of its layers on its own. Exit code 1 if anything differs or crashes.
    """
    given = {key: value for key, value in axes.items() if value is not None}
    plan = cells(dataclasses.replace(Request(), **given))
    settings = load_settings(python)
    found = {
        name: environments.find(framework(name), settings)
        for name in dict.fromkeys(cell.framework for cell in plan)
    }
    reference = environments.find(framework("numpy"), settings)
    redact = redactor(settings, found)
    verifier = Verifier(reference, redact, input_gradient=input_gradient)
    store = CertificateStore(settings.home / "certificates")
    progress = progress_console()
    # It measures nothing, but its load would disturb a run that does.
    lock = measuring(
        settings.lock,
        wait=wait,
        tell=lambda text: progress.print(text, markup=False, soft_wrap=True),
    )
    click.get_current_context().with_resource(lock)
    number = itertools.count(1)

    def started(cell: Cell) -> None:
        text = f"[{next(number)}/{len(plan)}] {cell.framework} {cell.mode}, {cell.network_spec} …"
        progress.print(text, markup=False, soft_wrap=True)

    done: list[Verification] = []
    for cell, verification in side_by_side(plan, found, verifier, jobs or jobs_for(plan), started):
        if framework(cell.framework).verifiable:
            store.add(verification, found[cell.framework], now())
        done.append(verification)
    done.sort(key=lambda verification: plan.index(verification.cell))
    for cell in _one_of_each(plan) if layers else ():
        progress.print(f"{cell.framework} {cell.mode}, single layers …", soft_wrap=True)
        done.append(verifier.verify_layers(cell, found[cell.framework]))
    if as_json:
        print_json(verifications_json(done))
    else:
        print_verifications(done, console(), verbose=verbose)
    return 0 if all(verification.passed for verification in done) else 1


def _one_of_each(plan: Sequence[Cell]) -> list[Cell]:
    """A cell for each way to run a framework: single layers do not depend on the network."""
    ways = {(c.framework, c.mode, c.precision, c.layout, c.device): c for c in plan}
    return list(ways.values())
