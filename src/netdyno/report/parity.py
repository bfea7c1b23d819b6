"""Verifications as a table and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from netdyno.frameworks import framework
from netdyno.parity.verify import CheckResult, Verification, describe

__all__ = ["print_verifications", "verifications_json"]

# Of the tensors that differ; the first in the order of the layers come first.
FEW = 3

STYLES = {
    "passed": "green",
    "failed": "red",
    "crashed": "red",
    "skipped": "yellow",
    "known bug": "yellow",
}


def print_verifications(
    verifications: Sequence[Verification], console: Console, *, verbose: bool
) -> None:
    """A row for each check with its worst tensor, then what differs, first layer first."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("framework", "mode", "checked", "precision"):
        table.add_column(name)
    table.add_column("worst tensor", no_wrap=True, overflow="ellipsis")
    table.add_column("relative L2", justify="right", no_wrap=True)
    table.add_column("allowed", justify="right", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for verification in verifications:
        for check in verification.checks:
            table.add_row(*_row(verification, check))
    console.print(table)
    for verification in verifications:
        _print_details(verification, console, verbose)
    passed = sum(verification.passed for verification in verifications)
    console.print(f"{passed} of {len(verifications)} verified")


def _row(verification: Verification, check: CheckResult) -> list[str]:
    cell, worst = verification.cell, check.worst
    style = STYLES[check.status]
    return [
        framework(cell.framework).title,
        cell.mode,
        escape(check.name),
        check.precision,
        escape(worst.name) if worst else "-",
        f"{worst.relative_l2:.1e}" if worst else "-",
        f"{worst.bound:.1e}" if worst else "-",
        f"{check.seconds:.1f}",
        f"[{style}]{check.status}[/{style}]",
    ]


def _print_details(verification: Verification, console: Console, verbose: bool) -> None:
    cell = verification.cell
    where = f"{cell.framework} {cell.mode}"
    for check in verification.checks:
        shown = check.tensors if verbose else check.failures[:FEW]
        for tensor in shown:
            text = f"{where}, {check.name} ({check.precision}): {describe(tensor)}"
            if tensor.worst_index and not tensor.passed:
                text += (
                    f"; element {list(tensor.worst_index)} is {tensor.worst_found:.6g}, "
                    f"should be {tensor.worst_expected:.6g}"
                )
            style = "dim" if tensor.passed else "red"
            console.print(text, style=style, markup=False, soft_wrap=True)
        if not verbose and len(check.failures) > FEW:
            more = len(check.failures) - FEW
            console.print(f"{where}, {check.name}: and {more} more (--verbose)", markup=False)
        if check.first_layer:
            text = f"{where}, {check.name}: the first layer that differs: {check.first_layer}"
            console.print(text, style="red", markup=False, soft_wrap=True)
        if check.reason:
            text = f"{where}, {check.name} ({check.precision}): {check.reason}"
            console.print(text, style=STYLES[check.status], markup=False, soft_wrap=True)


def verifications_json(verifications: Sequence[Verification]) -> dict[str, Any]:
    """Every tensor of every check."""
    return {
        "schema": 1,
        "passed": all(verification.passed for verification in verifications),
        "cells": [
            {
                **verification.cell.to_json(),
                "passed": verification.passed,
                "reason": verification.reason,
                "checks": [
                    {
                        "name": check.name,
                        "precision": check.precision,
                        "status": check.status,
                        "seconds": check.seconds,
                        "reason": check.reason,
                        "first_layer": check.first_layer,
                        "tensors": [
                            {**dataclasses.asdict(tensor), "passed": tensor.passed}
                            for tensor in check.tensors
                        ],
                    }
                    for check in verification.checks
                ],
            }
            for verification in verifications
        ],
    }
