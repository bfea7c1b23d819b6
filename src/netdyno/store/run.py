"""A run folder as it is read: what was asked, and every trial with its raw blocks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netdyno.errors import NetdynoError
from netdyno.stats.block import Block
from netdyno.store.run_folder import SCHEMA
from netdyno.store.trial import Trial, read_trial

# What every run.json has.
KEYS = {"schema", "netdyno", "started", "status", "request", "host", "cells"}

__all__ = ["Block", "Run", "Trial", "read_run"]


@dataclass(frozen=True)
class Run:
    """``data`` is ``run.json``; ``cells`` are its cells' axes by key, in the order asked.

    ``trials`` measured time, ``memory_trials`` memory; on a GPU one may have measured both.
    """

    path: Path
    data: Mapping[str, Any]
    trials: tuple[Trial, ...]
    memory_trials: tuple[Trial, ...] = ()

    @property
    def cells(self) -> dict[str, Mapping[str, Any]]:
        return {cell["key"]: cell for cell in self.data["cells"]}

    @property
    def done(self) -> set[tuple[str, int]]:
        """Cell and round of every trial that came to an end, a bad one included."""
        return {(trial.cell, trial.round) for trial in self.trials if trial.ended}

    def trials_of(self, key: str) -> list[Trial]:
        return [trial for trial in self.trials if trial.cell == key]

    def good_trials_of(self, key: str) -> list[Trial]:
        """A trial that ended badly may have stopped in mid-phase: what it measured is not used."""
        return [trial for trial in self.trials_of(key) if trial.status == "ok"]

    def seconds(self, key: str, phase: str) -> dict[int, list[float]]:
        """By round, per iteration: the blocks of a cell that an estimate may rest on.

        A cell whose every block was disturbed has those, since there is nothing better; see
        ``all_disturbed``.
        """
        good = self.good_trials_of(key)
        if self.all_disturbed(key, phase):
            return {t.round: [b.seconds_per_iteration for b in t.of(phase)] for t in good}
        return {trial.round: trial.seconds(phase) for trial in good}

    def disturbed(self, key: str) -> dict[str, int]:
        """Blocks of a cell that were measured on a disturbed machine, counted by reason."""
        counts: Counter[str] = Counter()
        for trial in self.good_trials_of(key):
            for phase in {block.phase for block in trial.blocks}:
                counts.update(trial.disturbed(phase))
        return dict(counts)

    def all_disturbed(self, key: str, phase: str) -> bool:
        """Whether there is something, and all of it was measured on a disturbed machine."""
        good = self.good_trials_of(key)
        return any(t.of(phase) for t in good) and not any(t.undisturbed(phase) for t in good)


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
    read = [read_trial(p, data) for p in sorted((file.parent / "trials").glob("*.jsonl"))]
    trials = _without_repeated([trial for trial in read if trial])
    return Run(
        file.parent,
        data,
        tuple(trial for trial in trials if trial.measures == "time"),
        tuple(trial for trial in trials if trial.measures == "memory" or trial.memory),
    )


def _without_repeated(trials: list[Trial]) -> list[Trial]:
    """Without those that were cut off and made again when the run was resumed."""
    made = {(t.cell, t.round, t.measures) for t in trials if t.ended}
    return [t for t in trials if t.ended or (t.cell, t.round, t.measures) not in made]
