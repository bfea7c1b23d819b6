"""``netdyno limits``: what can a device do at most, and what does that mean for a network?"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from itertools import count, product
from pathlib import Path

import click

from netdyno import environments
from netdyno.cli.bench import redactor, say
from netdyno.cli.options import Names, python_option, wait_option
from netdyno.cli.terminal import console, print_json
from netdyno.device_limits import DeviceLimits
from netdyno.environments import Environment
from netdyno.errors import NetdynoError, unknown_name
from netdyno.frameworks import framework, frameworks
from netdyno.host.cpu import cpu
from netdyno.host.lock import measuring
from netdyno.limits_runner import LimitsRunner, Target, candidates
from netdyno.networks import build
from netdyno.plan.cell import PRECISIONS
from netdyno.plan.matrix import device_name
from netdyno.plan.request import MAX_BATCH_SIZE
from netdyno.report.limits import work_of
from netdyno.report.limits_table import NetworkLimit, limits_json, print_limits
from netdyno.settings import Settings, load_settings

EXAMPLES = """
\b
Examples:
  netdyno limits
  netdyno limits --networks resnet50 --batch-size 64
  netdyno limits --device cuda:0 --precision fp32,tf32,bf16 --networks vgg_a
"""
# The layers of a network are shown in this one unless others are named.
DEFAULT_PRECISION = ("fp32",)


@click.command(epilog=EXAMPLES)
@click.option("--device", type=Names(), default="cpu", help="cpu or cuda:N. Default: cpu.")
@click.option(
    "--framework",
    "name",
    metavar="NAME",
    help="Measure with this one. Default: the first of pytorch, jax, numpy that is ready.",
)
@click.option(
    "--precision", type=Names(), help="Default: fp32, tf32, bf16, fp16, fp64 where they exist."
)
@click.option("--networks", type=Names(), default=None, help="The least time of these, too.")
@click.option(
    "--batch-size",
    type=click.IntRange(1, MAX_BATCH_SIZE),
    default=32,
    metavar="N",
    help="Of --networks. Default: 32.",
)
@python_option
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(
    device: tuple[str, ...],
    name: str | None,
    precision: tuple[str, ...] | None,
    networks: tuple[str, ...] | None,
    batch_size: int,
    python: tuple[str, ...],
    wait: bool,
    as_json: bool,
) -> int:
    """Measure what a device can do at most: products of matrices, copies, launches.

    With --networks also the least time that each layer could take there. `netdyno run` measures
    the same and says how near each cell comes.
    """
    for word in precision or ():
        if word not in PRECISIONS:
            raise unknown_name("precision", word, PRECISIONS)
    built = {spec: build(spec) for spec in networks or ()}
    settings = load_settings(python)
    targets: list[Target] = [
        (found, cpu().usable_cores if found == "cpu" else 1, precision or PRECISIONS)
        for found in dict.fromkeys(map(device_name, device))
    ]
    choices = {target[0]: _environments(target[0], name, settings) for target in targets}
    with measuring(settings.lock, wait=wait, tell=say):
        devices = _measure(targets, choices, settings)
    limits = [
        NetworkLimit(
            network.name, batch_size, kind, found.device, work_of(network, batch_size, kind), most
        )
        for (network, found), kind in product(
            product(built.values(), devices), precision or DEFAULT_PRECISION
        )
        if (most := found.ceilings(kind))
    ]
    if as_json:
        print_json(limits_json(devices, limits))
    else:
        print_limits(devices, limits, console())
    return 0 if all(found.usable and found.status == "ok" for found in devices) else 1


def _environments(device: str, name: str | None, settings: Settings) -> list[Environment]:
    """Raises NetdynoError where nothing can measure ``device``."""
    if name is None:
        found = candidates(device, settings)
        if not found:
            raise NetdynoError(
                f"no framework that can measure {device} is ready: see netdyno doctor"
            )
        return found
    spec = framework(name)
    if not spec.has_limits:
        able = [other.name for other in frameworks().values() if other.limits_preference]
        raise NetdynoError(f"{name} measures no limits: name one of {', '.join(able)}")
    if device.partition(":")[0] not in spec.devices:
        raise NetdynoError(f"{name} does not run on {device}: name another framework")
    return [environments.find(spec, settings)]


def _measure(
    targets: Sequence[Target], choices: dict[str, list[Environment]], settings: Settings
) -> list[DeviceLimits]:
    redact = redactor(settings, {e.framework: e for found in choices.values() for e in found})
    numbers = count()
    with tempfile.TemporaryDirectory(prefix="netdyno-") as folder:
        runner = LimitsRunner(
            lambda cell: Path(folder) / f"{next(numbers)}.jsonl",
            lambda path, outcome: None,
            redact,
        )
        devices = []
        for target in targets:
            say(f"measuring the limits of {target[0]} …")
            devices.append(runner.measure(target, choices[target[0]]))
    return [dataclasses.replace(found, reason=redact(found.reason)) for found in devices]
