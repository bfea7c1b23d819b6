"""What a person asked to be measured: from options, or from a TOML file that holds the same."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netdyno.errors import NetdynoError, unknown_name
from netdyno.networks import file_of
from netdyno.plan.job import PHASES
from netdyno.plan.stopping import FEWEST_ROUNDS, MOST_ROUNDS

__all__ = ["Request", "duration", "read_request_file", "share"]

DEFAULT_NETWORKS = ("alexnet_owt", "googlenet")
MAX_BATCH_SIZE = 65_536
MAX_ROUNDS = 1_000
MAX_SECONDS = 1e9
DEFAULT_ROUNDS = 3
PRIMARY_PHASE = "forward_backward"
# A narrower one is below what netdyno calls a difference; a wider one says nothing.
TARGET_RANGE = (0.001, 0.5)

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Request:
    """The axes and limits of a run.

    No frameworks, modes, threads or layouts mean the default of the matrix. ``matrix``: parts that
    the matrix is put together from, each with axes of its own in place of these. ``target``: go on
    until every ratio's interval is within ± this share (see stopping.py), ``rounds`` at most.

    Raises:
        NetdynoError: another axis is empty, or a number is out of range.
    """

    frameworks: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    networks: tuple[str, ...] = DEFAULT_NETWORKS
    batch_size: tuple[int, ...] = (32,)
    device: tuple[str, ...] = ("cpu",)
    threads: tuple[int, ...] = ()
    precision: tuple[str, ...] = ("fp32",)
    layout: tuple[str, ...] = ()
    host_allocator: tuple[str, ...] = ("system",)
    autotune: tuple[str, ...] = ("on",)
    phases: tuple[str, ...] = PHASES
    rounds: int | None = None
    target: float | None = None
    seed: int = 1
    budget_seconds: float | None = None
    trial_timeout_seconds: float = 600.0
    matrix: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for axis in ("networks", "batch_size", "device", "precision", "host_allocator", "autotune"):
            if not getattr(self, axis):
                option = axis.replace("_", "-")
                raise NetdynoError(f"--{option} is empty: name at least one, or leave it out")
        for value in self.batch_size:
            _in_range("--batch-size", value, 1, MAX_BATCH_SIZE)
        for value in self.threads:
            _in_range("--threads", value, 1, 4096)
        for name in self.phases:
            if name not in PHASES:
                raise unknown_name("phase", name, PHASES)
        if PRIMARY_PHASE not in self.phases:
            raise NetdynoError(f"--phases lacks {PRIMARY_PHASE}, by which cells are ranked: add it")
        if self.target is not None:
            _in_range("--target", self.target, *TARGET_RANGE)
        if self.rounds is not None:
            _in_range("--rounds", self.rounds, FEWEST_ROUNDS if self.target else 1, MAX_ROUNDS)
        _in_range("--seed", self.seed, 0, 2**63 - 1)
        self.parts()

    def parts(self) -> list[Request]:
        """One for each part of ``matrix``; without, this one."""
        without = [dataclasses.replace(self, matrix=(), **part) for part in self.matrix]
        return without or [self]

    @property
    def most_rounds(self) -> int:
        """Rounds to measure, or with a target those that it may take."""
        return self.rounds or (MOST_ROUNDS if self.target else DEFAULT_ROUNDS)

    def has_rounds_left(self, key: str, done: Collection[tuple[str, int]]) -> bool:
        """Whether the cell of ``key`` has one that is not among ``done``: keys and rounds."""
        return any((key, number) not in done for number in range(1, self.most_rounds + 1))

    def to_json(self) -> dict[str, Any]:
        """Plain data; of a network's file the name only, since a run folder may be shared."""
        matrix = [
            {**part, "networks": _names(part["networks"])} if "networks" in part else part
            for part in self.matrix
        ]
        return {
            **dataclasses.asdict(self),
            "networks": _names(self.networks),
            "matrix": matrix,
            "rounds": self.most_rounds,
        }


def _names(networks: Iterable[str]) -> tuple[str, ...]:
    """Of a file its name only."""
    files = {spec: file_of(spec) for spec in networks}
    return tuple(path.name if path else spec for spec, path in files.items())


def share(text: str) -> float:
    """``2%`` or ``0.02`` as 0.02. Raises NetdynoError for anything else.

    A number above 1 without a percent sign is refused: ``2`` is more likely to mean 2 %.
    """
    match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,6})?)\s*(%?)", text.strip(), re.ASCII)
    value = float(match.group(1)) / (100 if match.group(2) else 1) if match else -1.0
    if value < 0 or (value > 1 and "%" not in text):
        raise NetdynoError(f"'{text}' is no share: write 2% or 0.02")
    return value


def _in_range(option: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise NetdynoError(f"{option} {value}: must be between {low} and {high}")


def duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``10m`` or ``1.5h``. Raises NetdynoError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    seconds = float(match.group(1)) * _UNITS[match.group(2) or "s"] if match else 0.0
    if not 0 < seconds < MAX_SECONDS:
        raise NetdynoError(f"'{text}' is no duration: write 90s, 10m or 1.5h")
    return seconds


def read_request_file(path: Path) -> dict[str, Any]:
    """The fields of ``Request`` that a TOML file sets.

    Keys are those of the command line with underscores; a list or a single value does. Tables
    ``[[matrix]]`` hold axes.

    Raises:
        NetdynoError: the file cannot be read, is broken, or has an unknown key or a wrong type.
    """
    try:
        with path.open("rb") as file:
            data = tomllib.load(file)
    except OSError as error:
        raise NetdynoError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NetdynoError(f"{path} is not valid TOML: {error}") from None
    tables = data.pop("matrix", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise NetdynoError(f"{path}: matrix must be tables: write [[matrix]] above each part")
    values = _values(path, data, _FILE_KEYS)
    if tables:
        values["matrix"] = tuple(_values(path, table, _AXES) for table in tables)
    return values


def _values(path: Path, data: Mapping[str, Any], known: Mapping[str, type]) -> dict[str, Any]:
    for key in data:
        if key not in known:
            raise NetdynoError(f"{path}: {unknown_name('key', key, known)}")
    values = {_field(key): _value(path, key, value) for key, value in data.items()}
    if "networks" in values:
        # A network's file is named as seen from the file that names it.
        values["networks"] = tuple(
            str(path.parent / spec) if file_of(spec) else spec for spec in values["networks"]
        )
    return values


_AXES: dict[str, type] = {
    "frameworks": str,
    "modes": str,
    "networks": str,
    "batch_size": int,
    "device": str,
    "threads": int,
    "precision": str,
    "layout": str,
    "host_allocator": str,
    "autotune": str,
}
_FILE_KEYS: dict[str, type] = {
    **_AXES,
    "phases": str,
    "rounds": int,
    "seed": int,
    "target": str,
    "budget": str,
    "trial_timeout": str,
}
_SINGLE = {"rounds", "seed", "target", "budget", "trial_timeout"}
# Texts that stand for a number.
_READ = {"target": share, "budget": duration, "trial_timeout": duration}


def _field(key: str) -> str:
    return f"{key}_seconds" if key in ("budget", "trial_timeout") else key


def _value(path: Path, key: str, value: Any) -> Any:
    wanted = _FILE_KEYS[key]
    values = value if isinstance(value, list) and key not in _SINGLE else [value]
    for item in values:
        # bool is an int to Python, but nobody means `rounds = true`.
        if not isinstance(item, wanted) or isinstance(item, bool):
            kind = {int: "a whole number", str: "a text in quotes"}[wanted]
            many = "" if key in _SINGLE else " or a list of them"
            raise NetdynoError(f"{path}: {key} must be {kind}{many}, not {value!r}")
    if key in _READ:
        try:
            return _READ[key](value)
        except NetdynoError as error:
            raise NetdynoError(f"{path}: {key}: {error}") from None
    return values[0] if key in _SINGLE else tuple(values)
