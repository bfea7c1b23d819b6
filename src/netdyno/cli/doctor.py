"""``netdyno doctor``: what is here, what is missing, and the command that mends it."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from netdyno import __version__
from netdyno.cli.terminal import console, print_json
from netdyno.environments import Environment, inspect, mend, mend_command
from netdyno.environments.accelerators import suitable_accelerator
from netdyno.environments.imports import try_import
from netdyno.environments.processes import Processes
from netdyno.frameworks import FrameworkSpec, frameworks
from netdyno.host.compiler import Compiler, clang_compiler, cxx_compiler
from netdyno.host.devices import has_nvidia_gpu
from netdyno.host.facts import host_facts
from netdyno.settings import Settings, load_settings

__all__ = ["command"]

_SCHEMA_VERSION = 1
_STATE_STYLE = {"ready": "green", "missing": "yellow", "interrupted": "yellow", "stale": "yellow"}


@click.command("doctor")
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="FRAMEWORK=PATH",
    help="Look at this interpreter instead of a managed environment. Repeatable.",
)
@click.option("--deep", is_flag=True, help="Also import each framework; takes some seconds each.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(pythons: tuple[str, ...], deep: bool, as_json: bool) -> None:
    """Show frameworks, environments and devices, and what is missing.

    Reports only: the exit code is 0 whatever is found.
    """
    settings = load_settings(pythons)
    specs = frameworks()
    found = {name: inspect(spec, settings) for name, spec in specs.items()}
    if deep:
        processes = Processes()
        found = {name: _deep(specs[name], env, processes) for name, env in found.items()}
    facts = host_facts()
    remedies = [r for name in specs for r in _remedies(specs[name], found[name], cxx_compiler())]
    if as_json:
        print_json(_json(settings, found, facts, remedies))
    else:
        _render(settings, found, facts, remedies)


@dataclass(frozen=True)
class _Remedy:
    """One thing that is missing, and what to type (or do). ``optional``: few will miss it."""

    problem: str
    mend: str
    optional: bool = False


def _deep(spec: FrameworkSpec, environment: Environment, processes: Processes) -> Environment:
    """The environment as it is after an attempt to import its framework."""
    if not environment.ready or environment.kind == "external":  # which was asked already
        return environment
    done = try_import(spec, environment.python, processes, managed=environment.managed)
    if done.version is None:
        return replace(environment, state="broken", problem=f"is broken: {done.problem}")
    return replace(environment, framework_version=done.version)


def _remedies(
    spec: FrameworkSpec, environment: Environment, compiler: Compiler | None
) -> list[_Remedy]:
    optional = spec.on_request_only and environment.state == "missing"  # nobody has asked for it
    if environment.kind == "external" and not environment.ready:
        problem = f"{spec.title}: {environment.problem}"
        return [_Remedy(problem, mend(spec, environment), optional)]
    if not environment.ready:
        lines = [line.strip() for line in environment.problem.splitlines()]
        problem = " ".join(dict.fromkeys((lines[0], lines[-1])))
        if environment.kind == "existing":
            problem = f"{environment.python} {problem}"
        else:
            problem = f"the environment {problem}"
        return [_Remedy(f"{spec.title}: {problem}", mend(spec, environment), optional)]
    found = []
    cpu_build = environment.managed and environment.accelerator == "cpu"
    if cpu_build and suitable_accelerator(spec)[0] == "cuda":
        command = f"{mend_command(spec.name)} --accelerator cuda"
        found.append(_Remedy(f"{spec.title}: the CPU build is installed beside a GPU", command))
    modes = [mode.name for mode in spec.modes.values() if "c++" in mode.needs]
    if modes and compiler is None:
        problem = f"{spec.title}: no C++ compiler, so no mode {', '.join(modes)}"
        found.append(_Remedy(problem, "install g++ or clang++, or set CXX"))
    modes = [mode.name for mode in spec.modes.values() if "clang" in mode.needs]
    if modes and clang_compiler() is None:
        problem = f"{spec.title}: no clang, so no mode {', '.join(modes)} on the CPU"
        found.append(_Remedy(problem, "install clang, or name one in CC"))
    return found


def _devices(spec: FrameworkSpec, environment: Environment) -> list[str]:
    """Where this environment can run on this host."""
    cuda = environment.accelerator == "cuda" and has_nvidia_gpu()
    return [device for device in spec.devices if device == "cpu" or cuda]


def _modes(spec: FrameworkSpec) -> list[str]:
    """Modes that can run here."""
    lacking = set() if cxx_compiler() else {"c++"}
    if clang_compiler() is None and not has_nvidia_gpu():
        lacking.add("clang")
    return [mode.name for mode in spec.modes.values() if not lacking & set(mode.needs)]


def _free_bytes(home: Path) -> int:
    """Free space where environments are or will be made."""
    return shutil.disk_usage(next(p for p in (home, *home.parents) if p.exists())).free


def _json(
    settings: Settings,
    found: dict[str, Environment],
    facts: dict[str, Any],
    remedies: list[_Remedy],
) -> dict[str, Any]:
    compiler = cxx_compiler()
    entries = []
    for name, spec in frameworks().items():
        environment = found[name]
        entries.append(
            {
                "framework": name,
                "title": spec.title,
                "on_request_only": spec.on_request_only,
                "kind": environment.kind,
                "state": environment.state,
                "problem": environment.problem or None,
                "python": str(environment.python),
                "python_version": environment.python_version,
                "framework_version": environment.framework_version,
                "accelerator": environment.accelerator,
                "modes": _modes(spec),
                "devices": _devices(spec, environment),
            }
        )
    return {
        "schema_version": _SCHEMA_VERSION,
        "netdyno": __version__,
        "python_version": "{}.{}.{}".format(*sys.version_info),
        "home": str(settings.home),
        "free_bytes": _free_bytes(settings.home),
        "host": facts,
        "cxx_compiler": compiler.version if compiler else None,
        "frameworks": entries,
        "remedies": [
            {"problem": r.problem, "mend": r.mend, "optional": r.optional} for r in remedies
        ],
    }


def _render(
    settings: Settings,
    found: dict[str, Environment],
    facts: dict[str, Any],
    remedies: list[_Remedy],
) -> None:
    out = console()
    out.print(_frameworks_table(found))
    out.print()
    out.print(_host_table(settings, facts))
    out.print()
    if all(remedy.optional for remedy in remedies):
        out.print("Nothing is missing.")
    for remedy in sorted(remedies, key=lambda remedy: remedy.optional):
        prefix = "optional: " if remedy.optional else ""
        line = f"{prefix}{escape(remedy.problem)} -> {escape(remedy.mend)}"
        out.print(line, soft_wrap=True, style="dim" if remedy.optional else None)


def _frameworks_table(found: dict[str, Environment]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("framework", "environment", "version", "Python", "modes", "devices"):
        table.add_column(heading)
    for name, spec in frameworks().items():
        environment = found[name]
        if spec.on_request_only and environment.kind == "controller":
            continue  # needs nothing and is never chosen unless named: no news
        style = _STATE_STYLE.get(environment.state, "red")
        state = f"[{style}]{environment.state}[/]"
        table.add_row(
            spec.title,
            state if environment.managed else f"{state} ({environment.kind})",
            environment.framework_version or "-",
            environment.python_version or "-",
            ", ".join(_modes(spec)),
            ", ".join(_devices(spec, environment)),
        )
    return table


def _host_table(settings: Settings, facts: dict[str, Any]) -> Table:
    cpu, compiler = facts["cpu"], cxx_compiler()
    quota = f", capped at {cpu['quota_cores']:.3g} by a cgroup" if cpu["quota_cores"] else ""
    rows = [
        ("processor", cpu["model"]),
        ("cores", f"{cpu['usable_cores']} usable of {cpu['logical_cores']}{quota}"),
        ("memory", f"{facts['memory_bytes'] / 2**30:.1f} GiB"),
        ("system", f"{facts['os']}, {facts['kernel']}"),
        *(("GPU", _gpu_words(gpu)) for gpu in facts["gpus"]),
        ("C++ compiler", compiler.version if compiler else "none"),
        ("netdyno", f"{__version__}, Python {'{}.{}.{}'.format(*sys.version_info)}"),
        ("environments", f"{settings.home} ({_free_bytes(settings.home) / 1e9:.1f} GB free)"),
    ]
    if not facts["gpus"]:
        rows.insert(4, ("GPU", "no NVIDIA GPU found"))
    table = Table(box=None, pad_edge=False, show_header=False)
    for label, value in rows:
        table.add_row(label, escape(value))
    return table


def _gpu_words(gpu: dict[str, Any]) -> str:
    memory = f", {gpu['memory_bytes'] / 2**30:.0f} GiB" if gpu["memory_bytes"] else ""
    driver = f", driver {gpu['driver']}" if gpu["driver"] else ""
    return f"{gpu['name']}{memory}{driver}"
