"""Internal memory of a person's own model, in the Python that they train it with."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from netdyno_worker import allocations
from netdyno_worker.growth import Growth
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
    instrument = Growth(None)
    if instrument.problem or not _finds_what_is_known(instrument):
        return Reported(None, "", "", "neither memray nor this system can tell: install memray")
    return Reported(
        instrument.watch(lambda: own.whole_pass(batch)).peak_bytes,
        "process peak",
        instrument.source,
        "pages that were touched, gradients that are made anew among them",
    )


def _finds_what_is_known(instrument: Growth) -> bool:
    kept: List[np.ndarray] = []
    expected = allocations.KNOWN_BYTES + allocations.KEPT_BYTES
    seen = instrument.watch(lambda: allocations.known_work(kept))
    return abs(seen.peak_bytes - expected) <= SLACK_BYTES
