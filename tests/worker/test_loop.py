"""The timing loop, on a clock that only moves when it is told to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import chain, count, cycle, repeat

import pytest

from netdyno_worker import clock, loop
from netdyno_worker.loop import Block, measure
from netdyno_worker.machine import Reading
from netdyno_worker.protocol import Sampling

Measured = Callable[..., list[Block]]

SAMPLING = Sampling(
    min_samples=3,
    max_samples=50,
    phase_seconds=100.0,
    min_block_seconds=0.5,
    max_warmup_iterations=10,
)


class Bench:
    """A step that takes the next of some durations; a record of every call."""

    def __init__(self, durations: Iterable[float], preparing: float = 0.0) -> None:
        self.now = 0.0
        self.durations = iter(durations)
        self.preparing = preparing
        self.waiting = 0.0
        self.round_trip = 0.0
        self.calls: list[str] = []

    def step(self) -> None:
        """Starts work and returns at once, as frameworks do: the work ends in synchronize."""
        self.calls.append("step")
        self.waiting += next(self.durations)

    def synchronize(self) -> None:
        self.calls.append("synchronize")
        self.now += self.waiting + self.round_trip
        self.waiting = 0.0

    def before(self, iterations: int) -> None:
        self.calls.append(f"before {iterations}")
        self.waiting += self.preparing


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """``measured(bench)``: its blocks, ``sampling`` changed where told."""

    def run(bench: Bench, max_iterations: int = 10**6, **changes: float) -> list[Block]:
        monkeypatch.setattr(clock, "now", lambda: bench.now)
        sampling = SAMPLING._replace(**changes)
        return list(measure(bench.step, bench.synchronize, sampling, bench.before, max_iterations))

    return run


def kinds(blocks: list[Block]) -> list[str]:
    return [block.kind for block in blocks]


def test_first_then_warm_up_then_samples(measured: Measured) -> None:
    blocks = measured(Bench(chain([60.0], repeat(1.0))))
    assert blocks[0].kind == "first"
    assert blocks[0].seconds == 60.0
    # Two warm-ups that agree are enough; the samples agree so well that five of them are.
    assert kinds(blocks) == ["first", *["warmup"] * 2, *["sample"] * 5]


def test_warm_up_goes_on_until_two_neighbours_agree(measured: Measured) -> None:
    blocks = measured(Bench(chain([9.0], [8.0, 4.0, 2.0, 1.0, 1.04], repeat(1.0))))
    assert kinds(blocks).count("warmup") == 5


def test_warm_up_that_never_agrees_ends(measured: Measured) -> None:
    slower = (2.0**n * 1e-3 for n in count())
    assert kinds(measured(Bench(slower), phase_seconds=1e12)).count("warmup") == 10


def test_warm_up_ends_when_the_phase_is_over(measured: Measured) -> None:
    blocks = measured(Bench(chain([1.0], [60.0, 41.0], repeat(30.0))))
    assert kinds(blocks) == ["first", "warmup", "warmup", "sample", "sample", "sample", "sample"]


def test_blocks_are_long_enough_for_the_clock(measured: Measured) -> None:
    blocks = measured(Bench(repeat(0.125)))
    samples = [block for block in blocks if block.kind == "sample"]
    assert {block.iterations for block in samples} == {4}
    assert {block.seconds for block in samples} == {0.5}
    assert {block.seconds_per_iteration for block in samples} == {0.125}
    assert {block.iterations for block in blocks if block.kind != "sample"} == {1}


def test_blocks_are_long_enough_for_a_slow_synchronize(measured: Measured) -> None:
    """A fraction of a millisecond of waiting must not count among steps that are as short."""
    bench = Bench(repeat(0.125))
    bench.round_trip = 0.01
    samples = [block for block in measured(bench) if block.kind == "sample"]
    for block in samples:
        assert block.seconds_per_iteration == pytest.approx(0.125, rel=0.0025)
        assert block.iterations == pytest.approx(5.0 / 0.135, abs=1)


def test_a_step_longer_than_a_block_is_one(measured: Measured) -> None:
    assert {block.iterations for block in measured(Bench(repeat(0.75)))} == {1}


def test_a_step_too_short_for_the_clock_does_not_divide_by_zero(measured: Measured) -> None:
    blocks = measured(Bench(repeat(0.0)), max_iterations=7, max_samples=6)
    assert blocks[-1].iterations == 7


def test_blocks_are_no_longer_than_the_caller_allows(measured: Measured) -> None:
    blocks = measured(Bench(repeat(0.001)), max_iterations=4)
    assert {block.iterations for block in blocks if block.kind == "sample"} == {4}


def noisy() -> Iterable[float]:
    return (1.0 + n % 2 for n in count())


def test_noise_is_sampled_to_the_most(measured: Measured) -> None:
    blocks = measured(Bench(noisy()), phase_seconds=1e9, max_samples=20)
    assert kinds(blocks).count("sample") == 20


def test_noise_is_sampled_to_the_end_of_the_phase(measured: Measured) -> None:
    blocks = measured(Bench(noisy()), phase_seconds=15.0)
    total = sum(block.seconds for block in blocks if block.kind == "sample")
    assert 15.0 <= total <= 16.0


def test_the_fewest_samples_are_taken_however_long_they_are(measured: Measured) -> None:
    blocks = measured(Bench(repeat(1000.0)))
    assert kinds(blocks) == ["first", "warmup", "sample", "sample", "sample"]


def test_what_is_prepared_before_a_block_is_called_for_each_and_not_timed(
    measured: Measured,
) -> None:
    bench = Bench(repeat(0.25), preparing=1000.0)
    blocks = measured(bench)
    assert {block.seconds_per_iteration for block in blocks} == {0.25}
    calls = [call for call in bench.calls if call.startswith("before")]
    assert calls == [f"before {block.iterations}" for block in blocks]


def test_one_synchronize_a_block_and_one_before_its_clock_starts(measured: Measured) -> None:
    bench = Bench(repeat(0.25))
    expected = []
    for block in measured(bench):
        steps = ["step"] * block.iterations
        if block.kind == "sample" and "before 2" not in expected:
            expected += ["synchronize"] * 3  # how long one takes by itself is asked once
        expected += [f"before {block.iterations}", "synchronize", *steps, "synchronize"]
    assert bench.calls == expected


def test_blocks_are_given_as_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what was measured before a crash has been written."""
    bench = Bench(repeat(1.0))
    monkeypatch.setattr(clock, "now", lambda: bench.now)
    blocks = measure(bench.step, bench.synchronize, SAMPLING)
    next(blocks)
    assert bench.calls.count("step") == 1
    next(blocks)
    assert bench.calls.count("step") == 2


def test_an_error_in_a_step_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench([1.0])
    with pytest.raises((StopIteration, RuntimeError)):
        list(measure(bench.step, bench.synchronize, SAMPLING))


def test_what_the_process_used_is_told() -> None:
    block = loop.time_block("sample", lambda: None, lambda: None, 3)
    assert set(block.usage) == {"user_seconds", "system_seconds", "minor_faults", "major_faults"}
    assert all(value >= 0 for value in block.usage.values())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_what_another_process_used_is_told() -> None:
    """Its name may hold brackets and blanks; its times are those that the system tells."""
    code = "import sys; list(map(str, range(10**6))); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout
        child.stdout.readline()
        used = clock.usage(child.pid)
        own = clock.usage(os.getpid())
        child.communicate()
    assert used["user_seconds"] > 0
    assert used["minor_faults"] > 1000
    assert own["user_seconds"] == pytest.approx(clock.usage()["user_seconds"], abs=0.1)


def test_the_clock_never_goes_back() -> None:
    readings = [clock.now() for _ in range(100)]
    assert readings == sorted(readings)


class Counters:
    """A machine whose reading costs a second of the bench's clock; another second is worked."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.readings: list[Reading] = []

    def read(self, process_id: int | None = None) -> Reading:
        self.bench.calls.append("read")
        self.bench.now += 1.0
        reading = Reading(self.bench.now, self.bench.now / 2, self.bench.now, None, 0, None)
        self.readings.append(reading)
        return reading


def test_what_the_machine_did_is_told_without_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(repeat(0.25), preparing=10.0)
    monkeypatch.setattr(clock, "now", lambda: bench.now)
    counters = Counters(bench)
    blocks = list(measure(bench.step, bench.synchronize, SAMPLING, bench.before, machine=counters))
    # Reading is outside the timed region, once a block and once before the first.
    assert {block.seconds_per_iteration for block in blocks} == {0.25}
    assert len(counters.readings) == len(blocks) + 1
    first, last = counters.readings[0], counters.readings[-1]
    told = [block.meanwhile for block in blocks]
    assert sum(each["stretch_seconds"] for each in told) == last.seconds - first.seconds
    busy = sum(each["machine_busy_seconds"] for each in told)
    assert busy == last.machine_busy_seconds - first.machine_busy_seconds
    assert {each["steal_seconds"] for each in told} == {None}
    starts = [block.start for block in blocks]
    assert starts == sorted(starts)
    ends = [reading.seconds for reading in counters.readings[1:]]
    assert all(s + b.seconds < e for s, b, e in zip(starts, blocks, ends, strict=True))


def test_without_a_machine_nothing_is_told(measured: Measured) -> None:
    assert all(block.meanwhile == {} for block in measured(Bench(repeat(1.0))))


def test_processor_time_of_children_that_have_ended_is_counted() -> None:
    """A compiler that a framework starts is no other program."""
    before = clock.processor_seconds()
    code = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert clock.processor_seconds() - before >= 0.3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_processor_time_of_the_child_that_works_is_counted() -> None:
    code = (
        "import sys, time\nwhile time.process_time() < 0.3: pass\n"
        "print(flush=True); sys.stdin.read()"
    )
    before = clock.processor_seconds()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout
        child.stdout.readline()
        assert clock.processor_seconds(child.pid) - before >= 0.25
        child.communicate()


def test_the_device_has_a_clock_of_its_own() -> None:
    """Marks stand before the first step and behind the last, and are read when all is done."""
    calls: list[str] = []

    def mark() -> int:
        calls.append("mark")
        return len(calls)

    def seconds(start: int, end: int) -> float:
        calls.append("seconds")
        return float(end - start)

    block = loop.time_block(
        "sample",
        lambda: calls.append("step"),
        lambda: calls.append("synchronize"),
        2,
        events=loop.DeviceEvents(mark, seconds),
    )
    assert calls == ["mark", "step", "step", "mark", "synchronize", "seconds"]
    assert block.device_seconds == 3.0


def test_a_phase_that_is_quiet_at_once_takes_as_long_as_it_is_told(measured: Measured) -> None:
    blocks = measured(Bench(repeat(1.0)), least_seconds=12.0)
    assert kinds(blocks).count("sample") == 12


def test_what_is_done_between_blocks_ends_a_phase_too(measured: Measured) -> None:
    noisy = cycle([1.0, 1.5])
    alone = measured(Bench(noisy))
    beside = measured(Bench(noisy, preparing=40.0))
    assert kinds(alone).count("sample") == 50  # the most that was asked for
    assert kinds(beside).count("sample") == 8  # 300 s, three times phase_seconds


def test_what_starting_the_work_took(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(repeat(1.0))
    monkeypatch.setattr(clock, "now", lambda: bench.now)

    def step() -> None:
        bench.step()
        bench.now += 0.25  # of the processor

    block = loop.time_block("sample", step, bench.synchronize, 3)
    assert block.launch_seconds == 0.75
    assert block.seconds == 3.75
    assert block.fields()["launch_seconds"] == 0.75
