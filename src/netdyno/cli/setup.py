"""``netdyno setup``: make, check and mend the environments of frameworks."""

from __future__ import annotations

import threading
from typing import Any, cast

import click

from netdyno.cli.terminal import print_json
from netdyno.environments.builds import Built, Wish, build_all
from netdyno.environments.recipe import Accelerator
from netdyno.errors import NetdynoError
from netdyno.frameworks import FrameworkSpec, framework, frameworks
from netdyno.settings import load_settings

__all__ = ["command"]

_SCHEMA_VERSION = 1


@click.command("setup")
@click.argument("names", nargs=-1, metavar="[FRAMEWORK]...")
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="FRAMEWORK=PATH",
    help="Use this interpreter as it is; nothing is installed into it. Repeatable.",
)
@click.option(
    "--accelerator",
    type=click.Choice(["cpu", "cuda"]),
    help="Which build to install.  [default: cuda where there is an NVIDIA GPU, else cpu]",
)
@click.option("--rebuild", is_flag=True, help="Make the environments again even if they work.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="How many environments to make at once.",
)
@click.option(
    "--update-lock",
    is_flag=True,
    help="For maintainers: install the newest versions that fit and write the lock file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(
    names: tuple[str, ...],
    pythons: tuple[str, ...],
    accelerator: str | None,
    rebuild: bool,
    jobs: int,
    update_lock: bool,
    as_json: bool,
) -> int:
    """Make the environments of frameworks, each isolated from the others and from this Python.

    Without names: every framework that is measured by default. An environment that is there is
    checked by importing its framework, and made again if it is incomplete, out of date or broken.
    """
    settings = load_settings(pythons)
    specs = _chosen(names)
    chosen = cast("Accelerator | None", accelerator)
    for spec in specs:
        _check_accelerator(spec, chosen, named=bool(names))
    wish = Wish(chosen, rebuild, update_lock, jobs)
    built = build_all(specs, settings, wish, _Reporter().report)
    if as_json:
        print_json({"schema_version": _SCHEMA_VERSION, "environments": [_json(b) for b in built]})
    return 1 if any(b.error for b in built) else 0


class _Reporter:
    """Whole lines on stderr from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def report(self, name: str, message: str) -> None:
        with self._lock:
            click.echo(f"{name}: {message}", err=True)


def _chosen(names: tuple[str, ...]) -> list[FrameworkSpec]:
    if names:
        return [framework(name) for name in dict.fromkeys(names)]
    return [spec for spec in frameworks().values() if not spec.on_request_only]


def _check_accelerator(spec: FrameworkSpec, accelerator: Accelerator | None, named: bool) -> None:
    if accelerator and not spec.controller_interpreter and accelerator not in spec.requirements:
        others = "" if named else "; name the frameworks that have one"
        raise NetdynoError(f"{spec.name} has no {accelerator} build that netdyno knows{others}")


def _json(built: Built) -> dict[str, Any]:
    environment = built.environment
    return {
        "framework": environment.framework,
        "kind": environment.kind,
        "state": environment.state,
        "action": built.action,
        "accelerator": environment.accelerator,
        "python": str(environment.python),
        "python_version": environment.python_version,
        "framework_version": built.framework_version,
        "seconds": round(built.seconds, 3),
        "error": built.error or None,
        "log": str(built.log) if built.log else None,
    }
