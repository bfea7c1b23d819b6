"""What a run would do: ``--dry-run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from netdyno.plan.cell import Cell
from netdyno.plan.estimate import CellEstimate
from netdyno.plan.request import Request
from netdyno.plan.rounds import rounds
from netdyno.plan.stopping import FEWEST_ROUNDS

__all__ = ["plan_json", "print_plan"]

AXES = ("framework", "mode", "network", "batch_size", "device", "precision", "layout", "threads")


def plan_json(
    request: Request, cells: Sequence[Cell], estimates: Mapping[str, CellEstimate]
) -> dict[str, Any]:
    """Cells with their estimates, and the order of every round."""
    return {
        "schema": 1,
        "request": request.to_json(),
        "estimated_seconds": _total_seconds(request, estimates),
        "cells": [
            {
                **cell.to_json(),
                "estimated_trial_seconds": round(estimates[cell.key].seconds, 1),
                "estimated_memory_bytes": estimates[cell.key].memory_bytes,
            }
            for cell in cells
        ],
        "rounds": [
            [cell.key for cell in order]
            for _, order in rounds(cells, request.most_rounds, request.seed)
        ],
    }


def print_plan(
    request: Request,
    cells: Sequence[Cell],
    estimates: Mapping[str, CellEstimate],
    console: Console,
) -> None:
    title = f"{len(cells)} cells, {_rounds(request)}"
    table = Table(title=escape(title), title_justify="left")
    for axis in AXES:
        table.add_column(axis.replace("_", " "))
    table.add_column("host allocator")
    table.add_column("s a trial", justify="right")
    table.add_column("memory GB", justify="right")
    for cell in cells:
        data = cell.to_json()
        estimate = estimates[cell.key]
        table.add_row(
            *(escape(str(data[axis])) for axis in AXES),
            cell.host_allocator,
            f"{estimate.seconds:.0f}",
            f"{estimate.memory_bytes / 1e9:.1f}",
        )
    console.print(table)
    seconds = _total_seconds(request, estimates)
    about = "At least about" if request.target else "About"
    console.print(f"{about} {seconds / 60:.0f} min in all; times and memory are rough guesses.")
    if request.budget_seconds is not None and seconds > request.budget_seconds:
        console.print(
            f"The budget of {request.budget_seconds / 60:.3g} min will end it earlier.",
            style="yellow",
        )


def _rounds(request: Request) -> str:
    if request.target:
        return (
            f"{FEWEST_ROUNDS} to {request.most_rounds} rounds, until every ratio is known "
            f"to ±{request.target * 100:.3g} %"
        )
    return f"{request.most_rounds} rounds"


def _total_seconds(request: Request, estimates: Mapping[str, CellEstimate]) -> float:
    """With a target, of the fewest rounds that it can take."""
    rounds = FEWEST_ROUNDS if request.target else request.most_rounds
    return round(rounds * sum(e.seconds for e in estimates.values()), 1)
