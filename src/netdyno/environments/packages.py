"""Installing a recipe with pip, as the person has configured it, and listing what is there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO

from netdyno.environments.environ import clean_environ
from netdyno.environments.interpreters import uv_executable
from netdyno.environments.processes import Outcome, Processes
from netdyno.environments.recipe import Recipe
from netdyno.errors import NetdynoError

__all__ = ["install", "installed", "why_pip_failed"]

_DOWNLOAD = re.compile(r"Downloading (\S+?)(?:-py|-cp|\.tar|\.zip)\S* \(([\d.]+) (MB|GB)\)")
_WORTH_REPORTING_MB = 50.0
# What pip prints -> what to do about it.
_ADVICE = (
    (r"No space left on device", "the disk is full: free some, or set NETDYNO_HOME or TMPDIR"),
    (
        r"Failed to establish a new connection|Name or service not known|Connection refused"
        r"|Could not fetch URL|ProxyError|SSLError|timed out",
        "the package index was not reached: check the network, or point pip at a mirror"
        " (`pip config set global.index-url URL`)",
    ),
    (
        r"ResolutionImpossible|conflicting dependencies",
        "these versions cannot be installed together from what pip finds",
    ),
    (
        r"No matching distribution found|Could not find a version",
        "pip finds no such release for this Python and platform; a mirror may lack it",
    ),
)


def install(
    python: Path,
    folder: Path,
    recipe: Recipe,
    processes: Processes,
    log: IO[str],
    report: Callable[[str], None],
) -> None:
    """Install ``recipe`` for ``python``. Raises NetdynoError saying what to configure.

    pip goes first, since the person's pip may be set up to find a CPU build. Where it finds only
    a CUDA build, which the constraints refuse, uv asks PyTorch's own index for the CPU build.
    """
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(recipe.constraints) + "\n", encoding="utf-8")
    alone = [] if recipe.dependencies else ["--no-deps"]
    words = [*alone, "--constraint", str(constraints), *recipe.requirements]
    pip = [str(python), "-m", "pip", "install", "--progress-bar", "off", "--no-input"]
    # --no-user: PIP_USER, common on clusters, is refused inside a venv.
    done = processes.run(
        [*pip, "--no-user", "--disable-pip-version-check", *words],
        clean_environ(),
        log=log,
        on_line=lambda line: _tell(line, report),
    )
    if done.ok:
        return
    if not _only_cuda(done, recipe):
        raise NetdynoError(
            f"pip could not install {' '.join(recipe.requirements)}{why_pip_failed(done)}"
        )
    uv = uv_executable() if recipe.torch_backend else None
    if uv is None:
        raise NetdynoError(_no_cpu_build(recipe, ""))
    report("pip finds only a CUDA build, which is of no use here: asking uv for the CPU build")
    backend = [str(uv), "pip", "install", "--python", str(python), "--torch-backend", "cpu"]
    fallback = processes.run([*backend, *words], clean_environ(), log=log)
    if not fallback.ok:
        raise NetdynoError(_no_cpu_build(recipe, fallback.tail(6)))


def installed(python: Path, processes: Processes) -> dict[str, str]:
    """Every package of the environment and its version; nothing about where it came from."""
    command = [str(python), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
    done = processes.run(command, clean_environ())
    listing = next((line for line in done.lines if line.startswith("[")), None)
    if not done.ok or listing is None:
        raise NetdynoError(f"pip could not list what it installed:{done.tail()}")
    return {entry["name"]: entry["version"] for entry in json.loads(listing)}


def _tell(line: str, report: Callable[[str], None]) -> None:
    match = _DOWNLOAD.search(line)
    if match:
        megabytes = float(match[2]) * (1000 if match[3] == "GB" else 1)
        if megabytes >= _WORTH_REPORTING_MB:
            report(f"downloading {match[1]} ({match[2]} {match[3]})")
    elif line.startswith("Installing collected packages:"):
        report(f"installing {line.count(',') + 1} packages")


def _only_cuda(done: Outcome, recipe: Recipe) -> bool:
    """Whether pip failed because a forbidden package would have been needed."""
    text = "\n".join(done.lines)
    return any(f"{name}<0" in text for name in recipe.forbidden)


def why_pip_failed(done: Outcome) -> str:
    text = "\n".join(done.lines)
    advice = next((words for pattern, words in _ADVICE if re.search(pattern, text)), "")
    return f": {advice}. It said:{done.tail(6)}" if advice else f". It said:{done.tail(6)}"


def _no_cpu_build(recipe: Recipe, said: str) -> str:
    return (
        f"no CPU build of {recipe.requirements[0]} was found, and a CUDA build brings gigabytes"
        " that this host cannot use. Point pip at an index or folder that has the CPU build"
        " (`pip config set global.extra-index-url URL` or `global.find-links FOLDER`), name an"
        " existing interpreter with --python, or accept the CUDA build with --accelerator cuda."
        + (f" uv said:{said}" if said else "")
    )
