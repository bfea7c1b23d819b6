"""Whether TF32 is in force, as each adapter asks its framework; the frameworks are stood in for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from netdyno_worker.adapter import Adapter, tf32_is_forbidden
from netdyno_worker.frameworks.caffe import adapter as caffe
from netdyno_worker.frameworks.jax import adapter as jax
from netdyno_worker.frameworks.mxnet import adapter as mxnet
from netdyno_worker.frameworks.pytorch import adapter as pytorch
from netdyno_worker.frameworks.tensorflow import adapter as tensorflow
from netdyno_worker.frameworks.tinygrad import adapter as tinygrad


def adapter(module: Any, **fields: Any) -> Adapter:
    """Of a framework that is not imported."""
    made = object.__new__(module.Adapter)
    vars(made).update(fields)
    assert isinstance(made, Adapter)
    return made


def of_pytorch(device: str, matmul: bool, cudnn: bool) -> Adapter:
    backends = SimpleNamespace(
        cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=matmul)),
        cudnn=SimpleNamespace(allow_tf32=cudnn),
    )
    return adapter(
        pytorch, device=SimpleNamespace(type=device), torch=SimpleNamespace(backends=backends)
    )


@pytest.mark.parametrize(
    ("device", "matmul", "cudnn", "in_force"),
    [
        ("cuda", False, False, False),
        ("cuda", True, False, True),
        ("cuda", False, True, True),
        ("cpu", True, True, False),
    ],
)
def test_pytorch(device: str, matmul: bool, cudnn: bool, in_force: bool) -> None:
    assert of_pytorch(device, matmul, cudnn).tf32() is in_force


@pytest.mark.parametrize(
    ("device", "enabled", "in_force"),
    [("cuda:0", True, True), ("cuda:0", False, False), ("cpu", True, False)],
)
def test_tensorflow(device: str, enabled: bool, in_force: bool) -> None:
    experimental = SimpleNamespace(tensor_float_32_execution_enabled=lambda: enabled)
    tf = SimpleNamespace(config=SimpleNamespace(experimental=experimental))
    made = adapter(tensorflow, tf=tf, job=SimpleNamespace(device=device))
    assert made.tf32() is in_force


@pytest.mark.parametrize(
    ("device", "precision", "in_force"),
    [
        ("cuda:0", "highest", False),
        ("cuda:0", "float32", False),
        ("cuda:0", None, True),
        ("cuda:0", "tensorfloat32", True),
        ("cuda:0", "high", True),
        ("cpu", None, False),
    ],
)
def test_jax(device: str, precision: str | None, in_force: bool) -> None:
    config = SimpleNamespace(jax_default_matmul_precision=precision)
    made = adapter(jax, jax=SimpleNamespace(config=config), job=SimpleNamespace(device=device))
    assert made.tf32() is in_force


@pytest.mark.parametrize(
    ("device", "allowed", "in_force"),
    [("cuda:0", 1, True), ("cuda:0", 0, False), ("cpu", 1, False)],
)
def test_tinygrad(device: str, allowed: int, in_force: bool) -> None:
    helpers = SimpleNamespace(ALLOW_TF32=SimpleNamespace(value=allowed))
    framework = SimpleNamespace(helpers=helpers)
    made = adapter(tinygrad, tinygrad=framework, job=SimpleNamespace(device=device))
    assert made.tf32() is in_force


@pytest.mark.parametrize("module", [mxnet, caffe])
@pytest.mark.parametrize(
    ("device", "variable", "in_force"),
    [
        ("cuda:0", "0", False),
        ("cuda:0", None, None),
        ("cuda:0", "1", None),
        ("cpu", None, False),
    ],
)
def test_frameworks_without_a_switch(
    module: Any,
    device: str,
    variable: str | None,
    in_force: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    if variable is not None:
        monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", variable)
    assert adapter(module, job=SimpleNamespace(device=device)).tf32() is in_force


@pytest.mark.parametrize("module", [mxnet, caffe])
@pytest.mark.parametrize(("device", "forbidden"), [("cuda:0", True), ("cpu", False)])
def test_single_precision_is_meant_on_gpus(
    module: Any, device: str, forbidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What prepare() sets beside it goes with the test, too.
    for name in (
        "NVIDIA_TF32_OVERRIDE",
        "GLOG_minloglevel",
        "MXNET_OMP_MAX_THREADS",
        "MXNET_OPTIMIZER_AGGREGATION_SIZE",
        "MXNET_CUDNN_AUTOTUNE_DEFAULT",
        "MXNET_CUDA_ALLOW_TENSOR_CORE",
    ):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)
    module.Adapter.prepare(SimpleNamespace(device=device, threads=1))
    assert tf32_is_forbidden() is forbidden
