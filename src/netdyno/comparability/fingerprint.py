"""What the figures of a cell depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netdyno.errors import unknown_name
from netdyno.store.run import Run, Trial

__all__ = ["Fingerprint", "fingerprint_of", "fingerprints_of", "look"]


@dataclass(frozen=True)
class Fingerprint:
    """Plain data of a run folder; what an older folder lacks is unknown, never an error.

    Args:
        cell: the axes, as in ``run.json``.
        trial: the worker's ``fingerprint`` event; empty for a cell that was not measured.
        host: that of ``run.json``. One object for all cells of a run: they share the host.
        timed: what the figures stand for: ``hyperparameters``, ``phases``, ``netdyno``, ``schema``
            of ``run.json``, and whether the cell was ``verified`` (None: not known).
    """

    cell: Mapping[str, Any]
    trial: Mapping[str, Any]
    host: Mapping[str, Any]
    timed: Mapping[str, Any]

    @property
    def framework(self) -> str:
        return str(self.cell.get("framework"))

    @property
    def on_gpu(self) -> bool:
        return str(self.cell.get("device")).startswith("cuda")


def fingerprint_of(run: Run, key: str) -> Fingerprint:
    """That of the first good trial; without one, ``trial`` is empty and the rest is there.

    Raises:
        NetdynoError: the run has no such cell.
    """
    return _fingerprint(run, key, next(iter(_good(run, key)), None))


def fingerprints_of(run: Run, key: str) -> list[Fingerprint]:
    """Those of all good trials of a cell, in their order."""
    return [_fingerprint(run, key, trial) for trial in _good(run, key)]


def look(data: Any, *keys: str) -> Any:
    """``data[key][key]…``, None where something is missing: run folders may come from anywhere."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _good(run: Run, key: str) -> list[Trial]:
    return [trial for trial in run.trials_of(key) if trial.status == "ok" and trial.fingerprint]


def _fingerprint(run: Run, key: str, trial: Trial | None) -> Fingerprint:
    if key not in run.cells:
        raise unknown_name(f"cell of {run.path.name}", key, run.cells)
    host = run.data.get("host")
    return Fingerprint(
        cell=run.cells[key],
        trial=trial.fingerprint if trial else {},
        host=host if isinstance(host, Mapping) else {},
        timed={
            **{name: run.data.get(name) for name in ("schema", "netdyno")},
            **{name: run.data.get(name) for name in ("hyperparameters", "phases")},
            "verified": look(run.data, "verification", key, "passed"),
        },
    )
