"""Internal memory of a person's own model, in the Python that they train it with."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from netdyno_worker import allocations, resident
from netdyno_worker.memory import WARM_UP, Reported
from netdyno_worker.own_model import OwnModel

# How far the resident size may be from a known answer: it counts pages, of everything.
SLACK_BYTES = 2**20


def internal_memory(own: OwnModel, batch: Tuple[Any, Any], device: str) -> Reported:
    """Of one ``forward_backward`` of ``batch``, by the best that there is to tell it.

    That is the framework; else, on a CPU, memray where this Python has it; else the process.
    """
    told = own.reported(batch)
    if told is not None:
        return told
    if device != "cpu":
        return Reported(None, "", "", "{} tells nothing of a GPU's memory".format(own.title))
    for _ in range(WARM_UP):
        own.whole_pass(batch)
    instrument = allocations.Instrument(allocations.INSTALLED)
    if instrument.problem:
        return _by_the_process(own, batch)
    seen = instrument.watch(lambda: own.whole_pass(batch))
    return Reported(seen.peak_bytes, "every allocation", instrument.source)


def _by_the_process(own: OwnModel, batch: Tuple[Any, Any]) -> Reported:
    kept: List[np.ndarray] = []
    expected = allocations.KNOWN_BYTES + allocations.KEPT_BYTES
    known = resident.growth_bytes(lambda: allocations.known_work(kept))
    if known is None or abs(known - expected) > SLACK_BYTES:
        return Reported(None, "", "", "neither memray nor this system can tell: install memray")
    return Reported(
        resident.growth_bytes(lambda: own.whole_pass(batch)),
        "process peak",
        "growth of the resident set",
        "pages that were touched, gradients that are made anew among them",
    )
