"""What a device can do at most, as a framework reaches it: products, copies and launches.

What a framework must do for it is ``Limits``, derived in ``frameworks/<name>/limits.py``. Here is
what is the same for all: which sizes are tried, how long, and that it is timed by THE loop.
"""

from __future__ import annotations

import abc
import importlib
import statistics
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Type

from netdyno_worker import device, loop
from netdyno_worker.adapter import Adapter, UnsupportedError
from netdyno_worker.machine import Machine
from netdyno_worker.protocol import Events, Job, Sampling, is_out_of_memory

Step = Callable[[], None]

# What one figure may take, all its sizes together; compiling them comes on top.
FIGURE_SECONDS = 2.0
SAMPLING = Sampling(
    min_samples=3,
    max_samples=10,
    phase_seconds=0.3,
    min_block_seconds=0.02,
    max_warmup_iterations=3,
)
# Two that warm up and the samples: the fewest iterations that a size takes after the first.
FEWEST_ITERATIONS = 2 + SAMPLING.min_samples
# Launches are short and vary much.
LAUNCHES = SAMPLING._replace(max_samples=50, max_warmup_iterations=50)
# A rate that is not higher than the best by this share has not grown; one such size may be an
# unlucky one, two are the end.
GROWTH = 0.02
PATIENCE = 2
# All arrays of one figure together; on the host never more than a share of what is free.
MOST_BYTES = 4 * 2**30
FREE_SHARE = 0.125

ITEMSIZE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp64": 8}
# Rows of the smallest square matrices.
FIRST_ROWS = 256
# Of one array: well beyond the caches of any processor or GPU, whose speed is another one.
FIRST_COPY_BYTES = 256 * 2**20


class Limits(abc.ABC):
    """Gives single operations of one framework on the device of its adapter.

    Order of calls: ``prepare(job)`` before the framework is imported, then ``Limits(adapter,
    job)``. The steps that it gives may return before the work is done, ``synchronize`` may not;
    the arrays that a step works on are made before it is given, and go with it.
    """

    @classmethod  # noqa: B027 - not abstract: most have nothing to set
    def prepare(cls, job: Job) -> None:
        """Set what must be set before the framework is imported, beyond ``Adapter.prepare``."""

    def __init__(self, adapter: Adapter, job: Job) -> None:
        self.adapter = adapter
        self.job = job

    @abc.abstractmethod
    def product(self, precision: str, rows: int) -> Step:
        """Multiply two square matrices of ``rows`` rows, of random numbers, into a third.

        ``precision`` is one of plan/cell.py; ``bf16`` and ``fp16`` are those of operands and
        result.

        Raises:
            UnsupportedError: the framework has no such product on this device.
        """

    @abc.abstractmethod
    def copy(self, size: int) -> Step:
        """Copy an array of ``size`` bytes of single precision into another, on the device."""

    @abc.abstractmethod
    def smallest(self) -> Step:
        """Start the operation that does least: of one number."""

    def synchronize(self) -> None:
        """Return when all work that was started is done."""
        self.adapter.synchronize()


class _Rate(NamedTuple):
    """A figure that depends on a size: see the fields of a ``limit`` event."""

    name: str
    precision: Optional[str]
    unit: str
    step: Callable[[int], Step]
    #: What one iteration of a size does, in the unit times a second.
    work: Callable[[int], float]
    #: Of all its arrays.
    taken_bytes: Callable[[int], int]
    first: int


def limits_class(framework: str) -> Type[Limits]:
    found: Type[Limits] = importlib.import_module(
        "netdyno_worker.frameworks.{}.limits".format(framework)
    ).Limits
    return found


def measure(limits: Limits, job: Job, events: Events, machine: Machine) -> None:
    """Emit a ``limit`` event for each figure: see docs/event-protocol.md."""
    bench = _Bench(limits, machine)
    most = _most_bytes(job.device)
    rates = [_product(limits, precision, job.device) for precision in job.limits]
    for rate in [*rates, _copy(limits)]:
        events.emit("limit", **_guarded(rate, bench, most))
    for name, together in (("launch", 1), ("launch_back_to_back", 10**6)):
        blocks = bench.samples(limits.smallest(), LAUNCHES, together)
        raw = [_raw(None, block) for block in blocks]
        events.emit("limit", **_told(name, None, "s", _median(blocks), None, raw))
    # Here, when the clock is still that of the work.
    events.emit("machine", phase="limits", **machine.facts())


class _Bench:
    """Times the steps of one framework."""

    def __init__(self, limits: Limits, machine: Machine) -> None:
        self._limits = limits
        self._machine = machine

    def samples(
        self, step: Step, sampling: Sampling, most_together: int = 10**6
    ) -> List[loop.Block]:
        """Without the first iteration and the warm-up."""
        blocks = loop.measure(
            step,
            self._limits.synchronize,
            sampling,
            max_iterations=most_together,
            process_id=self._limits.adapter.process_id,
            machine=self._machine,
        )
        return [block for block in blocks if block.kind == "sample"]


def _product(limits: Limits, precision: str, device_name: str) -> _Rate:
    def step(rows: int) -> Step:
        if precision == "tf32":
            _need_tf32(device_name)
        return limits.product(precision, rows)

    itemsize = ITEMSIZE_BYTES[precision]
    return _Rate(
        "product",
        precision,
        "FLOP/s",
        step,
        lambda rows: 2.0 * rows**3,
        lambda rows: 3 * rows**2 * itemsize,
        FIRST_ROWS,
    )


def _copy(limits: Limits) -> _Rate:
    return _Rate(
        "copy",
        None,
        "B/s",
        limits.copy,
        lambda size: 2.0 * size,  # read and written
        lambda size: 2 * size,
        FIRST_COPY_BYTES,
    )


def _need_tf32(device_name: str) -> None:
    if device_name == "cpu":
        raise UnsupportedError("TF32 is a precision of GPUs")
    if not device.has_tf32(device.cuda_device(device_name)):
        raise UnsupportedError("this GPU is older than TF32")


def _guarded(rate: _Rate, bench: _Bench, most_bytes: float) -> Dict[str, Any]:
    """The fields of one figure's event; what fails costs only this figure."""
    try:
        return _highest(rate, bench, most_bytes)
    except UnsupportedError as error:
        problem = str(error)
    except Exception as error:
        traceback.print_exc()
        problem = "{}: {}".format(type(error).__name__, (str(error).splitlines() or [""])[0])
    return _told(rate.name, rate.precision, rate.unit, None, None, [], problem)


def _highest(rate: _Rate, bench: _Bench, most_bytes: float) -> Dict[str, Any]:
    """Larger and larger sizes, until the rate no longer grows, or time or memory ends."""
    size, best, best_size = rate.first, 0.0, rate.first
    while rate.taken_bytes(size) > most_bytes:
        size //= 2
    raw: List[Dict[str, Any]] = []
    spent, unlucky = 0.0, 0
    while unlucky < PATIENCE and rate.taken_bytes(size) <= most_bytes:
        try:
            blocks = bench.samples(rate.step(size), SAMPLING)
        except Exception as error:
            if raw and is_out_of_memory("{} {}".format(type(error).__name__, error)):
                break
            raise
        raw += [_raw(size, block) for block in blocks]
        reached = rate.work(size) / _median(blocks)
        unlucky = 0 if reached > best * (1 + GROWTH) else unlucky + 1
        if reached > best:
            best, best_size = reached, size
        spent += sum(block.seconds for block in blocks)
        # By the fastest block: what another program did to the others need not come again.
        seconds = min(block.seconds_per_iteration for block in blocks)
        seconds *= rate.work(2 * size) / rate.work(size)
        if spent + FEWEST_ITERATIONS * seconds > FIGURE_SECONDS:
            break
        size *= 2
    return _told(rate.name, rate.precision, rate.unit, best, best_size, raw)


def _median(blocks: List[loop.Block]) -> float:
    """Seconds per iteration."""
    return statistics.median(block.seconds_per_iteration for block in blocks)


def _raw(size: Optional[int], block: loop.Block) -> Dict[str, Any]:
    return {"size": size, **block.fields()}


def _told(
    name: str,
    precision: Optional[str],
    unit: str,
    value: Optional[float],
    size: Optional[int],
    samples: List[Dict[str, Any]],
    problem: str = "",
) -> Dict[str, Any]:
    return {
        "name": name,
        "precision": precision,
        "value": value,
        "unit": unit,
        "size": size,
        "samples": samples,
        "problem": problem,
    }


def _most_bytes(device_name: str) -> float:
    """What one figure may take. A GPU that has less says so, and the sizes end there."""
    free = _free_host_bytes() if device_name == "cpu" else None
    return MOST_BYTES if free is None else min(MOST_BYTES, FREE_SHARE * free)


def _free_host_bytes() -> Optional[int]:
    """What could be taken without anybody being swapped out; None off Linux."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return None
