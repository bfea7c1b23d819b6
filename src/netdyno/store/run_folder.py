"""Writing and reading a run folder.

``run.json`` is replaced as a whole, so it is valid JSON at every moment; a trial's events are
appended and flushed as they come, so what was measured before a crash or an interrupt stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from netdyno import __version__
from netdyno.errors import NetdynoError
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.job import MEMORY_OF, TIMED
from netdyno.plan.request import Request
from netdyno_worker.protocol import HYPERPARAMETERS

__all__ = ["SCHEMA", "RunFolder", "now", "refuse_existing"]

SCHEMA = 1


def now() -> str:
    """UTC, to the second, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole: a reader sees the old one or the new one."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def refuse_existing(path: Path) -> None:
    """Raises NetdynoError for a folder that holds a run or cannot be looked into."""
    try:
        taken = (path / "run.json").exists()
    except OSError as error:
        raise _unwritable(path, error) from None
    if taken:
        raise NetdynoError(f"{path} already holds a run: name another folder with --out")


def _unwritable(path: Path, error: OSError) -> NetdynoError:
    return NetdynoError(f"cannot write to {path}: {error.strerror}; name another folder with --out")


class RunFolder:
    """A run that is being written; ``data`` is what ``run.json`` holds so far.

    Args:
        redact: takes this machine's paths out of what workers wrote.

    Raises:
        NetdynoError: the folder holds another run or cannot be written.
    """

    def __init__(self, path: Path, redact: Callable[[str], str] = str) -> None:
        self.path = path
        self._redact = redact
        self.data: dict[str, Any] = {}
        self._count = 0
        refuse_existing(path)
        try:
            (path / "trials").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(path, error) from None

    @classmethod
    def reopen(cls, path: Path, data: dict[str, Any], redact: Callable[[str], str]) -> RunFolder:
        """Go on writing to a run; ``data`` is what its ``run.json`` holds."""
        folder = cls.__new__(cls)
        folder.path, folder.data, folder._redact = path, data, redact
        numbers = (file.name.partition("-")[0] for file in (path / "trials").glob("*.jsonl"))
        folder._count = max((int(n) for n in numbers if n.isdigit()), default=0)
        data["resumed"] = [*data.get("resumed", ()), now()]
        data.update(status="running", ended=None)
        try:
            folder._write()
        except OSError as error:
            raise _unwritable(path, error) from None
        return folder

    def begin(self, request: Request, cells: Sequence[Cell], host: Mapping[str, Any]) -> None:
        """Write ``run.json`` before the first trial."""
        networks = {cell.network_spec: cell.network.to_json() for cell in cells}
        self.data = {
            "schema": SCHEMA,
            "netdyno": __version__,
            "started": now(),
            "ended": None,
            "status": "running",
            "request": request.to_json(),
            "hyperparameters": HYPERPARAMETERS._asdict(),
            "phases": TIMED,
            "memory_of": MEMORY_OF,
            "host": dict(host),
            "networks": networks,
            "cells": [cell.to_json() for cell in cells],
        }
        self._write()

    def searched(self, default: Cell, best: str, tried: Mapping[str, float | None]) -> None:
        """Keep what ``--modes best`` tried for one framework and network: seconds by cell key."""
        found = {"default": default.key, "best": best, "seconds": dict(tried)}
        self.data.setdefault("search", []).append(found)
        self._write()

    def compiled_ahead(self, keys: Iterable[str]) -> None:
        """Keep which cells' first iterations load what was compiled before, beside others."""
        self.data["compiled_ahead"] = sorted({*self.data.get("compiled_ahead", ()), *keys})
        self._write()

    def search_begins(self, **how: Any) -> None:
        """Keep that this run looks for the largest batch, and within what."""
        self.data["max_batch"] = how
        self._write()

    def add_cell(self, cell: Cell) -> None:
        """One that nobody could foresee: the next batch size of a search."""
        self.data["cells"].append(cell.to_json())
        self._write()

    def conditions(self, conditions: Mapping[str, Any]) -> None:
        """Keep how busy the machine was, and its settings, before the first trial."""
        self.data["conditions"] = dict(conditions)
        self._write()

    def limits(self, limits: Sequence[Mapping[str, Any]]) -> None:
        """Keep what the devices can do at most; the raw samples are in trials of their own."""
        self.data["limits"] = [dict(entry) for entry in limits]
        self._write()

    @property
    def verification(self) -> Mapping[str, Mapping[str, Any]]:
        """By cell key, how each cell was verified so far: summaries of certificates."""
        found: Mapping[str, Mapping[str, Any]] = self.data.get("verification", {})
        return found

    def verified(self, key: str, summary: Mapping[str, Any]) -> None:
        """Keep how a cell was verified: an interrupted run has what it found out."""
        self.data["verification"] = {**self.verification, key: dict(summary)}
        self._write()

    def end(self, status: str) -> None:
        """``complete``, ``budget`` (it ended the run) or ``interrupted``."""
        self.data.update(status=status, ended=now())
        self._write()

    def _write(self) -> None:
        text = json.dumps(self.data, indent=1, allow_nan=False) + "\n"
        _replace(self.path / "run.json", text)

    def new_trial(self, cell: Cell, round_number: int, measures: str = "time") -> Path:
        """A new events file, begun with what it is about.

        ``measures``: ``time``, ``memory``, or ``limits``, whose cell is none of the run's.
        """
        self._count += 1
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", f"{cell.framework}-{cell.mode}-{cell.network_spec}")
        path = self.path / "trials" / f"{self._count:04d}-r{round_number}-{slug}.jsonl"
        event = {
            "event": "trial",
            "schema": SCHEMA,
            "cell": cell.key,
            "round": round_number,
            "measures": measures,
            "started": now(),
        }
        path.write_text(json.dumps(event) + "\n", encoding="utf-8")
        return path

    def end_trial(self, path: Path, outcome: Outcome) -> None:
        """Append how it ended, on a line of its own even if the worker died within one."""
        event = {
            "event": "outcome",
            "status": outcome.status,
            "reason": outcome.reason,
            "seconds": round(outcome.seconds, 3),
        }
        text = path.read_text(encoding="utf-8", errors="replace")
        if not text.endswith("\n"):
            text += "\n"
        _replace(path, self._redact(text) + json.dumps(event) + "\n")
