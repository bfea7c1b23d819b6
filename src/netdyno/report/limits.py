"""How near a cell comes to what its device can do at most: see docs/limits.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netdyno.device_limits import DeviceLimits, limits_from_json
from netdyno.networks import Network
from netdyno.networks.document import network_from_json
from netdyno.networks.roofline import NetworkWork, work
from netdyno.plan.estimate import ITEMSIZE_BYTES
from netdyno.plan.job import PHASES
from netdyno.store.run import Run

__all__ = ["CellLimit", "cell_limit", "device_limits", "work_of"]

# In mixed precision the parameters, and so what the update reads and writes, stay in fp32.
PARAMETER_BYTES = {"bf16": 4, "fp16": 4}


@dataclass(frozen=True)
class CellLimit:
    """By phase: the least ``seconds`` of an iteration, and its ``flop`` in Conv and Dense."""

    seconds: Mapping[str, float]
    flop: Mapping[str, int]


def work_of(network: Network, batch_size: int, precision: str) -> NetworkWork:
    """What one iteration must do in ``precision``, one of plan/cell.py."""
    return work(
        network,
        batch_size=batch_size,
        itemsize_bytes=ITEMSIZE_BYTES[precision],
        parameter_itemsize_bytes=PARAMETER_BYTES.get(precision),
    )


def device_limits(run: Run, cell: Mapping[str, Any]) -> DeviceLimits | None:
    """Of the device of ``cell`` as they were measured in ``run``; None if nobody tried."""
    found = limits_from_json(run.data.get("limits"))
    return next((d for d in found if d.holds_for(cell["device"], int(cell["threads"]))), None)


def cell_limit(run: Run, cell: Mapping[str, Any]) -> CellLimit | None:
    """None where the ceilings of its device, in its precision, are not known."""
    device = device_limits(run, cell)
    ceilings = device.ceilings(cell["precision"]) if device else None
    network = run.data.get("networks", {}).get(cell["network"])
    if ceilings is None or network is None:
        return None
    found = work_of(network_from_json(network), int(cell["batch_size"]), cell["precision"])
    return CellLimit(
        {phase: found.seconds(phase, ceilings) for phase in PHASES},
        {phase: found.flop(phase) for phase in PHASES},
    )
