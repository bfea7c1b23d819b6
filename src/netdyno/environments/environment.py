"""One framework's environment: where its Python is and whether it can be used.

Everything here is cheap: a small file is read and the interpreter is started without ``site``,
some 10 ms in all. No framework is imported. (What is no Python package is asked what it is by
external.py, which takes 0.2 s.)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from filelock import FileLock, Timeout

from netdyno.environments import external
from netdyno.environments.environ import clean_environ
from netdyno.environments.interpreters import running_version
from netdyno.environments.marker import Marker, read_marker
from netdyno.environments.recipe import Accelerator, recipe
from netdyno.errors import NetdynoError
from netdyno.frameworks import FrameworkSpec
from netdyno.host.devices import has_nvidia_gpu
from netdyno.settings import Settings, location_variable

__all__ = ["Environment", "Kind", "State", "find", "inspect", "lock_file", "mend", "mend_command"]

Kind = Literal["managed", "existing", "controller", "external"]
State = Literal["ready", "missing", "interrupted", "stale", "broken"]

_IN_PROGRESS = "is being made by another `netdyno setup`"
_UNFINISHED = "is incomplete: the setup that made it did not finish"


@dataclass(frozen=True)
class Environment:
    """Where a framework runs.

    ``kind``: ``managed`` (we made it), ``existing`` (the person named its interpreter),
    ``controller`` (the interpreter that runs netdyno) or ``external`` (the same, driving a program
    that is no Python). ``problem`` says what is wrong when ``state`` is not ``ready``.
    ``framework_version`` and ``packages`` are what a managed environment recorded when it was made,
    or what an external one consists of; others are only known once they are run. ``variables`` tell
    the worker where an external one is, ``root`` is the folder that holds it.
    """

    framework: str
    python: Path
    kind: Kind
    accelerator: Accelerator
    state: State
    problem: str = ""
    python_version: str | None = None
    framework_version: str | None = None
    packages: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    root: Path | None = None

    @property
    def managed(self) -> bool:
        return self.kind == "managed"

    @property
    def ready(self) -> bool:
        return self.state == "ready"

    def environ(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables for a child of this environment's Python."""
        return clean_environ({**self.variables, **(extra or {})}, managed=self.managed)


def find(spec: FrameworkSpec, settings: Settings) -> Environment:
    """The environment to run ``spec`` in.

    Raises NetdynoError, naming the command that mends it, when it is not ready.
    """
    environment = inspect(spec, settings)
    if environment.ready:
        return environment
    if environment.kind == "existing":
        raise NetdynoError(
            f"the Python given for {spec.name}, {environment.python}, {environment.problem};"
            f" {mend(spec, environment)}"
        )
    if environment.kind == "external":
        raise NetdynoError(f"{spec.title}: {environment.problem}; {mend(spec, environment)}")
    raise NetdynoError(
        f"the environment of {spec.name} {environment.problem}; run `{mend_command(spec.name)}`"
    )


def mend(spec: FrameworkSpec, environment: Environment) -> str:
    """What to do when ``environment`` is not ready."""
    if environment.kind == "existing":
        return f"name another with --python {spec.name}=PATH or in the configuration file"
    if environment.kind == "external":
        return (
            f"set {location_variable(spec.name)} to where {spec.title} is installed"
            f" ({spec.external} says how to get it; netdyno does not install it)"
        )
    return mend_command(spec.name)


def mend_command(name: str) -> str:
    """What to type when the environment of ``name`` is not ready."""
    return f"netdyno setup {name}"


def lock_file(spec: FrameworkSpec, settings: Settings) -> FileLock:
    """Held by whoever makes or checks the managed environment of ``spec``."""
    return FileLock(settings.environments / f"{spec.name}.lock")


def inspect(spec: FrameworkSpec, settings: Settings, *, have_lock: bool = False) -> Environment:
    """The environment of ``spec`` in whatever state it is; never raises for a bad one.

    ``have_lock``: the caller holds ``lock_file``, so nobody else can be making it.
    """
    if spec.name in settings.python:
        return _existing(spec, settings.python[spec.name])
    if spec.external:
        return _external(spec, settings)
    if spec.controller_interpreter:
        version = "{}.{}.{}".format(*sys.version_info)
        return Environment(
            spec.name, Path(sys.executable), "controller", "cpu", "ready", python_version=version
        )
    return _managed(spec, settings, have_lock)


def _existing(spec: FrameworkSpec, python: Path) -> Environment:
    version = running_version(python, managed=False)
    accelerator: Accelerator = "cuda" if "cuda" in spec.devices and has_nvidia_gpu() else "cpu"
    return Environment(
        spec.name,
        python,
        "existing",
        accelerator,
        "ready" if version else "broken",
        "" if version else "does not run",
        version,
    )


def _external(spec: FrameworkSpec, settings: Settings) -> Environment:
    named = settings.external.get(spec.name)
    found = external.look_for(spec, named)
    state: State = "ready"
    if found.problem:
        state = "broken" if found.program or named else "missing"
    return Environment(
        spec.name,
        Path(sys.executable),
        "external",
        "cpu",
        state,
        found.problem,
        python_version="{}.{}.{}".format(*sys.version_info),
        framework_version=found.version or None,
        packages=MappingProxyType(dict(found.parts)),
        variables=MappingProxyType({location_variable(spec.name): str(named)} if named else {}),
        root=Path(found.root) if found.root else None,
    )


def _managed(spec: FrameworkSpec, settings: Settings, have_lock: bool) -> Environment:
    folder = settings.environments / spec.name
    python = folder / "bin" / "python"

    def unready(state: State, problem: str, marker: Marker | None = None) -> Environment:
        accelerator = marker.accelerator if marker else "cpu"
        version = marker.framework_version if marker else None
        return Environment(
            spec.name, python, "managed", accelerator, state, problem, framework_version=version
        )

    try:
        if not folder.is_dir():
            return unready("missing", "has not been made")
    except OSError as error:
        return unready("broken", f"cannot be read: {error.strerror}")
    try:
        marker = read_marker(folder)
    except ValueError as error:
        return unready("stale", f"must be made again: its environment.json {error}")
    if marker is None:
        busy = not have_lock and _is_locked(spec, settings)
        return unready("interrupted", _IN_PROGRESS if busy else _UNFINISHED)
    version = running_version(python)
    if version is None:
        return unready("broken", "is broken: its interpreter is gone or does not run", marker)
    if _minor(version) != _minor(marker.python_version):
        changed = f"is broken: it was made with Python {marker.python_version}, now {version} runs"
        return unready("broken", changed, marker)
    if _digest(spec, marker) != marker.recipe_sha256:
        return unready("stale", "is stale: its requirements have changed since it was made", marker)
    return _ready(python, version, marker)


def _ready(python: Path, version: str, marker: Marker) -> Environment:
    return Environment(
        marker.framework,
        python,
        "managed",
        marker.accelerator,
        "ready",
        python_version=version,
        framework_version=marker.framework_version,
        packages=MappingProxyType(dict(marker.packages)),
    )


def _digest(spec: FrameworkSpec, marker: Marker) -> str | None:
    """Of what setup would install today; None if it would choose another Python or build."""
    python = _minor(marker.python_version)
    if marker.accelerator not in spec.requirements or python not in spec.python_versions:
        return None
    return recipe(spec, marker.accelerator, python).digest


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _is_locked(spec: FrameworkSpec, settings: Settings) -> bool:
    try:
        with lock_file(spec, settings).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False
