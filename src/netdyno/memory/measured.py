"""The memory of one phase of one cell, as a trial measured it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netdyno.networks.graph import BatchNorm, Network
from netdyno.redact import printable

__all__ = ["Arrays", "PhaseMemory", "arrays", "phase_memory"]

# Further apart than this, the framework's own figure and what was seen need an explanation.
AGREEMENT = 0.1
SINGLE_BYTES = LABEL_BYTES = 4


@dataclass(frozen=True)
class PhaseMemory:
    """Bytes; None for what nobody could tell.

    ``reported_bytes``: internal memory as the framework tells it, ``kind`` and ``source`` say how
    it knows, ``remark`` how that departs from the definition. ``observed_bytes``: the same from
    outside, by ``observed_source``; ``observed_problem`` says why there is none.
    ``process_bytes`` is the peak of what the whole process had in memory during one pass,
    ``device_bytes`` what it had taken on its GPU.
    """

    phase: str
    reported_bytes: int | None
    kind: str
    source: str
    remark: str
    observed_bytes: int | None
    observed_source: str
    observed_problem: str
    observed_largest: tuple[int, ...]
    process_bytes: int | None
    device_bytes: int | None

    @property
    def internal_bytes(self) -> int | None:
        """What was seen, by one rule for all frameworks; else what the framework tells."""
        return self.reported_bytes if self.observed_bytes is None else self.observed_bytes

    @property
    def total_bytes(self) -> int | None:
        """All that is held where the pass runs: on the GPU, else by the process."""
        return self.process_bytes if self.device_bytes is None else self.device_bytes

    @property
    def disagreement(self) -> float | None:
        """The framework's figure over the one seen, less 1; None if there are not both."""
        if self.reported_bytes is None or not self.observed_bytes:
            return None
        return self.reported_bytes / self.observed_bytes - 1

    @property
    def agrees(self) -> bool:
        """Whether there are two figures and they are near each other."""
        return self.disagreement is not None and abs(self.disagreement) <= AGREEMENT


def phase_memory(event: Mapping[str, Any]) -> PhaseMemory:
    """From a ``memory`` event. A shared folder may hold anything: what is no number is None."""
    largest = event.get("observed_largest")
    sizes = [_bytes(size) for size in largest] if isinstance(largest, list) else []
    return PhaseMemory(
        phase=_text(event, "phase"),
        reported_bytes=_bytes(event.get("internal_bytes")),
        kind=_text(event, "kind"),
        source=_text(event, "source"),
        remark=_text(event, "remark"),
        observed_bytes=_bytes(event.get("observed_bytes")),
        observed_source=_text(event, "observed_source"),
        observed_problem=_text(event, "observed_problem"),
        observed_largest=tuple(size for size in sizes if size is not None),
        process_bytes=_bytes(event.get("process_bytes")),
        device_bytes=_bytes(event.get("device_bytes")),
    )


def _text(event: Mapping[str, Any], name: str) -> str:
    return printable(str(event.get(name) or ""))


def _bytes(value: Any) -> int | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return int(value) if good else None


@dataclass(frozen=True)
class Arrays:
    """What a phase holds beside its internal memory, in bytes, known from the network alone."""

    parameters: int
    gradients: int
    optimizer_state: int
    inputs: int
    outputs: int

    @property
    def total(self) -> int:
        return sum(dataclasses.astuple(self))


def arrays(network: Network, *, phase: str, batch_size: int, itemsize_bytes: int = 4) -> Arrays:
    """Of one ``phase``, each array once.

    Parameters include the running statistics of batch norms, outputs are the logits, labels are
    four bytes each. ``itemsize_bytes`` is that of activations: parameters, what belongs to them
    and the images are never held in less than single precision.
    """
    held = max(SINGLE_BYTES, itemsize_bytes)
    parameters = held * sum(map(math.prod, network.parameter_shapes.values()))
    channels = [network.shapes[x.name][0] for x in network.layers if isinstance(x, BatchNorm)]
    statistics = held * 2 * sum(channels)
    learns = phase != "forward"
    return Arrays(
        parameters=parameters + statistics,
        gradients=parameters if learns else 0,
        optimizer_state=parameters if phase == "train_step" else 0,
        inputs=batch_size * (held * math.prod(network.input_shape) + LABEL_BYTES),
        outputs=batch_size * itemsize_bytes * network.classes,
    )
