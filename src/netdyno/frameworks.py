"""What netdyno knows of each framework without importing it: its ``framework.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType

import netdyno_worker
from netdyno.errors import NetdynoError, unknown_name

__all__ = ["WORKER_ROOT", "FrameworkSpec", "ModeSpec", "framework", "frameworks"]

WORKER_ROOT = Path(netdyno_worker.__file__).parent


@dataclass(frozen=True)
class ModeSpec:
    """One way to run a framework. ``layouts[0]`` is the default.

    ``devices``: those that it exists on; empty for all of the framework's.
    ``needs``: ``c++``, or ``clang`` on a CPU, of which it makes kernels at run time.
    ``compiles_ahead``: what it compiles can be kept in a folder, and holds nothing that was timed.
    ``tunes_slowly``: its autotuning compiles all that it tries, and takes most of a minute.
    """

    name: str
    layouts: tuple[str, ...]
    devices: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    first_iteration_seconds: float = 0.0
    compiles_ahead: bool = False
    tunes_slowly: bool = False


@dataclass(frozen=True)
class FrameworkSpec:
    """A ``framework.toml``, read and checked.

    ``import_first``: a file of its folder to be run before the framework can be imported.
    ``cpu_forbids``: packages that would make a CPU environment a CUDA one. ``cpu_fallback``: how
    to get a CPU build where pip finds none. ``dependencies``: whether pip also installs what the
    requirements ask for themselves. ``cuda_newest_capability``: the newest GPU that the CUDA build
    has code for. ``known_differences``: what parity checks leave out, with the reason,
    by the end of a tensor's name. ``known_bugs``: what is wrong in the framework itself, by a
    regular expression for the name of a check. ``controller_interpreter``: nothing to install.
    ``external``: set for what is no Python package and not ours to install, to the page that says
    how to get it; the folder's ``installation.py`` finds it (see netdyno_worker/external.py).
    ``on_request_only``: never part of a run unless it is named. ``verifiable``: it computes
    something that can be held against the reference. ``limits_preference``: of the frameworks whose
    ``limits.py`` may measure what a device can do at most, the lowest that is ready does.
    """

    name: str
    folder: Path
    title: str
    import_name: str
    python_versions: tuple[str, ...]
    devices: tuple[str, ...]
    precisions: tuple[str, ...]
    startup_seconds: float
    modes: Mapping[str, ModeSpec]
    import_first: str = ""
    requirements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cpu_forbids: tuple[str, ...] = ()
    cpu_fallback: str = ""
    dependencies: bool = True
    cuda_newest_capability: float | None = None
    known_differences: Mapping[str, str] = field(default_factory=dict)
    known_bugs: Mapping[str, str] = field(default_factory=dict)
    controller_interpreter: bool = False
    external: str = ""
    on_request_only: bool = False
    verifiable: bool = True
    limits_preference: int | None = None

    @property
    def default_mode(self) -> str:
        return next(iter(self.modes))

    @property
    def has_limits(self) -> bool:
        """Whether it can measure what a device can do at most."""
        return (self.folder / "limits.py").is_file()

    def mode(self, name: str) -> ModeSpec:
        """Raises NetdynoError for a mode that this framework lacks."""
        if name not in self.modes:
            raise unknown_name(f"mode of {self.name}", name, self.modes)
        return self.modes[name]


def _read(path: Path) -> FrameworkSpec:
    with path.open("rb") as file:
        data = tomllib.load(file)
    requirements = data.get("requirements", {})
    return FrameworkSpec(
        name=path.parent.name,
        folder=path.parent,
        title=data["title"],
        import_name=data["import"],
        import_first=data.get("import_first", ""),
        python_versions=tuple(data["python"]),
        devices=tuple(data["devices"]),
        precisions=tuple(data["precisions"]),
        startup_seconds=float(data["startup_seconds"]),
        modes=MappingProxyType(
            {
                name: ModeSpec(
                    name,
                    tuple(mode["layouts"]),
                    tuple(mode.get("devices", ())),
                    tuple(mode.get("needs", ())),
                    float(mode.get("first_iteration_seconds", 0.0)),
                    mode.get("compiles_ahead", False),
                    mode.get("tunes_slowly", False),
                )
                for name, mode in data["modes"].items()
            }
        ),
        requirements=MappingProxyType(
            {key: tuple(requirements[key]) for key in ("cpu", "cuda") if key in requirements}
        ),
        cpu_forbids=tuple(requirements.get("cpu_forbids", ())),
        cpu_fallback=requirements.get("cpu_fallback", ""),
        dependencies=requirements.get("dependencies", True),
        cuda_newest_capability=requirements.get("cuda_newest_capability"),
        known_differences=MappingProxyType(data.get("known_differences", {})),
        known_bugs=MappingProxyType(data.get("known_bugs", {})),
        controller_interpreter=data.get("controller_interpreter", False),
        external=data.get("external", ""),
        on_request_only=data.get("on_request_only", False),
        verifiable=data.get("verifiable", True),
        limits_preference=data.get("limits_preference"),
    )


@cache
def frameworks() -> Mapping[str, FrameworkSpec]:
    """Every framework netdyno knows, by name, in alphabetical order."""
    files = sorted((WORKER_ROOT / "frameworks").glob("*/framework.toml"))
    if not files:
        raise NetdynoError(f"no frameworks found beside {WORKER_ROOT.name}: reinstall netdyno")
    return MappingProxyType({path.parent.name: _read(path) for path in files})


def framework(name: str) -> FrameworkSpec:
    """Raises NetdynoError, with the nearest names, for one that does not exist."""
    if name not in frameworks():
        raise unknown_name("framework", name, frameworks())
    return frameworks()[name]
