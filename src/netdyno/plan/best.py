"""The settings of a framework among which ``--modes best`` looks for the fastest."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.plan.cell import AUTOTUNE, Cell
from netdyno.plan.matrix import cells
from netdyno.plan.request import Request

__all__ = ["BEST", "Choice", "choices"]

BEST = "best"


@dataclass(frozen=True)
class Choice:
    """One framework on one network: its default and all that it could be set to instead.

    What changes what is computed, or with how much of the machine, is the same in all of them.
    """

    default: Cell
    candidates: tuple[Cell, ...]


def choices(request: Request) -> list[Choice]:
    """For a request with the mode ``best``; empty for another.

    Modes, and what was not asked for of layout and autotuning, are searched through.

    Raises:
        NetdynoError: other modes are named beside it, or what ``cells`` raises.
    """
    parts = request.parts()
    searched = [part for part in parts if BEST in part.modes]
    if not searched:
        return []
    others = sorted({mode for part in parts for mode in part.modes} - {BEST})
    if others or len(searched) < len(parts):
        which = ", ".join(others) or "parts with default modes"
        raise NetdynoError(f"--modes best searches all modes: leave {which} out")
    found = {
        default.key: Choice(default, _candidates(default, part))
        for part in parts
        for default in cells(dataclasses.replace(part, modes=()))
    }
    return list(found.values())


def _candidates(cell: Cell, request: Request) -> tuple[Cell, ...]:
    spec = framework(cell.framework)
    kind = cell.device.partition(":")[0]
    modes = [mode for mode in spec.modes.values() if kind in (mode.devices or spec.devices)]
    tuning = (cell.autotune,) if kind == "cpu" or len(request.autotune) > 1 else AUTOTUNE
    return tuple(
        dataclasses.replace(cell, mode=mode.name, layout=layout, autotune=autotune)
        for mode in modes
        for layout, autotune in itertools.product(mode.layouts, tuning)
        if not request.layout or layout == cell.layout
    )
