"""What goes into a managed environment: requirements, constraints, and a hash of both."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from netdyno.errors import NetdynoError
from netdyno.frameworks import FrameworkSpec

__all__ = ["Accelerator", "Recipe", "lock_path", "lock_text", "recipe"]

Accelerator = Literal["cpu", "cuda"]

_MADE_WITH = re.compile(r"^# Made with Python (\d+\.\d+)\b", re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """Requirements for one framework, accelerator and Python version (``3.11``).

    ``locked`` pins what the requirements bring along; it is empty where the lock was made with
    another Python, since a release pinned for one may not exist for the other.
    ``forbidden`` must not be installed: what would turn a CPU build into a CUDA build. Without
    ``dependencies`` nothing is installed but the requirements.
    """

    accelerator: Accelerator
    python: str
    requirements: tuple[str, ...]
    locked: tuple[str, ...]
    forbidden: tuple[str, ...]
    torch_backend: bool
    dependencies: bool = True

    @property
    def constraints(self) -> tuple[str, ...]:
        """Lines of a constraints file. No release satisfies ``<0``."""
        return self.locked + tuple(f"{name}<0" for name in self.forbidden)

    @property
    def digest(self) -> str:
        """Changes when an environment made by an earlier recipe must be made again."""
        parts = [
            self.accelerator,
            self.python,
            list(self.requirements),
            list(self.locked),
            list(self.forbidden),
            # Last and only where it differs: environments from before it stay valid.
            *([] if self.dependencies else ["no dependencies"]),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def recipe(
    spec: FrameworkSpec, accelerator: Accelerator, python: str, *, locked: bool = True
) -> Recipe:
    """The recipe for ``python`` (``3.11``); without ``locked``, newest transitive versions."""
    if accelerator not in spec.requirements:
        raise NetdynoError(
            f"{spec.name} has no {accelerator} build that netdyno knows;"
            f" known: {', '.join(spec.requirements) or 'none'}"
        )
    cpu = accelerator == "cpu"
    return Recipe(
        accelerator=accelerator,
        python=python,
        requirements=spec.requirements[accelerator],
        locked=_locked(lock_path(spec, accelerator), python) if locked else (),
        forbidden=spec.cpu_forbids if cpu else (),
        torch_backend=cpu and spec.cpu_fallback == "uv-torch-backend",
        dependencies=spec.dependencies,
    )


def lock_path(spec: FrameworkSpec, accelerator: Accelerator) -> Path:
    """Where the lock of a framework lies, whether or not it exists."""
    return spec.folder / f"lock-{accelerator}.txt"


def lock_text(spec: FrameworkSpec, made: Recipe, packages: dict[str, str]) -> str:
    """A lock: every installed package but those that ``framework.toml`` pins itself.

    A local version (``2.13.0+cpu``) names a build that only some indexes have, so it is cut.
    """
    exact = (word for word in made.requirements if "==" in word)
    pinned = {_normalized(re.split(r"[\[=]", word)[0]) for word in exact}
    lines = [
        f"{name}=={version.partition('+')[0]}"
        for name, version in sorted(packages.items(), key=lambda item: _normalized(item[0]))
        if _normalized(name) not in pinned | {"pip"}
    ]
    command = f"netdyno setup {spec.name} --update-lock --accelerator {made.accelerator}"
    head = [f"# Made with Python {made.python} by `{command}`; do not edit."]
    return "\n".join(head + lines) + "\n"


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _locked(path: Path, python: str) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    made_with = _MADE_WITH.search(text)
    if made_with is None or made_with[1] != python:
        return ()
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))
