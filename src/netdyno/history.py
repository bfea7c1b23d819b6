"""One cell over many runs: where it changed, and what else changed just then."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from netdyno.stats.change_point import ChangePoint, change_points
from netdyno.store.query import Measurement

__all__ = ["Change", "Difference", "Series", "conditions", "host_name", "level", "series_of"]


@dataclass(frozen=True)
class Difference:
    """``before`` and ``after`` are ``none`` where there was no such thing."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Change:
    """A change point, and the runs between which it lies (95 %): ``before`` and ``after``.

    ``first`` is the first run at the new level, by the best estimate; ``differences`` are those
    between ``before`` and ``after``.
    """

    point: ChangePoint
    first: Measurement
    before: Measurement
    after: Measurement
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Series:
    """Runs in the order of time of one cell, whose network is the same, on one host."""

    cell: str
    network_hash: str
    host: str
    runs: tuple[Measurement, ...]
    changes: tuple[Change, ...]


def level(run: Measurement) -> float:
    """Seconds per iteration: the median over the run's processes."""
    return statistics.median(run.seconds)


def series_of(measurements: Iterable[Measurement]) -> list[Series]:
    """Sorted by cell; measurements come in the order of time."""
    found = list(measurements)
    hosts = _Hosts(found)
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for run in found:
        groups.setdefault((run.cell, run.network_hash, hosts.key(run)), []).append(run)
    return [
        Series(cell, network_hash, hosts.label(runs[-1]), tuple(runs), _changes(runs))
        for (cell, network_hash, _), runs in sorted(groups.items())
    ]


class _Hosts:
    """Tells hosts apart by their id, and where there is none by what they are made of.

    Runs from before there were ids belong to the one host that is made of the same.
    """

    def __init__(self, runs: Iterable[Measurement]) -> None:
        self._ids: dict[str, set[str]] = {}
        for run in runs:
            if identity := _host_id(run):
                self._ids.setdefault(host_name(run.host), set()).add(identity)

    def key(self, run: Measurement) -> str:
        name = host_name(run.host)
        ids = self._ids.get(name, set())
        return _host_id(run) or (next(iter(ids)) if len(ids) == 1 else name)

    def label(self, run: Measurement) -> str:
        """A name for people; the id is in it where several hosts are made of the same."""
        name = host_name(run.host)
        several = len(self._ids.get(name, ())) > 1
        return f"{name} ({_host_id(run) or 'id unknown'})" if several else name


def _host_id(run: Measurement) -> str:
    identity = run.host.get("id")
    return identity if isinstance(identity, str) else ""


def host_name(host: Mapping[str, Any]) -> str:
    """Processor, its logical cores, and GPUs: ``Intel Xeon …, 2 cores, NVIDIA H200``."""
    processor = host.get("cpu")
    processor = processor if isinstance(processor, dict) else {}
    parts = [str(processor.get("model") or host.get("machine") or "unknown processor")]
    if cores := processor.get("logical_cores"):
        parts.append("1 core" if cores == 1 else f"{cores} cores")
    devices = host.get("gpus")
    if isinstance(devices, list):
        parts += [str(gpu.get("name") if isinstance(gpu, dict) else gpu) for gpu in devices]
    return ", ".join(parts)


def _changes(runs: list[Measurement]) -> tuple[Change, ...]:
    return tuple(_change(point, runs) for point in change_points([run.seconds for run in runs]))


def _change(point: ChangePoint, runs: list[Measurement]) -> Change:
    before, after = runs[point.first - 1], runs[point.last]
    a, b = conditions(before), conditions(after)
    return Change(
        point,
        runs[point.index],
        before,
        after,
        tuple(
            Difference(name, a.get(name, "none"), b.get(name, "none"))
            for name in {**b, **a}
            if a.get(name, "none") != b.get(name, "none")
        ),
    )


def conditions(run: Measurement) -> dict[str, str]:
    """What is known of what a result depends on, as text by name; versions come first."""
    told = dict(run.fingerprint)
    told.pop("event", None)
    host = {key: value for key, value in run.host.items() if key != "id"}
    found: dict[str, str] = {}
    for name, value in (
        *_flat("", told.pop("versions", {})),
        ("netdyno", run.netdyno),
        # Variables are known by their own names.
        *_flat("", told.pop("environment", {})),
        *_flat("", told),
        *_flat("", host),
        ("verified", "yes" if run.verified else "no"),
    ):
        found.setdefault(name, value)
    return found


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Names and text of what is nested: ``{"cpu": {"model": "x"}}`` gives ``cpu model``, x."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(f"{name} {key}".strip(), part)
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for number, part in enumerate(value):
            yield from _flat(f"{name} {number}", part)
    elif isinstance(value, list):
        yield name, "; ".join(map(str, value)) or "none"
    elif name.endswith("memory_bytes") and isinstance(value, int):
        # Kernels of one machine reserve some pages more or less.
        yield name.replace("memory_bytes", "memory").strip(), f"{value / 1e9:.1f} GB"
    else:
        yield name, "none" if value is None else str(value)
