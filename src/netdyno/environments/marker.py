"""``environment.json``: written last, so an environment without it was never finished."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from netdyno.environments.recipe import Accelerator

__all__ = ["SCHEMA_VERSION", "Marker", "marker_path", "read_marker", "write_marker"]

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Marker:
    """What was installed. ``python_version`` is ``3.11.7``; ``created`` is ISO 8601, UTC."""

    framework: str
    framework_version: str
    accelerator: Accelerator
    python_version: str
    recipe_sha256: str
    packages: Mapping[str, str]
    created: str


def marker_path(folder: Path) -> Path:
    """The marker of the environment in ``folder``."""
    return folder / "environment.json"


def write_marker(folder: Path, marker: Marker) -> None:
    """Atomic: a reader sees all of it or none."""
    path = marker_path(folder)
    draft = path.with_suffix(".draft")
    data = {"schema_version": SCHEMA_VERSION, **asdict(marker)}
    with draft.open("w", encoding="utf-8") as file:
        file.write(json.dumps(data, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_marker(folder: Path) -> Marker | None:
    """None if it is not there. Raises ValueError for one that this version cannot read."""
    try:
        text = marker_path(folder).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None
    data: Any = json.loads(text)
    if not isinstance(data, dict) or data.pop("schema_version", None) != SCHEMA_VERSION:
        raise ValueError("was written by another version of netdyno")
    words = {key: value for key, value in data.items() if key != "packages"}
    packages = data.get("packages")
    if not isinstance(packages, dict) or not all(isinstance(v, str) for v in words.values()):
        raise ValueError("is damaged")
    try:
        return Marker(**{**words, "packages": cast("dict[str, str]", packages)})
    except TypeError:
        raise ValueError("is damaged") from None
