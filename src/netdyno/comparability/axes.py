"""What was asked to be measured: the cell's axes, and what the timed region holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from netdyno.comparability.difference import NONE, Difference, Fact, between
from netdyno.comparability.fingerprint import Fingerprint, look

__all__ = ["differences"]


def _axis(name: str) -> Any:
    return lambda found: found.cell.get(name)


def _device_kind(found: Fingerprint) -> str | None:
    device = found.cell.get("device")
    return None if device is None else str(device).partition(":")[0]


def _network(found: Fingerprint) -> tuple[Any, Any] | None:
    """The hash decides; the name is for people."""
    digest = found.cell.get("network_hash")
    return None if digest is None else (digest, found.cell.get("network"))


def _settings(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    return ", ".join(f"{name.replace('_', ' ')} {value[name]}" for name in value)


FACTS = (
    Fact(
        "verified",
        lambda found: found.timed.get("verified"),
        "invalid",
        "What has not passed its parity check may compute something else: verify both.",
        lambda value: "yes" if value else "no",
    ),
    Fact(
        "batch size",
        _axis("batch_size"),
        "invalid",
        "Time and memory grow with the batch, and not in proportion: measure both at one size.",
    ),
    Fact(
        "precision",
        _axis("precision"),
        "invalid",
        "Another number format is another amount of work: measure both in one precision.",
    ),
    Fact(
        "device",
        _device_kind,
        "invalid",
        "Another kind of device: the difference is the hardware's, not the framework's.",
    ),
    Fact(
        "threads asked for",
        _axis("threads"),
        "invalid",
        "Other numbers of threads have other amounts of hardware: measure both with --threads N.",
    ),
    Fact(
        "host allocator",
        _axis("host_allocator"),
        "invalid",
        "Mapping freed memory afresh can take half of an iteration: measure both with one "
        "--host-allocator.",
    ),
    Fact(
        "layout",
        _axis("layout"),
        "as-shipped",
        "Kernels differ with the order of channels in memory: choose one --layout where both "
        "have it.",
    ),
    Fact(
        "autotuning",
        lambda found: found.cell.get("autotune", "on"),  # all that there was before it was an axis
        "as-shipped",
        "One may try convolution algorithms and keep the fastest: choose one --autotune.",
    ),
    Fact(
        "hyperparameters",
        lambda found: found.timed.get("hyperparameters"),
        "invalid",
        "The update of a train step does other work: measure both with the same.",
        _settings,
    ),
    Fact(
        "netdyno",
        lambda found: found.timed.get("netdyno"),
        "as-shipped",
        "The timing loop and the way each framework is driven are netdyno's: measure both with "
        "one release.",
    ),
    Fact(
        "run.json schema",
        lambda found: found.timed.get("schema"),
        "like-for-like",
        "An older file may tell less; it does not change what was measured.",
    ),
)


def differences(a: Fingerprint, b: Fingerprint) -> Iterator[Difference | None]:
    yield _networks(a, b)
    for fact in FACTS:
        yield fact.compare(a, b)
    yield from _phases(a.timed.get("phases"), b.timed.get("phases"))


def _networks(a: Fingerprint, b: Fingerprint) -> Difference | None:
    """Two names of one graph are no difference."""
    first, second = _network(a), _network(b)
    if first and second and first[0] == second[0]:
        return None
    return between(
        "network",
        first,
        second,
        "invalid",
        "Another network is other work: compare cells of one network with the same options.",
        lambda value: f"{value[1]} ({value[0]})",
    )


def _phases(a: Any, b: Any) -> Iterator[Difference | None]:
    if not isinstance(a, Mapping) or not isinstance(b, Mapping):
        yield between(
            "timed regions",
            a if isinstance(a, Mapping) else None,
            b if isinstance(b, Mapping) else None,
            "invalid",
            "",
            lambda value: ", ".join(map(str, value)),
        )
        return
    for name in dict.fromkeys([*a, *b]):
        yield between(
            f"timed region of {name}",
            look(a, name) or NONE,
            look(b, name) or NONE,
            "invalid",
            "The figures are of different work: measure both with one release of netdyno.",
        )
