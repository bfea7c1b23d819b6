"""What the trial's process was: threads, TF32, allocator, variables, what it did otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from netdyno.comparability.difference import (
    NONE,
    WORK_ON_GPU,
    Difference,
    Fact,
    Kind,
    between,
)
from netdyno.comparability.fingerprint import Fingerprint, look
from netdyno.launch.local import MALLOC_VARIABLES, THREAD_VARIABLES

__all__ = ["differences"]

# They let oneDNN compute in another number format than the one that was asked for.
PRECISION_VARIABLES = ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")
TF32_VARIABLE = "NVIDIA_TF32_OVERRIDE"
# Those that netdyno sets to the cell's thread count, for every framework or for one.
THREADS = (*THREAD_VARIABLES, "NPROC", "MXNET_OMP_MAX_THREADS")

FACTS = (
    Fact(
        "malloc in force",
        lambda found: found.trial.get("allocators"),
        "invalid",
        "Another allocator stands in for the C library's: start both with the same LD_PRELOAD, "
        "or with none.",
        lambda names: ", ".join(map(str, names)) or "the C library's",
    ),
    Fact(
        "Python",
        lambda found: found.trial.get("python"),
        "like-for-like",
        "It only starts the framework's work, which is compiled code.",
    ),
)


def differences(a: Fingerprint, b: Fingerprint) -> Iterator[Difference | None]:
    yield _threads(a, b)
    for fact in FACTS:
        yield fact.compare(a, b)
    yield _tf32(a, b)
    yield _libc(a, b)
    yield from _notes(a, b)
    yield from _variables(a, b)


def _threads(a: Fingerprint, b: Fingerprint) -> Difference | None:
    on_gpu = a.on_gpu and b.on_gpu
    return between(
        "threads in force",
        look(a.trial, "threads", "count"),
        look(b.trial, "threads", "count"),
        "like-for-like" if on_gpu else "invalid",
        WORK_ON_GPU
        if on_gpu
        else "One of them worked with other threads than were asked for: look for a variable or "
        "an affinity mask that limits it.",
    )


def _tf32(a: Fingerprint, b: Fingerprint) -> Difference | None:
    """On GPUs, of single precision: nothing else has it."""
    if not (a.on_gpu and b.on_gpu) or "fp64" in (a.cell.get("precision"), b.cell.get("precision")):
        return None
    return between(
        "TF32",
        _tf32_in_force(a),
        _tf32_in_force(b),
        "invalid",
        "TF32 drops 13 of the 23 bits of a fraction and is several times faster: switch it off, "
        "or on, in both.",
    )


def _tf32_is_told(a: Fingerprint, b: Fingerprint) -> bool:
    """Whether the rule above has said, or need not say, what the variable could."""
    on_gpu = a.on_gpu and b.on_gpu
    return not on_gpu or None not in (_tf32_in_force(a), _tf32_in_force(b))


def _tf32_in_force(found: Fingerprint) -> str | None:
    allowed = found.trial.get("tf32")
    if allowed is None:
        return None
    if not allowed:
        return "off"
    # NVIDIA's libraries obey the variable; a framework's own compiled kernels do not.
    forbidden = look(found.trial, "environment", TF32_VARIABLE) == "0"
    return f"on, but {TF32_VARIABLE}=0" if forbidden else "on"


def _libc(a: Fingerprint, b: Fingerprint) -> Difference | None:
    """It matters through its malloc, where that is left as it is."""
    asked = {a.cell.get("host_allocator"), b.cell.get("host_allocator")}
    matters = asked == {"system"}
    kind: Kind = "as-shipped" if matters else "like-for-like"
    return between(
        "C library",
        a.trial.get("libc"),
        b.trial.get("libc"),
        kind,
        "Its malloc is the allocator in force, and releases differ: measure both on one system, "
        "or with --host-allocator retain."
        if matters
        else "Its malloc is told to keep what was freed, and the rest of it is not in kernels.",
    )


def _notes(a: Fingerprint, b: Fingerprint) -> Iterator[Difference | None]:
    first, second = a.trial.get("notes"), b.trial.get("notes")
    if not isinstance(first, list) or not isinstance(second, list):
        yield between("notes", _list(first), _list(second), "as-shipped", "", "; ".join)
        return
    for note in dict.fromkeys(map(str, [*first, *second])):
        yield between(
            note,
            "yes" if note in first else "no",
            "yes" if note in second else "no",
            "as-shipped",
            "One was not done like the other, and the time of that is in the figure.",
        )


def _list(value: Any) -> list[str] | None:
    return [str(item) for item in value] if isinstance(value, list) else None


def _variables(a: Fingerprint, b: Fingerprint) -> Iterator[Difference | None]:
    first, second = a.trial.get("environment"), b.trial.get("environment")
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        yield between(
            "environment variables",
            first if isinstance(first, Mapping) else None,
            second if isinstance(second, Mapping) else None,
            "as-shipped",
            "",
            lambda value: f"{len(value)} recorded",
        )
        return
    for name in sorted({*first, *second}):
        found = _variable(name, a, b)
        if found is not None:
            kind, why = found
            yield between(name, first.get(name, NONE), second.get(name, NONE), kind, why)


def _variable(name: str, a: Fingerprint, b: Fingerprint) -> tuple[Kind, str] | None:
    """What a difference in it means; None if another rule tells of it, or it is the subject."""
    if name in PRECISION_VARIABLES:
        return "invalid", "oneDNN may compute in fewer bits than were asked for: unset it for both."
    if name.startswith(MALLOC_VARIABLES):
        if a.cell.get("host_allocator") != b.cell.get("host_allocator"):
            return None
        return "invalid", "It changes the allocator in force: unset it for both."
    if name == TF32_VARIABLE and _tf32_is_told(a, b):
        return None
    sides = [side for side in (a, b) if look(side.trial, "environment", name) is not None]
    if all(name in _set_inside(side) for side in sides):
        if a.framework != b.framework:
            return None  # how that framework is run, by its adapter or by itself
        return "like-for-like", "netdyno or the framework sets it: it follows from what was asked."
    if name in THREADS:
        return "like-for-like", "netdyno sets it to the number of threads that was asked for."
    if name == "CUDA_VISIBLE_DEVICES":
        return "like-for-like", "It chooses the GPU, whose model is compared on its own."
    return "as-shipped", "It changes what a framework does: set it for both or for none."


def _set_inside(found: Fingerprint) -> list[Any]:
    names = found.trial.get("set_inside")
    return names if isinstance(names, list) else []
