"""Inside the worker: the order of things, and how errors become events."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netdyno.networks import Network
from netdyno.plan.sampling import Sampling as Asked
from netdyno_worker import compute, device, libraries, trial, weights
from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.null import adapter as null
from netdyno_worker.protocol import Events, Job


@pytest.fixture
def job(job_data: dict[str, Any], quick: Asked) -> Job:
    return Job.from_json({**job_data, "sampling": vars(quick)})


def ran(job: Job) -> list[dict[str, Any]]:
    file = io.StringIO()
    trial.run(job, Events(file))
    return [json.loads(line) for line in file.getvalue().splitlines()]


class Watched(null.Adapter):
    """Remembers what is called, and how far training went from its start."""

    calls: list[str]
    last: Watched

    @classmethod
    def prepare(cls, job: Job) -> None:
        cls.calls = ["prepare"]

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        Watched.last = self
        self.calls.append("init")
        self.steps = 0
        self.furthest = 0

    def load(self, parameters: dict[str, Any]) -> None:
        super().load(parameters)
        self.calls.append("load")
        self.steps = 0

    def set_batch(self, images: Any, labels: Any) -> None:
        super().set_batch(images, labels)
        self.calls.append("set_batch")

    def forward(self) -> None:
        self.calls.append("forward")
        super().forward()

    def forward_backward(self) -> None:
        self.calls.append("forward_backward")
        super().forward_backward()

    def train_step(self) -> None:
        self.calls.append("train_step")
        self.steps += 1
        self.furthest = max(self.furthest, self.steps)
        super().train_step()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    monkeypatch.setattr(trial, "adapter_class", lambda name: Watched)
    return Watched


@pytest.mark.usefixtures("watched")
def test_the_order_of_calls(job: Job) -> None:
    ran(job)
    calls = Watched.calls
    assert calls[:4] == ["prepare", "init", "load", "set_batch"]
    work = [call for call in calls if call in ("forward", "forward_backward", "train_step")]
    assert list(dict.fromkeys(work)) == ["forward_backward", "forward", "train_step"]
    assert work == sorted(work, key=["forward_backward", "forward", "train_step"].index)


@pytest.mark.usefixtures("watched")
def test_training_starts_anew_before_it_can_diverge(job: Job) -> None:
    """weights.py: any network of the zoo stays finite for six steps at least."""
    many = job.sampling._replace(min_samples=20, max_samples=20)
    ran(job._replace(sampling=many))
    assert Watched.calls.count("load") > 5
    assert 1 < Watched.last.furthest <= 6


@pytest.mark.usefixtures("watched")
def test_no_measured_train_step_is_the_first_after_a_reload(job: Job) -> None:
    """That one allocates what the optimizer keeps."""
    seen = ran(job._replace(sampling=job.sampling._replace(min_samples=9, max_samples=9)))
    measured = sum(
        event["iterations"]
        for event in seen
        if event["event"] == "block" and event["phase"] == "train_step"
    )
    reloads = Watched.calls.count("load") - 1
    assert Watched.calls.count("train_step") == measured + reloads


def test_events_in_their_order(job: Job) -> None:
    seen = ran(job)
    kinds = [event["event"] for event in seen]
    assert kinds[:2] == ["started", "built"]
    assert kinds[-3:] == ["fingerprint", "loss", "finished"]
    assert set(kinds[2:-3]) == {"block", "machine"}
    for phase in job.phases:
        *blocks, machine = [event for event in seen if event.get("phase") == phase]
        assert machine["event"] == "machine"
        assert machine["cores"] >= 1
        assert [block["index"] for block in blocks] == list(range(len(blocks)))
        assert blocks[0]["kind"] == "first"


def test_what_the_machine_did_is_told_with_each_block(job: Job) -> None:
    """In stretches without gaps: together they are at least as long as the phase."""
    told = {"own_busy_seconds", "machine_busy_seconds", "steal_seconds", "swapped_pages"}
    seen = [event for event in ran(job) if event["event"] == "block"]
    for phase in job.phases:
        blocks = [event for event in seen if event["phase"] == phase]
        assert all(told | {"throttles"} <= set(block) for block in blocks)
        starts = [block["start"] for block in blocks]
        assert starts == sorted(starts)
        elapsed = starts[-1] + blocks[-1]["seconds"] - starts[0]
        stretches = sum(block["stretch_seconds"] for block in blocks)
        assert stretches >= elapsed - 1e-6 * len(blocks)


def test_a_loss_that_is_no_number_is_told_without_breaking_json(job: Job) -> None:
    seen = ran(job._replace(mode="diverge"))
    assert seen[-2] == {"event": "loss", "value": None}
    assert (seen[-1]["event"], seen[-1]["status"]) == ("failed", "diverged")


def test_fingerprint(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MXNET_HOME", "/home/somebody/models")
    monkeypatch.setenv("LD_PRELOAD", "/opt/lib/libjemalloc.so")
    monkeypatch.setenv("UNRELATED", "value")
    told = trial.fingerprint(null.Adapter(job))
    environment = told["environment"]
    assert isinstance(environment, dict)
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["MXNET_HOME"] == environment["LD_PRELOAD"] == "<path>"
    assert "UNRELATED" not in environment
    assert told["versions"] == {"null": "1"}
    assert os.path.sep not in json.dumps(told)


class Setter(null.Adapter):
    """Sets variables as adapters do, and says that TF32 is on."""

    @classmethod
    def prepare(cls, job: Job) -> None:
        os.environ["NPROC"] = "1"
        os.environ.setdefault("MXNET_OPTIMIZER_AGGREGATION_SIZE", "1")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

    def tf32(self) -> bool:
        return True


def told_by(
    adapter: type[null.Adapter], job: Job, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    monkeypatch.setattr(trial, "adapter_class", lambda name: adapter)
    return next(event for event in ran(job) if event["event"] == "fingerprint")


def test_what_was_set_inside_is_told_from_what_was_given(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPROC", "8")
    monkeypatch.setenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", "4")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    told = told_by(Setter, job, monkeypatch)
    assert told["set_inside"] == ["NPROC", "TF_CPP_MIN_LOG_LEVEL"]
    assert told["environment"]["NPROC"] == "1"
    assert told["environment"]["MXNET_OPTIMIZER_AGGREGATION_SIZE"] == "4"


def test_what_a_verdict_needs_is_in_the_fingerprint(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = told_by(null.Adapter, job, monkeypatch)
    assert told["openmp"] == libraries.openmp_runtimes()
    assert told["allocators"] == []
    assert told["gpu"] is None
    assert told["tf32"] is False


@pytest.mark.parametrize(
    ("capability", "in_force"), [("9.0", True), ("8.0", True), ("7.5", False), (None, True)]
)
def test_a_gpu_without_tf32_has_none_whatever_is_allowed(
    job: Job, monkeypatch: pytest.MonkeyPatch, capability: str | None, in_force: bool
) -> None:
    gpu = {"name": "GPU", "compute_capability": capability} if capability else None
    monkeypatch.setattr(device, "cuda_device", lambda name: gpu)
    told = trial.fingerprint(Setter(job), "cuda:0")
    assert told["gpu"] == gpu
    assert told["tf32"] is in_force


def test_where_a_child_does_the_work_its_libraries_count(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(libraries, "openmp_runtimes", lambda number: asked.append(number) or [])
    monkeypatch.setattr(libraries, "allocators", lambda number: asked.append(number) or [])
    adapter = null.Adapter(job)
    adapter.process_id = 4711
    trial.fingerprint(adapter)
    assert asked == [4711, 4711]


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_what_changes_the_allocator_is_in_the_fingerprint(
    job: Job, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "glibc.malloc.arena_max=1")
    environment = trial.fingerprint(null.Adapter(job))["environment"]
    assert isinstance(environment, dict)
    assert name in environment


@pytest.fixture
def main(
    tmp_path: Path, job_data: dict[str, Any], quick: Asked, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, list[dict[str, Any]]]]:
    """``main(mode=…)``: the exit code and the events of a job file."""
    monkeypatch.setattr(trial, "_die_with_parent", lambda: None)

    def call(**fields: Any) -> tuple[int, list[dict[str, Any]]]:
        job_path, events = tmp_path / "job.json", tmp_path / "events.jsonl"
        events.write_text('{"event":"trial"}\n')
        job_path.write_text(json.dumps({**job_data, "sampling": vars(quick), **fields}))
        code = trial.main(str(job_path), str(events))
        return code, [json.loads(line) for line in events.read_text().splitlines()]

    return call


def test_main_appends(main: Callable[..., Any]) -> None:
    code, seen = main()
    assert code == 0
    assert seen[0] == {"event": "trial"}
    assert seen[-1] == {"event": "finished"}


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (UnsupportedError("no LRN"), "skipped", "UnsupportedError: no LRN"),
        (RuntimeError("bad\nmore"), "failed", "RuntimeError: bad"),
        (ValueError(), "failed", "ValueError"),
        (SystemExit(3), "failed", "SystemExit: 3"),
        (KeyboardInterrupt(), "failed", "KeyboardInterrupt"),
        (MemoryError(), "out_of_memory", "MemoryError"),
        (RuntimeError("CUDA out of memory. Tried"), "out_of_memory", "RuntimeError: CUDA out of m"),
        (RuntimeError("RESOURCE_EXHAUSTED: OOM"), "out_of_memory", "RuntimeError: RESOURCE_EXH"),
        (RuntimeError("DefaultCPUAllocator: not enough memory"), "out_of_memory", "RuntimeError"),
        (RuntimeError("std::bad_alloc"), "out_of_memory", "RuntimeError: std::bad_alloc"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out_of_memory", "Runtime"),
        (
            RuntimeError("Graph execution error:\n\nStatus: 1, could not create a memory object"),
            "out_of_memory",
            "RuntimeError: Graph execution error",
        ),
        (
            RuntimeError("Traceback (most recent call last):\n  0: x\nmsg"),
            "failed",
            "RuntimeError: msg",
        ),
    ],
)
def test_errors_become_events(
    main: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: str,
    reason: str,
) -> None:
    def fail(self: object) -> None:
        raise error

    monkeypatch.setattr(null.Adapter, "forward", fail)
    code, seen = main()
    assert code == 1
    assert any(event["event"] == "block" for event in seen)
    assert (seen[-1]["event"], seen[-1]["status"]) == ("failed", status)
    assert seen[-1]["reason"].startswith(reason)
    assert "Traceback" in capsys.readouterr().err


def test_a_framework_that_does_not_exist(main: Callable[..., Any]) -> None:
    code, seen = main(framework="caffe")
    assert code == 1
    assert (seen[-1]["status"], "caffe" in seen[-1]["reason"]) == ("failed", True)


def test_a_job_of_another_schema_ends_the_worker(main: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="job of schema 99, this worker speaks 1"):
        main(schema=99)


def test_results_instead_of_times(
    main: Callable[..., Any], tmp_path: Path, tiny_network: Network
) -> None:
    path = tmp_path / "results"
    check = {
        "name": "tiny",
        "network": tiny_network.to_json(),
        "batch_size": 2,
        "image_scale": 0.02,
        "train_steps": 3,
        "results": str(path),
    }
    code, seen = main(framework="numpy", mode="plain", precision="fp64", checks=[check])
    assert code == 0
    assert [event["event"] for event in seen[1:]] == ["started", "check", "finished"]
    found = compute.read(str(path))
    assert found["logits"].shape == (2, 4)
    assert len(found["losses"]) == 3
    assert found["losses"][0] == pytest.approx(float(found["loss"]), abs=1e-12)
    assert np.isfinite(found["losses"]).all()
    names = {name.partition("/")[2] for name in found if name.startswith("gradient/")}
    assert names == tiny_network.parameter_shapes.keys()
    assert {f"{kind}/{name}" for kind in ("gradient", "update") for name in names} <= found.keys()


def test_arrays_come_back_as_they_were_saved(tmp_path: Path) -> None:
    arrays = {
        "loss": np.float64(1.5),
        "gradient/conv1/3x3.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "losses": np.zeros(0),
    }
    folder = compute.Folder(str(tmp_path / "x"))
    for name, value in arrays.items():
        folder.put(name, value)
    folder.close()
    found = compute.read(str(tmp_path / "x"))
    assert found.keys() == arrays.keys()
    for name, value in arrays.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == value.dtype


def test_the_first_loss_is_close_to_that_of_a_guess(
    make_job: Callable[..., Job], tiny_network: Any
) -> None:
    job = make_job(tiny_network, batch_size=16)
    adapter = trial.adapter_class("numpy")(job)
    adapter.load(weights.Parameters(job.network, 1))
    adapter.set_batch(*weights.batch(job.network, 16, 1))
    adapter.forward()
    assert adapter.loss() == pytest.approx(np.log(4), rel=0.1)
