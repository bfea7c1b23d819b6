"""``netdyno paper``: figures of published papers beside what they are today."""

from __future__ import annotations

import click

from netdyno import environments
from netdyno.cli.bench import redactor, say
from netdyno.cli.options import python_option, wait_option
from netdyno.cli.terminal import console, print_json
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.host.compiler import cxx_compiler
from netdyno.host.lock import measuring
from netdyno.memory import MXNET_1_9, MXNET_2015
from netdyno.memory.figure7 import BATCH_SIZE
from netdyno.published.figure7 import Figure7, Reason, causes, mxnet_plans, planned, published
from netdyno.report.figure7 import figure7_json, print_figure7
from netdyno.settings import Settings, load_settings

__all__ = ["command"]


@click.group("paper")
def command() -> None:
    """Put figures of published papers beside what they are today."""


@command.command("figure-7")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=BATCH_SIZE,
    show_default="the paper's, 64",
    metavar="N",
    help="Images in a batch.",
)
@python_option
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def figure_7(batch_size: int, python: tuple[str, ...], wait: bool, as_json: bool) -> int:
    """Internal memory under the allocation strategies of the MXNet paper (arXiv:1512.01274).

    The paper's values, the planner's for MXNet of 2015 and for 1.9, and the plans of the MXNet
    that is installed, for the paper's three networks. Nothing is computed and hardly any memory
    is used. What MXNet cannot tell is named with the reason; exit code 1 if a plan failed.
    """
    settings = load_settings(python)
    paper, absent = published(batch_size)
    with measuring(settings.lock, wait=wait, tell=say):
        figure = _with_mxnet(
            Figure7(
                batch_size,
                {
                    "published": paper,
                    "planned_2015": planned(batch_size, MXNET_2015),
                    "planned_1_9": planned(batch_size, MXNET_1_9),
                    "mxnet": {},
                },
                tuple(absent),
            ),
            settings,
        )
    why = causes(batch_size)
    if as_json:
        print_json(figure7_json(figure, why))
    else:
        print_figure7(figure, why, console())
    return 1 if any(reason.failed for reason in figure.reasons) else 0


def _with_mxnet(figure: Figure7, settings: Settings) -> Figure7:
    """The figure with the plans of MXNet, or with the reason why there are none."""
    try:
        environment = environments.find(framework("mxnet"), settings)
    except NetdynoError as error:
        reason = Reason("mxnet", "", str(error))
        return Figure7(figure.batch_size, figure.gib, (*figure.reasons, reason))
    plans, reasons = mxnet_plans(
        figure.batch_size,
        environment,
        cxx_compiler(),
        redactor(settings, {"mxnet": environment}),
        lambda network, strategy: say(f"MXNet's plan of {network}, {strategy} …"),
    )
    return Figure7(
        figure.batch_size,
        {**figure.gib, "mxnet": plans},
        (*figure.reasons, *reasons),
        environment.framework_version,
    )
