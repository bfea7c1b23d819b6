"""A run folder as it is read: what was asked, and every trial with its raw blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netdyno.errors import NetdynoError
from netdyno.redact import printable
from netdyno.store.run_folder import SCHEMA

# What every run.json has.
KEYS = {"schema", "netdyno", "started", "status", "request", "host", "cells"}

__all__ = ["Block", "Run", "Trial", "read_run"]


@dataclass(frozen=True)
class Block:
    """``kind`` is ``first``, ``warmup`` or ``sample``; ``seconds`` is for all ``iterations``."""

    phase: str
    kind: str
    iterations: int
    seconds: float
    user_seconds: float
    system_seconds: float
    minor_faults: int
    major_faults: int

    @property
    def seconds_per_iteration(self) -> float:
        return self.seconds / self.iterations


@dataclass(frozen=True)
class Trial:
    """``status`` is that of ``Outcome``, or ``interrupted`` where no end was written."""

    cell: str
    round: int
    status: str
    reason: str
    blocks: tuple[Block, ...] = ()
    fingerprint: Mapping[str, Any] = field(default_factory=dict)

    def of(self, phase: str, kind: str = "sample") -> list[Block]:
        return [block for block in self.blocks if block.phase == phase and block.kind == kind]


@dataclass(frozen=True)
class Run:
    """``data`` is ``run.json``; ``cells`` are its cells' axes by key, in the order asked."""

    path: Path
    data: Mapping[str, Any]
    trials: tuple[Trial, ...]

    @property
    def cells(self) -> dict[str, Mapping[str, Any]]:
        return {cell["key"]: cell for cell in self.data["cells"]}

    def trials_of(self, key: str) -> list[Trial]:
        return [trial for trial in self.trials if trial.cell == key]


def read_run(path: Path) -> Run:
    """Raises NetdynoError for a folder that is no run, or of a schema that is not known yet."""
    if not path.exists():
        raise NetdynoError(f"{path} does not exist: name a run folder")
    file = path / "run.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NetdynoError(f"{path} holds no run: there is no run.json in it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise NetdynoError(f"cannot read {file}: {error}") from None
    except ValueError as error:
        raise NetdynoError(f"{file} is not valid JSON: {error}") from None
    if not isinstance(data, dict) or not data.keys() >= KEYS or type(data["schema"]) is not int:
        raise NetdynoError(f"{file} is not the run.json of a netdyno run")
    if data["schema"] > SCHEMA:
        raise NetdynoError(
            f"{file} has schema {data['schema']}, this netdyno reads up to {SCHEMA}: update netdyno"
        )
    read = [_read_trial(p) for p in sorted((file.parent / "trials").glob("*.jsonl"))]
    return Run(file.parent, data, tuple(trial for trial in read if trial))


def _read_trial(path: Path) -> Trial | None:
    """None for a file in which nothing was written yet."""
    head: Mapping[str, Any] = {}
    end: Mapping[str, Any] = {"status": "interrupted", "reason": "netdyno was ended meanwhile"}
    fingerprint: Mapping[str, Any] = {}
    blocks = []
    found = list(_events(path))
    for event in found:
        match event.get("event"):
            case "trial":
                head = event
            case "block":
                # A worker that was killed may have been cut off within a line.
                if event.keys() >= Block.__annotations__.keys():
                    blocks.append(Block(**{name: event[name] for name in Block.__annotations__}))
            case "fingerprint":
                fingerprint = event
            case "outcome":
                # A shared folder may hold anything, and it is shown on a terminal.
                end = {**event, "reason": printable(str(event["reason"]))}
    if not head:
        if found:
            raise NetdynoError(f"{path.name} does not begin with the trial it is about")
        return None
    return Trial(
        head["cell"], head["round"], end["status"], end["reason"], tuple(blocks), fingerprint
    )


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the line in which a killed worker was cut off
        if isinstance(event, dict):
            yield event
