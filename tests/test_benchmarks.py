"""The scripts of benchmarks/: which cells they take, and how they sort what they found."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netdyno.errors import NetdynoError

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
ON_GPU = ["--device", "cuda:0"]
Chosen = Callable[..., list[str]]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.fixture
def chosen(script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Chosen:
    """What overhead.py takes, on a host with one GPU: ``FRAMEWORK/MODE/LAYOUT``."""
    monkeypatch.setattr("netdyno.plan.matrix.gpus", lambda: ["one"])
    overhead = script("overhead")

    def of(*words: str) -> list[str]:
        cells = overhead.cells_with_loops(overhead.read_options(list(words)))
        return [f"{cell.framework}/{cell.mode}/{cell.layout}" for cell in cells]

    return of


def test_without_a_name_all_that_have_a_loop_are_taken(chosen: Chosen) -> None:
    assert {name.partition("/")[0] for name in chosen()} == {
        "jax",
        "mxnet",
        "pytorch",
        "tensorflow",
    }
    for words in (ON_GPU, ["--network", "vgg_a"], ["--precision", "bf16"]):
        assert {name.partition("/")[0] for name in chosen(*words)} == {"jax", "pytorch"}


def test_a_framework_or_one_of_its_modes_is_named(chosen: Chosen) -> None:
    assert chosen("pytorch/compile") == ["pytorch/compile/nchw"]
    assert chosen("pytorch", "jax/jit") == [
        "pytorch/eager/nchw",
        "pytorch/compile/nchw",
        "jax/jit/nhwc",
    ]
    assert "pytorch/graphs/nchw" in chosen(*ON_GPU, "--precision", "tf32", "pytorch")


def test_the_layout_is_that_of_pytorch(chosen: Chosen) -> None:
    both = ("pytorch/eager", "jax/jit")
    assert chosen("--layout", "nhwc", *both) == ["pytorch/eager/nhwc", "jax/jit/nhwc"]
    assert chosen("--layout", "nchw", *both) == ["pytorch/eager/nchw", "jax/jit/nhwc"]


@pytest.mark.parametrize("axis", [ON_GPU, ["--network", "vgg_a"], ["--precision", "bf16"]])
def test_what_has_no_loop_is_refused(chosen: Chosen, axis: list[str]) -> None:
    with pytest.raises(NetdynoError, match="mxnet's loop by hand is for alexnet_owt on the CPU"):
        chosen(*axis, "jax/jit", "mxnet/symbol")


def test_a_mode_that_does_not_exist_is_told(chosen: Chosen) -> None:
    with pytest.raises(NetdynoError, match="did you mean pytorch/eager"):
        chosen("pytorch/eagre")
    with pytest.raises(NetdynoError, match="'pytorch/graphs'"):
        chosen("pytorch/graphs")  # which needs a GPU


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc", "product, forward"),
        (
            "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816dgrad_optimized_bf16>",
            "product, gradient of input",
        ),
        (
            "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc",
            "product, gradient of weights",
        ),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT", "product"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float>", "product"),
        ("void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, float>", "layout"),
        ("triton_poi_fused__to_copy_3", "cast or copy"),
        ("triton_poi_fused__to_copy_convolution_relu_2", "elementwise, fused"),
        ("triton_red_fused_convolution_backward_threshold_backward_7", "reduction"),
        ("triton_poi_fused_max_pool2d_with_indices_5", "pooling"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor>",
            "elementwise",
        ),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", "reduction"),
        ("void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda>", "cast or copy"),
        ("Memcpy DtoD (Device -> Device)", "cast or copy"),
        ("Memset (Device)", "memset"),
        ("something new", "other"),
    ],
)
def test_a_kernel_is_known_by_its_name(
    script: Callable[[str], Any], kernel: str, name: str
) -> None:
    assert script("where_time_goes").class_of(kernel) == name


def event(name: str, start: float, duration: float, kind: str = "kernel") -> dict[str, Any]:
    return {"name": name, "ts": start, "dur": duration, "cat": kind, "tid": 1}


def test_busy_is_when_anything_ran(script: Callable[[str], Any]) -> None:
    spent = script("where_time_goes_trace").spent
    kernels = [event("a", 10, 4), event("b", 12, 4), event("c", 12.5, 1), event("d", 18, 2)]
    assert spent(kernels) == {
        "kernels": [["a", 4e-6], ["b", 4e-6], ["c", 1e-6], ["d", 2e-6]],
        "busy": pytest.approx(8e-6),
        "span": pytest.approx(10e-6),
    }


def test_an_operator_is_told_without_those_that_it_calls(script: Callable[[str], Any]) -> None:
    spent = script("where_time_goes_trace").spent
    times = [("a", 0, 10), ("b", 0, 6), ("c", 1, 2), ("d", 7, 1), ("e", 10, 3)]
    found = dict(spent([event(*time, "cpu_op") for time in times])["kernels"])
    wanted = {"a": 3e-6, "b": 4e-6, "c": 2e-6, "d": 1e-6, "e": 3e-6}
    assert found == pytest.approx(wanted)


def test_the_breakdown_of_an_iteration(script: Callable[[str], Any]) -> None:
    told = {
        "seconds": 0.01,
        "iterations": 2,
        "span": 0.022,
        "busy": 0.020,
        "kernels": [["x_fprop", 0.006], ["nvjet", 0.002], ["pool", 0.004]] * 2,
    }
    found = script("where_time_goes").breakdown(told, flop=8 * 10**9, peak=4e12)
    assert [part["class"] for part in found["classes"]] == [
        "product, forward",
        "pooling",
        "product",
    ]
    assert found["classes"][1] == {
        "class": "pooling",
        "seconds": pytest.approx(0.004),
        "share": pytest.approx(0.004 / 0.011),
        "launches": 1,
        "longest": {"pool": pytest.approx(0.004)},
    }
    assert found["flop_per_second"] == pytest.approx({"iteration": 8e11, "products": 1e12})
    assert found["share_of_peak"] == pytest.approx({"iteration": 0.2, "products": 0.25})
    assert found["gaps"] == pytest.approx({"seconds": 0.001, "share": 1 / 11})
