"""THE timing loop: one piece of code for every framework, and for a person's own model.

A *block* is a number of iterations that ends in one ``synchronize()``; its time is host monotonic
time. A phase is measured as: the first iteration on its own (it compiles); warm-up, one iteration
a block, until two neighbours agree; then blocks long enough for the clock and the synchronize not
to matter, until enough of them were seen.
"""

from __future__ import annotations

import math
import statistics
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Union

from netdyno_worker import clock
from netdyno_worker.machine import Machine
from netdyno_worker.protocol import Sampling

# Two warm-up iterations closer than this are steady.
STEADY = 0.05
# A median whose standard error is below this share of it needs no more blocks.
QUIET = 0.01
QUIET_SAMPLES = 5
# A phase ends after so many times ``phase_seconds``, if what is done between blocks takes longer
# than they do: on a GPU, parameters take longer to put back than a few train steps.
PATIENCE = 3
# The largest share of a block's time that its synchronize may cost by itself.
WAITING = 0.002


class Block(NamedTuple):
    """``kind`` is ``first``, ``warmup`` or ``sample``; ``seconds`` is for the whole block.

    ``start`` is ``clock.now()`` at its beginning. ``meanwhile`` is what the machine did since the
    block before it ended (see machine.py): counters of 10 ms need stretches without gaps.
    ``launch_seconds`` had passed when the last step had been called: on a GPU its work goes on
    behind that. ``device_seconds`` is the block by the device's own events, where there are any.
    """

    kind: str
    iterations: int
    seconds: float
    usage: Dict[str, Union[int, float]]
    start: float
    meanwhile: Mapping[str, Any]
    launch_seconds: float
    device_seconds: Optional[float] = None

    @property
    def seconds_per_iteration(self) -> float:
        return self.seconds / self.iterations

    def fields(self) -> Dict[str, Any]:
        """As events tell it: see docs/event-protocol.md."""
        return {
            "kind": self.kind,
            "iterations": self.iterations,
            "start": round(self.start, 6),
            "seconds": round(self.seconds, 9),
            "launch_seconds": round(self.launch_seconds, 9),
            "device_seconds": self.device_seconds and round(self.device_seconds, 9),
            **self.usage,
            **self.meanwhile,
        }


class DeviceEvents(NamedTuple):
    """Time by the device's own clock.

    ``mark`` puts an event into its queue of work, at no more cost than that of a kernel's launch;
    ``seconds`` is the time between two of them that have passed.
    """

    mark: Callable[[], Any]
    seconds: Callable[[Any, Any], float]


def time_block(
    kind: str,
    step: Callable[[], None],
    synchronize: Callable[[], None],
    iterations: int,
    process_id: Optional[int] = None,
    events: Optional[DeviceEvents] = None,
) -> Block:
    """Run ``step`` some times and wait for all of it.

    The caller has synchronized before: nothing is under way when the clock starts.
    ``process_id``: of the process that does the work, where it is not this one. ``events``: marks
    in the device's queue, before the first step and behind the last.
    """
    before = clock.usage(process_id)
    first = events.mark() if events else None
    start = clock.now()
    for _ in range(iterations):
        step()
    last = events.mark() if events else None
    launch_seconds = clock.now() - start
    synchronize()
    seconds = clock.now() - start
    usage = clock.used_since(before, process_id)
    device = events.seconds(first, last) if events else None
    return Block(kind, iterations, seconds, usage, start, {}, launch_seconds, device)


def measure(
    step: Callable[[], None],
    synchronize: Callable[[], None],
    sampling: Sampling,
    before_block: Callable[[int], None] = lambda iterations: None,
    max_iterations: int = 10**6,
    process_id: Optional[int] = None,
    machine: Optional[Machine] = None,
    events: Optional[DeviceEvents] = None,
) -> Iterator[Block]:
    """Yield every block as it ends: the first iteration, the warm-up, the samples.

    ``before_block`` is called before each block with its number of iterations, at most
    ``max_iterations``; what it does is not timed. ``process_id``: see ``time_block``.
    ``machine`` is read after each block. ``events``: see ``time_block``.
    """
    reading = machine.read(process_id) if machine else None

    def block(kind: str, iterations: int) -> Block:
        nonlocal reading
        before_block(iterations)
        synchronize()
        timed = time_block(kind, step, synchronize, iterations, process_id, events)
        if machine is None or reading is None:
            return timed
        before, reading = reading, machine.read(process_id)
        return timed._replace(meanwhile=reading.since(before))

    last = block("first", 1)
    yield last
    for warmup in _warm_up(block, sampling):
        last = warmup
        yield warmup
    least = max(sampling.min_block_seconds, _waiting_seconds(synchronize) / WAITING)
    iterations = max(1, math.ceil(least / max(last.seconds, 1e-9)))
    iterations = min(iterations, max_iterations)
    samples: List[float] = []
    begun = clock.now()
    while not _enough(samples, iterations, sampling, clock.now() - begun):
        sample = block("sample", iterations)
        samples.append(sample.seconds_per_iteration)
        yield sample


def _waiting_seconds(synchronize: Callable[[], None]) -> float:
    """What a synchronize costs where there is nothing to wait for, the reading of the clock too."""
    found = []
    for _ in range(3):
        start = clock.now()
        synchronize()
        found.append(clock.now() - start)
    return min(found)


def _warm_up(block: Callable[[str, int], Block], sampling: Sampling) -> Iterator[Block]:
    elapsed, previous = 0.0, math.inf
    for _ in range(sampling.max_warmup_iterations):
        warmup = block("warmup", 1)
        yield warmup
        elapsed += warmup.seconds
        steady = abs(warmup.seconds - previous) <= STEADY * warmup.seconds
        if steady or elapsed >= sampling.phase_seconds:
            return
        previous = warmup.seconds


def _enough(samples: List[float], iterations: int, sampling: Sampling, elapsed: float) -> bool:
    """``elapsed`` seconds are those since the first sample, with what is done between blocks."""
    count = len(samples)
    if count < sampling.min_samples:
        return False
    if count >= sampling.max_samples or elapsed >= PATIENCE * sampling.phase_seconds:
        return True
    if sum(samples) * iterations >= sampling.phase_seconds:
        return True
    if count < QUIET_SAMPLES or elapsed < sampling.least_seconds:
        return False
    # 1.25 is the standard error of a normal sample's median over that of its mean.
    error = 1.25 * statistics.stdev(samples) / math.sqrt(count)
    return error <= QUIET * statistics.median(samples)
