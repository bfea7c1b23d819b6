"""Whether a framework can be imported, asked of its own interpreter in a process of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from netdyno.environments.environ import clean_environ
from netdyno.environments.processes import Processes
from netdyno.frameworks import FrameworkSpec

__all__ = ["Import", "try_import"]

# A cold import from a network file system takes minutes; one that hangs takes for ever.
_IMPORT_SECONDS = 600.0
_ANSWER = "netdyno-version "
_CODE = f"""
import importlib, json, runpy, sys
for path in sys.argv[2:]:
    runpy.run_path(path)
module = importlib.import_module(sys.argv[1])
version = getattr(module, "__version__", None)
if version is None:  # some tell it in their package's metadata only
    try:
        from importlib import metadata
        version = metadata.version(sys.argv[1])
    except ImportError:  # which PackageNotFoundError is
        version = "unknown"
version = str(version)
print()
print("{_ANSWER}" + json.dumps([version, "%d.%d.%d" % sys.version_info[:3]]))
"""


@dataclass(frozen=True)
class Import:
    """``version`` of the framework and of its Python, or the ``problem`` that was met."""

    version: str | None = None
    python_version: str | None = None
    problem: str = ""


def try_import(
    spec: FrameworkSpec,
    python: Path,
    processes: Processes,
    *,
    managed: bool,
    log: IO[str] | None = None,
) -> Import:
    """Import ``spec`` with ``python``."""
    first = [spec.folder / spec.import_first] if spec.import_first else []
    done = processes.run(
        [python, "-c", _CODE, spec.import_name, *first],
        clean_environ(managed=managed),
        log=log,
        timeout_seconds=_IMPORT_SECONDS,
    )
    if done.timed_out:
        return Import(problem=f"`import {spec.import_name}` took over {_IMPORT_SECONDS:.0f} s")
    answers = [line for line in done.lines if line.startswith(_ANSWER)]
    if not done.ok or not answers:
        how = f"exit code {done.returncode}"
        return Import(problem=f"`import {spec.import_name}` failed ({how}):{done.tail()}")
    version, python_version = json.loads(answers[-1][len(_ANSWER) :])
    return Import(version, python_version)
