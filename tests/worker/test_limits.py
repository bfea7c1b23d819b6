"""What a device can do at most, on devices whose rates are known and a clock that they move."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netdyno_worker import clock, limits, trial
from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.machine import Machine
from netdyno_worker.protocol import Events, Job

Told = dict[str, Any]


class Nobody:
    """An adapter that does the work itself."""

    process_id = None


class Device(limits.Limits):
    """Does ``rate(rows)`` FLOP/s, ``bandwidth`` B/s and a launch in ``launch`` s, in synchronize.

    ``fits``: rows of the largest matrices that it has room for.
    """

    def __init__(
        self,
        rate: Callable[[int], float] = lambda rows: 1e9,
        bandwidth: float = 1e9,
        launch: float = 1e-6,
        fits: int = 10**9,
    ) -> None:
        super().__init__(Nobody(), None)  # type: ignore[arg-type]
        self.rate, self.bandwidth, self.launch, self.fits = rate, bandwidth, launch, fits
        self.now = self.waiting = 0.0
        self.made: list[int] = []

    def taking(self, seconds: float) -> limits.Step:
        def step() -> None:
            self.waiting += seconds

        return step

    def product(self, precision: str, rows: int) -> limits.Step:
        if precision == "fp16":
            raise UnsupportedError("no such unit")
        if precision == "bf16":
            raise RuntimeError("it broke\nat line 7")
        if rows > self.fits:
            raise RuntimeError("CUDA out of memory. Tried to allocate 3 GiB")
        self.made.append(rows)
        return self.taking(2 * rows**3 / self.rate(rows))

    def copy(self, size: int) -> limits.Step:
        return self.taking(2 * size / self.bandwidth)

    def smallest(self) -> limits.Step:
        return self.taking(self.launch)

    def synchronize(self) -> None:
        self.now += self.waiting + 1e-7
        self.waiting = 0.0


@pytest.fixture
def measured(
    job_data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[Told]]:
    """``measured(device, precisions)``: its ``limit`` events."""

    def run(device: Device, *precisions: str) -> list[Told]:
        monkeypatch.setattr(clock, "now", lambda: device.now)
        monkeypatch.setattr(limits, "_free_host_bytes", lambda: 64 * 2**30)
        file = io.StringIO()
        job = Job.from_json({**job_data, "limits": precisions})
        limits.measure(device, job, Events(file), Machine())
        events = [json.loads(line) for line in file.getvalue().splitlines()]
        assert events.pop()["event"] == "machine"
        return events

    return run


Measured = Callable[..., list[Told]]


def test_figures_are_those_of_the_device(measured: Measured) -> None:
    product, copy, launch, together = measured(Device(), "fp32")
    assert (product["name"], product["precision"], product["unit"]) == ("product", "fp32", "FLOP/s")
    assert product["value"] == pytest.approx(1e9, rel=1e-3)
    assert (copy["name"], copy["precision"], copy["unit"]) == ("copy", None, "B/s")
    assert copy["value"] == pytest.approx(1e9, rel=1e-3)
    assert copy["size"] == 256 * 2**20
    assert (launch["name"], launch["unit"]) == ("launch", "s")
    # Waited for each time; or 20 ms of them, and then waited for once.
    assert launch["value"] == pytest.approx(1.1e-6, rel=1e-3)
    assert together["name"] == "launch_back_to_back"
    assert together["value"] == pytest.approx(1e-6, rel=1e-3)
    assert not any(event["problem"] for event in (product, copy, launch, together))


def test_values_can_be_worked_out_from_the_raw_samples(measured: Measured) -> None:
    product = measured(Device(lambda rows: 1e12 * rows / (rows + 500)), "fp32")[0]
    own = [s for s in product["samples"] if s["size"] == product["size"]]
    # What the machine did meanwhile stands beside them, as beside every block.
    assert all(s["stretch_seconds"] >= s["seconds"] - 1e-6 for s in own)
    assert len(own) >= limits.SAMPLING.min_samples
    seconds = sorted(s["seconds"] / s["iterations"] for s in own)[len(own) // 2]
    assert product["value"] == pytest.approx(2 * product["size"] ** 3 / seconds, rel=1e-3)


def test_sizes_grow_until_the_rate_does_not(measured: Measured) -> None:
    """It reaches its rate at 1024 rows, and falls off beyond: two that are no better are enough."""
    rates = {256: 1e13, 512: 5e13, 1024: 9e13, 2048: 8.9e13}
    device = Device(lambda rows: rates.get(rows, 8e13))
    product = measured(device, "fp32")[0]
    assert device.made == [256, 512, 1024, 2048, 4096]
    assert product["size"] == 1024
    assert product["value"] == pytest.approx(9e13, rel=0.01)


def test_one_unlucky_size_is_not_the_end(measured: Measured) -> None:
    rates = {256: 1e13, 512: 0.9e13, 1024: 9e13}
    device = Device(lambda rows: rates.get(rows, 8e13))
    assert measured(device, "fp32")[0]["size"] == 1024


def test_sizes_end_when_time_does(measured: Measured) -> None:
    """At 1 TFLOP/s and rising, 4096 rows would take 0.14 s five times, 8192 rows 1.1 s."""
    device = Device(lambda rows: 1e12 * (1 + rows / 1e4))
    measured(device, "fp32")
    assert device.made[-1] == 4096
    slow = Device(lambda rows: 1e6)
    assert measured(slow, "fp32")[0]["size"] == 256
    assert slow.made == [256]


def test_sizes_end_when_the_memory_of_the_device_does(measured: Measured) -> None:
    device = Device(lambda rows: 1e12 * rows, fits=1024)
    product = measured(device, "fp32")[0]
    assert product["size"] == 1024
    assert product["problem"] == ""


def test_the_host_is_not_filled(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(lambda rows: 1e12 * rows)
    limits_of = limits._most_bytes
    monkeypatch.setattr(limits, "_most_bytes", lambda name: limits_of(name) / 64)
    product, copy, *_ = measured(device, "fp32")
    assert 3 * 4 * max(device.made) ** 2 <= 2**26
    # Less than the size to begin with.
    assert 2 * copy["size"] <= 2**26
    assert product["value"]


def test_memory_that_is_never_there_is_a_problem(measured: Measured) -> None:
    product, copy, *_ = measured(Device(fits=100), "fp32")
    assert product["value"] is None
    assert product["problem"] == "RuntimeError: CUDA out of memory. Tried to allocate 3 GiB"
    assert copy["value"]


def test_what_fails_costs_its_own_figure(measured: Measured) -> None:
    events = measured(Device(), "tf32", "fp16", "bf16", "fp64")
    told = {event["precision"]: event for event in events if event["name"] == "product"}
    assert told["tf32"]["problem"] == "TF32 is a precision of GPUs"
    assert told["fp16"]["problem"] == "no such unit"
    assert told["bf16"]["problem"] == "RuntimeError: it broke"
    assert all(told[p]["value"] is None for p in ("tf32", "fp16", "bf16"))
    assert told["fp64"]["value"] == pytest.approx(1e9, rel=1e-3)


def test_a_gpu_older_than_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    old = {"name": "V100", "compute_capability": "7.0"}
    monkeypatch.setattr(limits.device, "cuda_device", lambda name: old)
    with pytest.raises(UnsupportedError, match="older than TF32"):
        limits._need_tf32("cuda:0")
    monkeypatch.setattr(
        limits.device, "cuda_device", lambda name: {**old, "compute_capability": "9.0"}
    )
    limits._need_tf32("cuda:0")


def test_a_trial_of_limits_measures_nothing_else(job_data: dict[str, Any]) -> None:
    file = io.StringIO()
    trial.run(Job.from_json({**job_data, "limits": ["fp32", "bf16"]}), Events(file))
    events = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [event["event"] for event in events] == [
        *("started", "built"),
        *("limit",) * 5,
        *("machine", "fingerprint", "finished"),
    ]
    assert [event.get("problem") for event in events[2:4]] == ["", "it counts in fp32 only"]


def spied(monkeypatch: pytest.MonkeyPatch, name: str) -> list[tuple[Any, ...]]:
    """The arrays of each call of a function of NumPy's, which still does its work."""
    calls: list[tuple[Any, ...]] = []
    real = getattr(np, name)

    def spy(*arrays: Any, **options: Any) -> Any:
        calls.append((*arrays, *options.values()))
        return real(*arrays, **options)

    monkeypatch.setattr(np, name, spy)
    return calls


@pytest.fixture
def of_numpy(job_data: dict[str, Any]) -> limits.Limits:
    job = Job.from_json({**job_data, "threads": 3})
    return limits.limits_class("numpy")(Nobody(), job)  # type: ignore[arg-type]


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", "float32"), ("fp64", "float64")])
def test_numpy_multiplies(
    of_numpy: limits.Limits, monkeypatch: pytest.MonkeyPatch, precision: str, dtype: str
) -> None:
    calls = spied(monkeypatch, "matmul")
    of_numpy.product(precision, 40)()
    ((left, right, result),) = calls
    assert left.shape == right.shape == (40, 40)
    assert left.dtype == right.dtype == result.dtype == dtype
    assert result == pytest.approx(np.dot(left, right), rel=1e-4, abs=1e-4)


def test_numpy_copies_on_every_thread(
    of_numpy: limits.Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = spied(monkeypatch, "copyto")
    of_numpy.copy(4000)()
    assert len(calls) == 3
    assert sum(target.nbytes for target, _ in calls) == 4000
    assert all((target == source).all() and source.any() for target, source in calls)
