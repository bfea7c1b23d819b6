"""What a machine can be trusted with, from a run that measured the same cells many times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from netdyno.report.advice import PHASE_NAMES
from netdyno.stats.calibration import Calibration, calibrate
from netdyno.store.run import Run

__all__ = ["CellCalibration", "calibrations", "calibrations_json", "print_calibrations"]

ROUNDS = (3, 6, 10, 20, 30, 50, 100)


@dataclass(frozen=True)
class CellCalibration:
    """Of one cell: ``trials`` that could be used, seconds of one, a line for each number of rounds.

    ``lines`` is empty where there were too few trials, or all were disturbed.
    """

    key: str
    trials: int
    seconds_per_trial: float | None
    lines: tuple[Calibration, ...]


def calibrations(run: Run, phase: str) -> list[CellCalibration]:
    """Of every cell of ``run``."""
    return [_calibration(run, key, phase) for key in run.cells]


def _calibration(run: Run, key: str, phase: str) -> CellCalibration:
    processes = [] if run.all_disturbed(key, phase) else list(run.seconds(key, phase).values())
    usable = [blocks for blocks in processes if blocks]
    seconds = [trial.seconds_taken for trial in run.good_trials_of(key)]
    return CellCalibration(
        key,
        len(usable),
        statistics.median(seconds) if seconds else None,
        tuple(calibrate(usable, rounds) for rounds in ROUNDS if 2 * rounds <= len(usable)),
    )


def print_calibrations(
    run: Run, phase: str, found: Sequence[CellCalibration], console: Console
) -> None:
    for cell in found:
        table = Table(
            title=f"{cell.key}: {cell.trials} trials, {PHASE_NAMES[phase]}",
            title_justify="left",
            title_style="bold",
            box=SIMPLE_HEAD,
            pad_edge=False,
        )
        for name in (
            "rounds",
            "two cells\ntake min",
            "called different\nfrom itself",
            "interval\nof a ratio",
            "slowdown found\n9 times of 10",
        ):
            table.add_column(name, justify="right")
        for line in cell.lines:
            table.add_row(
                str(line.rounds),
                f"{2 * line.rounds * (cell.seconds_per_trial or 0) / 60:.1f}",
                f"{line.false_alarms:.1%}",
                f"±{line.half_width:.1%}" if line.half_width is not None else "-",
                f"{line.smallest:.1%}" if line.smallest is not None else "-",
            )
        console.print(table)
        console.print(_answer(run, cell, phase), markup=False, soft_wrap=True)


def _answer(run: Run, cell: CellCalibration, phase: str) -> str:
    if not cell.lines:
        if run.all_disturbed(cell.key, phase):
            return "The machine was disturbed throughout: nothing can be said of it."
        return f"{cell.trials} undisturbed trials are too few: give it a longer --budget."
    best = cell.lines[-1]
    return (
        f"On this machine a difference of {best.smallest:.1%} or more can be trusted to be found "
        f"with {best.rounds} rounds; without one, netdyno says 'different' in "
        f"{best.false_alarms:.1%} of comparisons."
    )


def calibrations_json(run: Run, phase: str, found: Sequence[CellCalibration]) -> dict[str, Any]:
    return {
        "schema": 1,
        "run": run.path.name,
        "phase": phase,
        "cells": [
            {
                "cell": cell.key,
                "trials": cell.trials,
                "seconds_per_trial": cell.seconds_per_trial,
                "calibrations": [vars(line) for line in cell.lines],
            }
            for cell in found
        ],
    }
