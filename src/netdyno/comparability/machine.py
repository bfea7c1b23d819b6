"""The host and the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from netdyno.comparability.difference import UNKNOWN, Difference, Fact, between
from netdyno.comparability.fingerprint import Fingerprint, look
from netdyno.frameworks import frameworks

__all__ = ["differences", "gpu_model"]

# What a kernel keeps for itself changes with its version: less than this is the same memory.
SAME_MEMORY = 0.02

CHANGED = "The hardware, or what may be used of it, has changed: measure both as it is now."


def _cpu(name: str) -> Any:
    return lambda found: look(found.host, "cpu", name)


def _quota(found: Fingerprint) -> Any:
    """Of a processor that is known, None says that there is no limit."""
    cpu = found.host.get("cpu")
    if cpu is None:
        return None
    quota = look(cpu, "quota_cores")
    return "no limit" if quota is None else quota


HARDWARE = (
    Fact("machine", lambda found: found.host.get("machine"), "invalid", CHANGED),
    Fact("CPU", _cpu("model"), "invalid", CHANGED),
    Fact("physical cores", _cpu("physical_cores"), "invalid", CHANGED),
    Fact("logical cores", _cpu("logical_cores"), "invalid", CHANGED),
    Fact("cores that may be used", _cpu("usable_cores"), "invalid", CHANGED),
    Fact("CPU quota in cores", _quota, "invalid", CHANGED),
    Fact("vector instructions", _cpu("simd"), "invalid", CHANGED, lambda v: ", ".join(map(str, v))),
)

SYSTEM = (
    Fact(
        "CPU governor",
        _cpu("governor"),
        "invalid",
        "Clocks follow it, and the figures follow the clocks: set one for both, best "
        "'performance' (cpupower frequency-set -g performance).",
    ),
    Fact(
        "kernel",
        lambda found: found.host.get("kernel"),
        "as-shipped",
        "Page faults, scheduling and mitigations are the kernel's: measure both under one.",
    ),
    Fact(
        "operating system",
        lambda found: found.host.get("os"),
        "like-for-like",
        "What matters of it, the kernel and the C library, is compared on its own.",
    ),
)

COMPILER = Fact(
    "C++ compiler",
    lambda found: found.host.get("compiler"),
    "as-shipped",
    "The kernels of a mode that compiles at run time are made by it: use one for both.",
)


def differences(a: Fingerprint, b: Fingerprint) -> Iterator[Difference | None]:
    yield from _gpus(a, b)
    if a.host is b.host:
        return  # one run
    ids = a.host.get("id"), b.host.get("id")
    if None not in ids and ids[0] != ids[1]:
        yield between(
            "host",
            _named(a),
            _named(b),
            "invalid",
            "Another machine: the difference is the hardware's, not the framework's; measure "
            "both on one.",
        )
    else:
        yield _identity(a, b)
        for fact in HARDWARE:
            yield fact.compare(a, b)
        yield _memory(a, b)
    for fact in SYSTEM:
        yield fact.compare(a, b)
    if _compiles(a) or _compiles(b):
        yield COMPILER.compare(a, b)


def _named(found: Fingerprint) -> str:
    model = look(found.host, "cpu", "model") or found.host.get("machine") or UNKNOWN
    return f"{found.host.get('id')} ({model})"


def _identity(a: Fingerprint, b: Fingerprint) -> Difference | None:
    first, second = a.host.get("id"), b.host.get("id")
    if first is None and second is None:
        return Difference(
            "host id",
            UNKNOWN,
            UNKNOWN,
            "like-for-like",
            "Neither host has an id: that it is one rests on its equal processor and memory.",
        )
    return between("host id", first, second, "invalid", "")


def _memory(a: Fingerprint, b: Fingerprint) -> Difference | None:
    first, second = a.host.get("memory_bytes"), b.host.get("memory_bytes")
    if (
        isinstance(first, int)
        and isinstance(second, int)
        and abs(first - second) <= SAME_MEMORY * max(first, second)
    ):
        return None
    return between("memory", first, second, "invalid", CHANGED, _gigabytes)


def _gigabytes(value: Any) -> str:
    return f"{value / 2**30:.1f} GiB" if isinstance(value, int | float) else str(value)


def _compiles(found: Fingerprint) -> bool:
    """Whether its mode makes kernels with the host's C++ compiler."""
    spec = frameworks().get(found.framework)
    mode = spec.modes.get(str(found.cell.get("mode"))) if spec else None
    return mode is not None and "c++" in mode.needs


def _gpus(a: Fingerprint, b: Fingerprint) -> Iterator[Difference | None]:
    if not (a.on_gpu and b.on_gpu):
        return
    models = gpu_model(a), gpu_model(b)
    yield between(
        "GPU",
        *models,
        "invalid",
        "Another model: the difference is the hardware's, not the framework's; measure both on "
        "one.",
    )
    if None not in models and models[0] == models[1]:
        yield between(
            "GPU number",
            a.cell.get("device"),
            b.cell.get("device"),
            "like-for-like",
            "Two GPUs of one model; their clocks may differ a little.",
        )
    if a.host is not b.host:
        yield between(
            "GPU driver",
            _driver(a),
            _driver(b),
            "as-shipped",
            "It compiles and starts kernels and sets clocks: measure both under one.",
        )


def gpu_model(found: Fingerprint) -> Any:
    """As the process saw it; the host's list may be in another order."""
    listed = _listed(found)
    index = str(found.cell.get("device")).partition(":")[2] or "0"
    in_list = listed[int(index)] if index.isdigit() and int(index) < len(listed) else None
    return look(found.trial, "gpu", "name") or look(in_list, "name")


def _listed(found: Fingerprint) -> list[Any]:
    listed = found.host.get("gpus")
    return listed if isinstance(listed, list) else []


def _driver(found: Fingerprint) -> Any:
    """A host has one for all its GPUs."""
    return next((look(gpu, "driver") for gpu in _listed(found)), None)
