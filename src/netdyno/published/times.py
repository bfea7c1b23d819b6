"""Published times of forward and backward, by network and batch size: what times.json holds.

They were measured on other GPUs, with other libraries, and stand beside a run's own; they are
never ranked against them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["PublishedTime", "Source", "published_times", "times_of"]


@dataclass(frozen=True)
class Source:
    """Where figures were published, and of what.

    ``evidence``: printed, or read off a figure and how closely. ``settings``: what was timed.
    """

    title: str
    citation: str
    hardware: str
    evidence: str
    settings: str


@dataclass(frozen=True)
class PublishedTime:
    """Of one batch. None for what was not told; ``total_seconds`` is forward+backward.

    ``network`` is the name that netdyno has for it, with none of its options.
    """

    source: Source
    library: str
    network: str
    batch_size: int
    forward_seconds: float | None
    backward_seconds: float | None
    total_seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain data, with the source's words beside the figures."""
        own = {key: value for key, value in vars(self).items() if key != "source"}
        told = dataclasses.asdict(self.source)
        return {"source": told.pop("title"), **told, **own}


@cache
def published_times() -> tuple[PublishedTime, ...]:
    """All of them, source by source, in the order in which they were published."""
    data = json.loads(resources.files(__package__).joinpath("times.json").read_text("utf-8"))
    return tuple(_time(source, entry) for source in data["sources"] for entry in source["times"])


def times_of(pairs: Iterable[tuple[str, int]]) -> list[PublishedTime]:
    """Of these networks at these batch sizes; of no others, since a time does not scale."""
    wanted = set(pairs)
    return [time for time in published_times() if (time.network, time.batch_size) in wanted]


def _time(source: dict[str, Any], entry: dict[str, Any]) -> PublishedTime:
    return PublishedTime(
        Source(**{field.name: source[field.name] for field in dataclasses.fields(Source)}),
        entry["library"],
        entry["network"],
        entry["batch_size"],
        _seconds(entry["forward_ms"]),
        _seconds(entry["backward_ms"]),
        entry["total_ms"] / 1e3,
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
