"""Making a managed environment: delete, venv, install, import, and only then the marker.

A venv cannot be moved, so it is made in its final place; what tells a finished one from a
half-made one is the marker, which goes first and comes last.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from netdyno.environments.environ import clean_environ
from netdyno.environments.imports import try_import
from netdyno.environments.interpreters import Interpreter, find_interpreter
from netdyno.environments.marker import Marker, marker_path, write_marker
from netdyno.environments.packages import install, installed
from netdyno.environments.processes import Processes
from netdyno.environments.recipe import Accelerator, Recipe, lock_path, lock_text, recipe
from netdyno.errors import NetdynoError
from netdyno.frameworks import FrameworkSpec

__all__ = ["Order", "make"]

# Installed size of the largest CPU (TensorFlow) and CUDA build, and as much again for pip's
# unpacked downloads.
_FREE_BYTES_NEEDED = {"cpu": 3 * 10**9, "cuda": 14 * 10**9}


@dataclass(frozen=True)
class Order:
    """What to make, where, and whom to tell."""

    spec: FrameworkSpec
    folder: Path
    accelerator: Accelerator
    processes: Processes
    log: IO[str]
    report: Callable[[str], None]
    update_lock: bool = False

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def make(order: Order) -> Marker:
    """Make the environment anew, whatever is there. Raises NetdynoError when it cannot be made."""
    _check_space(order)
    interpreter = find_interpreter(order.spec.python_versions, order.processes, order.report)
    minor = ".".join(interpreter.version.split(".")[:2])
    chosen = recipe(order.spec, order.accelerator, minor, locked=not order.update_lock)
    if not chosen.locked and not order.update_lock:
        order.report(f"no lock for Python {minor}: what it depends on will be the newest")
    _delete(order.folder)
    order.report(f"making the environment with Python {minor} ({order.accelerator})")
    _venv(order, interpreter)
    install(order.python, order.folder, chosen, order.processes, order.log, order.report)
    found = try_import(order.spec, order.python, order.processes, managed=True, log=order.log)
    if found.version is None:
        raise NetdynoError(f"{found.problem}{_advice(order)}")
    if order.accelerator == "cuda" and found.version.endswith("+cpu"):
        raise NetdynoError(
            f"pip found the CPU build {found.version} of {order.spec.title}: point pip at an index"
            f" that has CUDA builds{_advice(order)}"
        )
    packages = installed(order.python, order.processes)
    if order.update_lock:
        chosen = _write_lock(order, chosen, packages)
    marker = Marker(
        framework=order.spec.name,
        framework_version=found.version,
        accelerator=order.accelerator,
        python_version=interpreter.version,
        recipe_sha256=chosen.digest,
        packages=packages,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    write_marker(order.folder, marker)
    return marker


def _check_space(order: Order) -> None:
    needed = _FREE_BYTES_NEEDED[order.accelerator]
    free = shutil.disk_usage(order.folder.parent).free
    if free < needed:
        raise NetdynoError(
            f"only {free / 1e9:.1f} GB are free under {order.folder.parent} and the"
            f" {order.accelerator} build may need {needed / 1e9:.0f} GB: free some,"
            " or set NETDYNO_HOME to a folder on a larger disk"
        )


def _delete(folder: Path) -> None:
    """The marker goes first: an interrupted deletion must not look like an environment."""
    marker_path(folder).unlink(missing_ok=True)
    if folder.is_symlink():
        raise NetdynoError(f"{folder} is a symbolic link: remove it, netdyno deletes only folders")
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise NetdynoError(f"cannot delete {folder}: {error.strerror}; remove it") from None


def _venv(order: Order, interpreter: Interpreter) -> None:
    done = order.processes.run(
        [interpreter.path, "-m", "venv", order.folder], clean_environ(), log=order.log
    )
    if not done.ok:
        raise NetdynoError(f"{interpreter.path} could not make a venv:{done.tail()}")
    # Python 3.11 and earlier put a setuptools there, of its own age; only what is required
    # belongs in an environment, at the locked version.
    order.processes.run(
        [order.python, "-m", "pip", "uninstall", "--yes", "--quiet", "setuptools"],
        clean_environ(),
        log=order.log,
    )


def _write_lock(order: Order, made: Recipe, packages: dict[str, str]) -> Recipe:
    path = lock_path(order.spec, order.accelerator)
    try:
        path.write_text(lock_text(order.spec, made, packages), encoding="utf-8")
    except OSError as error:
        raise NetdynoError(
            f"cannot write the lock {path}: {error.strerror}; --update-lock needs a source checkout"
        ) from None
    order.report(f"wrote {path}")
    return recipe(order.spec, order.accelerator, made.python)


def _advice(order: Order) -> str:
    if order.accelerator == "cuda" and "cpu" in order.spec.requirements:
        name = order.spec.name
        return f"\n  For the CPU build: netdyno setup {name} --accelerator cpu"
    return ""
