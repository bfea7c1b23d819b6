"""What a device can do at most, as it was measured: see docs/limits.md."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netdyno.networks.roofline import Ceilings
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.redact import printable
from netdyno.stats.disturbance import GPU_REASONS
from netdyno.store.trial import Trial, trial_of

__all__ = ["DeviceLimits", "Figure", "limits_from_json", "limits_of_trial"]


@dataclass(frozen=True)
class Figure:
    """One ceiling. ``value`` is None where there is none; ``problem`` says why.

    ``name``: ``product`` (FLOP/s), ``copy`` (B/s read and written), ``launch`` or
    ``launch_back_to_back`` (s). ``size``: rows of the matrices, or bytes of the array, at which it
    was reached. ``disturbed``: what had a hand in the machine meanwhile, so that it may do better.
    ``samples``: all blocks of all sizes, where they were kept.
    """

    name: str
    precision: str | None
    value: float | None
    unit: str
    size: int | None
    problem: str = ""
    disturbed: tuple[str, ...] = ()
    samples: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class DeviceLimits:
    """Of ``device``, on a CPU with ``threads``, as ``framework`` reaches them.

    ``status`` and ``reason`` are the trial's; a trial that failed late has some figures.
    """

    device: str
    threads: int
    framework: str
    status: str
    reason: str = ""
    figures: tuple[Figure, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def figure(self, name: str, precision: str | None = None) -> Figure | None:
        found = (f for f in self.figures if (f.name, f.precision) == (name, precision))
        return next(found, None)

    def ceilings(self, precision: str) -> Ceilings | None:
        """None where the rate of products or the bandwidth is not known."""
        product, copy = self.figure("product", precision), self.figure("copy")
        if product and copy and product.value and copy.value:
            return Ceilings(product.value, copy.value)
        return None

    def problem(self, precision: str) -> str:
        """Why there are no ceilings; empty where there are."""
        if self.ceilings(precision):
            return ""
        figures = (self.figure("product", precision), self.figure("copy"))
        told = [figure.problem for figure in figures if figure and figure.problem]
        return self.reason or "; ".join(told) or f"nothing was measured in {precision}"

    @property
    def usable(self) -> bool:
        """Whether there are ceilings in any precision."""
        return any(f.precision and self.ceilings(f.precision) for f in self.figures)

    def holds_for(self, device: str, threads: int) -> bool:
        """Threads of the host do not matter to a GPU."""
        return self.device == device and (device != "cpu" or self.threads == threads)

    def to_json(self, *, samples: bool = False) -> dict[str, Any]:
        """``samples``: with the raw blocks, which a run folder has in the trial's own file."""
        data = dataclasses.asdict(dataclasses.replace(self, versions={}, figures=()))
        figures = [dataclasses.asdict(figure) for figure in self.figures]
        for told in figures:
            if not samples:
                del told["samples"]
        return {**data, "versions": dict(self.versions), "figures": figures}

    def disturbed(self, precision: str) -> tuple[str, ...]:
        """Why the ceilings of ``precision`` may be too low; empty where nothing is known of."""
        figures = (self.figure("product", precision), self.figure("copy"))
        return tuple(dict.fromkeys(cause for f in figures if f for cause in f.disturbed))


def limits_of_trial(
    cell: Cell,
    outcome: Outcome,
    events: Sequence[Mapping[str, Any]],
    redact: Callable[[str], str] = str,
) -> DeviceLimits:
    """From what the worker and the controller wrote."""
    trial = _as_timed(cell, events)
    figures = []
    for event in events:
        if event.get("event") == "limit":
            figure = _figure(event, redact)
            causes = trial.disturbed(_phase(figure.name, figure.precision, figure.size))
            # A device that computes at its power limit reaches what it can sustain.
            causes.pop(GPU_REASONS["sw_power_cap"], None)
            figures.append(dataclasses.replace(figure, disturbed=tuple(causes)))
    versions = trial.fingerprint.get("versions")
    return DeviceLimits(
        cell.device,
        cell.threads,
        cell.framework,
        outcome.status,
        outcome.reason,
        tuple(figures),
        dict(versions) if isinstance(versions, dict) else {},
    )


def _as_timed(cell: Cell, events: Sequence[Mapping[str, Any]]) -> Trial:
    """As a trial whose phases are the figures and their sizes: what disturbs one disturbs both."""
    blocks = [
        {
            **sample,
            "event": "block",
            "phase": _phase(event["name"], event["precision"], sample["size"]),
        }
        for event in events
        if event.get("event") == "limit"
        for sample in event["samples"]
    ]
    head = {"event": "trial", "cell": cell.key, "round": 1}
    return trial_of([head, *events, *blocks], {"cells": [cell.to_json()], "host": {}})


def _phase(name: str, precision: str | None, size: int | None) -> str:
    return f"{name} {precision} {size}"


def limits_from_json(data: Any) -> list[DeviceLimits]:
    """Of a ``run.json``'s ``limits``. Empty for runs of earlier versions, and for odd content."""
    found = []
    for entry in data if isinstance(data, list) else ():
        if not isinstance(entry, dict):
            continue
        figures = entry.get("figures")
        versions = entry.get("versions")
        found.append(
            DeviceLimits(
                device=str(entry.get("device")),
                threads=int(_number(entry.get("threads")) or 0),
                framework=str(entry.get("framework")),
                status=str(entry.get("status")),
                reason=printable(str(entry.get("reason", ""))),
                figures=tuple(_figure(f) for f in figures or () if isinstance(f, dict)),
                versions=versions if isinstance(versions, dict) else {},
            )
        )
    return found


def _figure(data: Mapping[str, Any], redact: Callable[[str], str] = str) -> Figure:
    size, precision = _number(data.get("size")), data.get("precision")
    return Figure(
        name=str(data.get("name")),
        precision=None if precision is None else str(precision),
        value=_number(data.get("value")),
        unit=str(data.get("unit")),
        size=None if size is None else int(size),
        problem=redact(printable(str(data.get("problem", "")))),
        disturbed=tuple(printable(str(cause)) for cause in data.get("disturbed") or ()),
        samples=tuple(data.get("samples") or ()),
    )


def _number(value: Any) -> float | None:
    """None for what is no number above zero."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value if value > 0 else None
    return None
