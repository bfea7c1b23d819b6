"""The Python side: what it writes, what it reads, and what it says when LuaJIT fails."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netdyno.networks import Network
from netdyno.networks.builder import Builder
from netdyno_worker import loop, weights
from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.torch7.adapter import PTHREAD_NOTE, Adapter
from netdyno_worker.frameworks.torch7.child import Torch7Error
from netdyno_worker.protocol import Job

MakeJob = Callable[..., Job]


@pytest.fixture
def job(
    make_job: MakeJob,
    tiny_network: Network,
    prefix: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Job:
    monkeypatch.setenv("NETDYNO_TORCH7", str(prefix))
    made = make_job(tiny_network, framework="torch7", mode="eager", precision="fp32", threads=2)
    return made._replace(scratch=str(tmp_path))


def test_arrays_go_there_and_back(job: Job) -> None:
    adapter = Adapter(job)
    parameters = weights.Parameters(job.network, 1)
    images, labels = weights.batch(job.network, job.batch_size, 1)
    adapter.load(parameters)
    adapter.set_batch(images, labels)
    back = adapter.parameters()
    assert list(back) == list(job.network.parameter_shapes())
    for name, value in back.items():
        np.testing.assert_array_equal(value, parameters[name])
    assert adapter.loss() == 0.69314718055994529
    assert adapter.threads() == {"count": 2, "source": "torch.getnumthreads()"}


def test_versions_and_notes(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = Adapter(job)
    versions = adapter.versions()
    assert versions["torch7"].startswith("scm ")
    assert versions["luajit"] == "LuaJIT 2.1.0-beta3"
    groups, pthread = adapter.notes()  # the tiny network has a convolution with groups
    assert "no groups" in groups
    assert pthread == PTHREAD_NOTE
    monkeypatch.setenv("FAKE_LUAJIT", "USE_OPENMP")
    assert PTHREAD_NOTE not in Adapter(job).notes()


def test_an_error_is_told_at_the_next_question(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_LUAJIT", "fail")
    adapter = Adapter(job)
    adapter.forward()
    adapter.forward_backward()
    with pytest.raises(Torch7Error, match=r"layer 'conv1': \$ Torch: not enough memory"):
        adapter.synchronize()


def test_a_crash_is_told_with_its_signal_and_last_words(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LUAJIT", "crash")
    adapter = Adapter(job)
    adapter.forward_backward()
    with pytest.raises(Torch7Error, match=r"signal 11 \(SIGSEGV\).*PANIC: what happened"):
        adapter.synchronize()
    with pytest.raises(Torch7Error, match="SIGSEGV"):
        adapter.forward()


def test_the_process_and_its_files_end_with_the_adapter(job: Job) -> None:
    adapter = Adapter(job)
    pid = adapter.process_id
    assert pid
    assert Path(f"/proc/{pid}").exists()
    del adapter
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()
    assert job.scratch
    assert not list(Path(job.scratch).glob("torch7-*"))


def test_a_block_tells_what_the_child_used(job: Job) -> None:
    adapter = Adapter(job)
    # Work here, none there.
    block = loop.time_block(
        "sample", lambda: sum(range(10**6)), adapter.synchronize, 5, adapter.process_id
    )
    assert block.usage["user_seconds"] <= 0.02


def refused(make_job: MakeJob, net: Builder, **axes: Any) -> str:
    net.flatten()
    net.dense("d", 3)
    net.loss()
    with pytest.raises(UnsupportedError) as caught:
        Adapter(make_job(net.network("one", options={}, source=""), **axes))
    return str(caught.value)


def test_what_nn_cannot_express_is_refused_by_name(make_job: MakeJob) -> None:
    net = Builder((4, 9, 9))
    net.lrn("even", size=4)
    assert "odd sizes" in refused(make_job, net)
    net = Builder((4, 9, 9))
    net.batch_norm()
    assert "batch size 1" in refused(make_job, net, batch_size=1)
    net = Builder((4, 9, 9))
    net.pool("wide", "max", 3, 2, padding=2)
    assert refused(make_job, net).endswith("(layer 'wide')")
    net = Builder((4, 8, 8))
    net.pool("apart", "max", 2, 4, ceil_mode=True)
    assert "start outside the image" in refused(make_job, net)


def test_one_class_is_refused(make_job: MakeJob) -> None:
    net = Builder((1, 2, 2))
    net.flatten()
    net.dense("d", 1)
    net.loss()
    with pytest.raises(UnsupportedError, match="two classes"):
        Adapter(make_job(net.network("one", options={}, source="")))


def test_lua_files_parse() -> None:
    """Where there is a LuaJIT, whatever it holds."""
    folder = Path(__file__).parents[4] / "src/netdyno_worker/frameworks/torch7"
    program = next((p for d in os.get_exec_path() if (p := Path(d) / "luajit").exists()), None)
    if program is None:
        pytest.skip("no luajit is on the path")
    for path in folder.glob("*.lua"):
        done = subprocess.run([program, "-bl", path, os.devnull], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
