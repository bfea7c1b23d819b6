"""Pairs of fingerprints with the verdict, and every difference that must be named."""

from __future__ import annotations

import copy
from typing import Any

from netdyno.comparability import Fingerprint, Kind
from tests.comparability.fingerprints import ABSENT, HOST, on_cpu, on_gpu

NOTED: Kind = "like-for-like"
SHIPPED: Kind = "as-shipped"
INVALID: Kind = "invalid"

MXNET_NOTE = "MXNet keeps the biased variance as batch norm's running variance"
OTHER_HOST = {**HOST, "id": "90be2217d5aa", "cpu": {**HOST["cpu"], "model": "Intel Xeon 8488C"}}
OLD = [
    ("trial.openmp", ABSENT),
    ("trial.allocators", ABSENT),
    ("trial.tf32", ABSENT),
    ("trial.set_inside", ABSENT),
    ("trial.gpu", ABSENT),
    ("timed.phases", None),
]


def again(*changes: tuple[str, Any]) -> Fingerprint:
    """PyTorch on the CPU in another run on the same host."""
    return on_cpu("pytorch", ("host", copy.deepcopy(HOST)), *changes)


def elsewhere(**facts: Any) -> Fingerprint:
    """The same with other facts of the host."""
    return on_cpu("pytorch", ("host", {**HOST, **facts}))


def no_id(found: dict[str, Any] | None = None) -> tuple[str, Any]:
    return ("host", {**copy.deepcopy(HOST), "id": None, **(found or {})})


def variable(name: str, value: Any, on: str = "pytorch") -> Fingerprint:
    return on_cpu(on, (f"trial.environment.{name}", value))


def cpu_of(**facts: Any) -> dict[str, Any]:
    return {**HOST["cpu"], **facts}


PYTORCH, MXNET, JAX, TENSORFLOW = (on_cpu(n) for n in ("pytorch", "mxnet", "jax", "tensorflow"))
PYTORCH_GPU, JAX_GPU = on_gpu("pytorch"), on_gpu("jax")

# name: (a, b, kind, every difference by what it is and what it alone makes of the comparison)
PAIRS: dict[str, tuple[Fingerprint, Fingerprint, Kind, dict[str, Kind]]] = {
    # What matters to nobody.
    "the same in another run": (PYTORCH, again(), NOTED, {}),
    "another mode of one framework": (
        PYTORCH,
        on_cpu("pytorch", ("cell.mode", "compile")),
        NOTED,
        {},
    ),
    "two names of one network": (
        PYTORCH,
        on_cpu("pytorch", ("cell.network", "mine")),
        NOTED,
        {},
    ),
    "a framework's own version": (
        PYTORCH,
        on_cpu("pytorch", ("trial.versions.pytorch", "2.12.0+cpu")),
        NOTED,
        {"PyTorch": NOTED},
    ),
    "jaxlib, and the XLA that it carries": (
        JAX,
        on_cpu("jax", ("trial.versions.jaxlib", "0.11"), ("trial.versions.xla", "in jaxlib 0.11")),
        NOTED,
        {"jaxlib": NOTED, "XLA": NOTED},
    ),
    "another Python": (PYTORCH, again(("trial.python", "3.12.1")), NOTED, {"Python": NOTED}),
    "another release of the system, same kernel": (
        PYTORCH,
        elsewhere(os="Debian GNU/Linux 13 (trixie)"),
        NOTED,
        {"operating system": NOTED},
    ),
    "another C library where its malloc is told what to do": (
        on_cpu("pytorch", ("cell.host_allocator", "retain")),
        on_cpu("pytorch", ("cell.host_allocator", "retain"), ("trial.libc", "glibc-2.41")),
        NOTED,
        {"C library": NOTED},
    ),
    "a variable that netdyno sets to the thread count": (
        PYTORCH,
        variable("MKL_NUM_THREADS", "1"),
        NOTED,
        {"MKL_NUM_THREADS": NOTED},
    ),
    "a variable that the adapter sets": (
        JAX,
        variable("JAX_ENABLE_X64", "1", on="jax"),
        NOTED,
        {"JAX_ENABLE_X64": NOTED},
    ),
    "neither host has an id": (
        on_cpu("pytorch", no_id()),
        on_cpu("pytorch", no_id()),
        NOTED,
        {"host id": NOTED},
    ),
    "memory within what kernels keep for themselves": (
        PYTORCH,
        elsewhere(memory_bytes=int(HOST["memory_bytes"] * 0.99)),
        NOTED,
        {},
    ),
    "the other of two equal GPUs": (
        PYTORCH_GPU,
        on_gpu("pytorch", ("cell.device", "cuda:1")),
        NOTED,
        {"GPU number": NOTED},
    ),
    "TF32 in double precision, which has none": (
        on_gpu("pytorch", ("cell.precision", "fp64")),
        on_gpu("pytorch", ("cell.precision", "fp64"), ("trial.tf32", True)),
        NOTED,
        {},
    ),
    "an older schema of run.json": (
        PYTORCH,
        on_cpu("pytorch", ("timed.schema", 2)),
        NOTED,
        {"run.json schema": NOTED},
    ),
    "another compiler, where nothing is compiled": (
        PYTORCH,
        elsewhere(compiler="clang version 17"),
        NOTED,
        {},
    ),
    "another driver, on the CPU": (
        PYTORCH,
        elsewhere(gpus=[{**HOST["gpus"][0], "driver": "570.1"}]),
        NOTED,
        {},
    ),
    # Each framework brings its own libraries: as shipped.
    "MXNet and PyTorch": (
        MXNET,
        PYTORCH,
        SHIPPED,
        {
            "oneDNN": SHIPPED,
            "MKL": SHIPPED,
            "OpenBLAS": SHIPPED,
            "BLAS": SHIPPED,
            MXNET_NOTE: SHIPPED,
        },
    ),
    "JAX and PyTorch": (
        JAX,
        PYTORCH,
        SHIPPED,
        {
            "layout": SHIPPED,
            "XLA": SHIPPED,
            "oneDNN": SHIPPED,
            "MKL": SHIPPED,
            "BLAS": SHIPPED,
            "OpenMP runtime": SHIPPED,
        },
    ),
    "TensorFlow and JAX": (TENSORFLOW, JAX, SHIPPED, {"oneDNN": SHIPPED, "XLA": SHIPPED}),
    "TensorFlow and MXNet": (
        TENSORFLOW,
        MXNET,
        SHIPPED,
        {
            "layout": SHIPPED,
            "XLA": SHIPPED,
            "oneDNN": SHIPPED,
            "OpenBLAS": SHIPPED,
            "OpenMP runtime": SHIPPED,
            MXNET_NOTE: SHIPPED,
        },
    ),
    "Caffe and Torch7": (
        on_cpu("caffe"),
        on_cpu("torch7"),
        SHIPPED,
        {"OpenBLAS": SHIPPED, "OpenMP runtime": SHIPPED},
    ),
    "another oneDNN in one framework": (
        PYTORCH,
        on_cpu("pytorch", ("trial.versions.onednn", "3.7.1")),
        SHIPPED,
        {"oneDNN": SHIPPED},
    ),
    "the paper's pitfall: another CUDA and cuDNN": (
        PYTORCH_GPU,
        on_gpu(
            "jax", ("cell.layout", "nchw"), ("trial.versions", {"cuda": "12.9", "jax": "0.10.2"})
        ),
        SHIPPED,
        {
            "CUDA": SHIPPED,
            "cuDNN": SHIPPED,
            "cuBLAS": SHIPPED,
            "NCCL": SHIPPED,
            "oneDNN": NOTED,
            "MKL": NOTED,
            "BLAS": NOTED,
            "OpenMP runtime": NOTED,
        },
    ),
    "other threads of the CPU, where the work is on the GPU": (
        PYTORCH_GPU,
        on_gpu("pytorch", ("trial.threads.count", 1)),
        NOTED,
        {"threads in force": NOTED},
    ),
    "another cuDNN alone": (
        PYTORCH_GPU,
        on_gpu("pytorch", ("trial.versions.cudnn", "9.10.2")),
        SHIPPED,
        {"cuDNN": SHIPPED},
    ),
    "a library that one has not loaded": (
        PYTORCH_GPU,
        on_gpu("pytorch", ("trial.versions.nccl", ABSENT)),
        SHIPPED,
        {"NCCL": SHIPPED},
    ),
    "a library that nobody knows": (
        PYTORCH,
        on_cpu("pytorch", ("trial.versions.fancyblas", "1.0")),
        SHIPPED,
        {"fancyblas": SHIPPED},
    ),
    "another framework's package as a library": (
        JAX,
        on_cpu("jax", ("cell.framework", "keras"), ("trial.versions.jax", "0.9")),
        SHIPPED,
        {"JAX": SHIPPED},
    ),
    "another OpenMP runtime": (
        PYTORCH,
        on_cpu("pytorch", ("trial.openmp", ["libiomp5"])),
        SHIPPED,
        {"OpenMP runtime": SHIPPED},
    ),
    "another layout": (
        PYTORCH,
        on_cpu("pytorch", ("cell.layout", "nhwc")),
        SHIPPED,
        {"layout": SHIPPED},
    ),
    "done otherwise": (
        PYTORCH,
        on_cpu("pytorch", ("trial.notes", ["no LRN"])),
        SHIPPED,
        {"no LRN": SHIPPED},
    ),
    "another C library with its own malloc": (
        PYTORCH,
        again(("trial.libc", "glibc-2.41")),
        SHIPPED,
        {"C library": SHIPPED},
    ),
    "a framework that was tuned": (
        TENSORFLOW,
        variable("TF_ENABLE_ONEDNN_OPTS", "0", on="tensorflow"),
        SHIPPED,
        {"TF_ENABLE_ONEDNN_OPTS": SHIPPED},
    ),
    "tuned over the head of the adapter": (
        MXNET,
        on_cpu(
            "mxnet",
            ("trial.environment.MXNET_CUDNN_AUTOTUNE_DEFAULT", "0"),
            ("trial.set_inside", ["MXNET_OMP_MAX_THREADS"]),
        ),
        SHIPPED,
        {"MXNET_CUDNN_AUTOTUNE_DEFAULT": SHIPPED},
    ),
    "threads pinned to cores": (
        PYTORCH,
        variable("OMP_PROC_BIND", "true"),
        SHIPPED,
        {"OMP_PROC_BIND": SHIPPED},
    ),
    "another kernel": (
        PYTORCH,
        elsewhere(kernel="Linux 6.12.9-amd64"),
        SHIPPED,
        {"kernel": SHIPPED},
    ),
    "another GPU driver": (
        PYTORCH_GPU,
        on_gpu("pytorch", ("host", {**HOST, "gpus": [{**HOST["gpus"][0], "driver": "570.1"}]})),
        SHIPPED,
        {"GPU driver": SHIPPED},
    ),
    "another compiler under a mode that compiles": (
        on_cpu("pytorch", ("cell.mode", "compile")),
        on_cpu(
            "pytorch", ("cell.mode", "compile"), ("host", {**HOST, "compiler": "clang version 17"})
        ),
        SHIPPED,
        {"C++ compiler": SHIPPED},
    ),
    "another release of netdyno": (
        PYTORCH,
        on_cpu("pytorch", ("timed.netdyno", "0.2.0")),
        SHIPPED,
        {"netdyno": SHIPPED},
    ),
    # What one side does not tell is never taken for equal.
    "threads in force that one cannot tell": (
        PYTORCH,
        on_cpu("pytorch", ("trial.threads.count", None)),
        SHIPPED,
        {"threads in force": SHIPPED},
    ),
    "TF32 that one cannot tell": (
        PYTORCH_GPU,
        on_gpu("pytorch", ("trial.tf32", None)),
        SHIPPED,
        {"TF32": SHIPPED},
    ),
    "one host without an id": (
        PYTORCH,
        on_cpu("pytorch", no_id()),
        SHIPPED,
        {"host id": SHIPPED},
    ),
    "a run folder of before": (
        PYTORCH,
        on_cpu("pytorch", *OLD),
        SHIPPED,
        {"OpenMP runtime": SHIPPED, "malloc in force": SHIPPED, "timed regions": SHIPPED},
    ),
    "nothing recorded of variables, notes and versions": (
        PYTORCH,
        on_cpu(
            "pytorch",
            ("trial.environment", ABSENT),
            ("trial.notes", ABSENT),
            ("trial.versions", ABSENT),
        ),
        SHIPPED,
        {"environment variables": SHIPPED, "notes": SHIPPED, "kernel libraries": SHIPPED},
    ),
    "a governor that one does not tell": (
        PYTORCH,
        elsewhere(cpu=cpu_of(governor=None)),
        SHIPPED,
        {"CPU governor": SHIPPED},
    ),
    "not known whether one was verified": (
        PYTORCH,
        on_cpu("pytorch", ("timed.verified", None)),
        SHIPPED,
        {"verified": SHIPPED},
    ),
    # Never to be ranked together.
    "another network": (
        PYTORCH,
        on_cpu("pytorch", ("cell.network_hash", "0011aa"), ("cell.network", "alexnet_owt:lrn=on")),
        INVALID,
        {"network": INVALID},
    ),
    "another batch size": (
        PYTORCH,
        on_cpu("pytorch", ("cell.batch_size", 64)),
        INVALID,
        {"batch size": INVALID},
    ),
    "another precision": (
        PYTORCH,
        on_cpu("pytorch", ("cell.precision", "fp64")),
        INVALID,
        {"precision": INVALID},
    ),
    "TF32 on one side": (
        PYTORCH_GPU,
        on_gpu("pytorch", ("trial.tf32", True)),
        INVALID,
        {"TF32": INVALID},
    ),
    "TF32 on both, forbidden to NVIDIA's libraries on one": (
        on_gpu("pytorch", ("trial.tf32", True)),
        on_gpu("pytorch", ("trial.tf32", True), ("trial.environment.NVIDIA_TF32_OVERRIDE", "0")),
        INVALID,
        {"TF32": INVALID},
    ),
    "fewer bits in oneDNN": (
        PYTORCH,
        variable("ONEDNN_DEFAULT_FPMATH_MODE", "BF16"),
        INVALID,
        {"ONEDNN_DEFAULT_FPMATH_MODE": INVALID},
    ),
    "CPU and GPU": (
        PYTORCH,
        PYTORCH_GPU,
        INVALID,
        {
            "device": INVALID,
            "PyTorch": NOTED,
            "CUDA": SHIPPED,
            "cuDNN": SHIPPED,
            "cuBLAS": SHIPPED,
            "NCCL": SHIPPED,
        },
    ),
    "another GPU": (
        PYTORCH_GPU,
        on_gpu("pytorch", ("trial.gpu", {"name": "NVIDIA A10", "compute_capability": "8.6"})),
        INVALID,
        {"GPU": INVALID},
    ),
    "another GPU by the host's list": (
        on_gpu("pytorch", ("trial.gpu", None)),
        on_gpu("pytorch", ("trial.gpu", None), ("host", {**HOST, "gpus": [{"name": "Tesla T4"}]})),
        INVALID,
        {"GPU": INVALID, "GPU driver": SHIPPED},
    ),
    "another host": (
        PYTORCH,
        on_cpu("pytorch", ("host", OTHER_HOST)),
        INVALID,
        {"host": INVALID},
    ),
    "the same host with another processor": (
        PYTORCH,
        elsewhere(cpu=cpu_of(model="AMD EPYC 9654")),
        INVALID,
        {"CPU": INVALID},
    ),
    "the same host with fewer cores": (
        PYTORCH,
        elsewhere(cpu=cpu_of(usable_cores=1)),
        INVALID,
        {"cores that may be used": INVALID},
    ),
    "the same host under a quota": (
        PYTORCH,
        elsewhere(cpu=cpu_of(quota_cores=1.5)),
        INVALID,
        {"CPU quota in cores": INVALID},
    ),
    "the same host with more memory": (
        PYTORCH,
        elsewhere(memory_bytes=16_640_000_000),
        INVALID,
        {"memory": INVALID},
    ),
    "hosts without ids that differ": (
        on_cpu("pytorch", no_id()),
        on_cpu("pytorch", no_id({"cpu": cpu_of(model="Intel Xeon 8488C")})),
        INVALID,
        {"host id": NOTED, "CPU": INVALID},
    ),
    "another governor": (
        PYTORCH,
        elsewhere(cpu=cpu_of(governor="powersave")),
        INVALID,
        {"CPU governor": INVALID},
    ),
    "other threads asked for": (
        PYTORCH,
        on_cpu("pytorch", ("cell.threads", 1), ("trial.threads.count", 1)),
        INVALID,
        {"threads asked for": INVALID, "threads in force": INVALID},
    ),
    "other threads in force": (
        MXNET,
        on_cpu("mxnet", ("trial.threads.count", 1)),
        INVALID,
        {"threads in force": INVALID},
    ),
    "another host allocator": (
        PYTORCH,
        on_cpu(
            "pytorch",
            ("cell.host_allocator", "retain"),
            ("trial.environment.MALLOC_ARENA_MAX", "1"),
        ),
        INVALID,
        {"host allocator": INVALID},
    ),
    "malloc replaced": (
        PYTORCH,
        on_cpu(
            "pytorch",
            ("trial.allocators", ["libjemalloc"]),
            ("trial.environment.LD_PRELOAD", "<path>"),
        ),
        INVALID,
        {"malloc in force": INVALID, "LD_PRELOAD": SHIPPED},
    ),
    "malloc tuned under one setting of the axis": (
        PYTORCH,
        variable("GLIBC_TUNABLES", "glibc.malloc.arena_max=1"),
        INVALID,
        {"GLIBC_TUNABLES": INVALID},
    ),
    "other hyperparameters": (
        PYTORCH,
        on_cpu("pytorch", ("timed.hyperparameters.momentum", 0.0)),
        INVALID,
        {"hyperparameters": INVALID},
    ),
    "another timed region": (
        PYTORCH,
        on_cpu("pytorch", ("timed.phases.forward", "forward pass without its loss")),
        INVALID,
        {"timed region of forward": INVALID},
    ),
    "a phase that one did not measure": (
        PYTORCH,
        on_cpu("pytorch", ("timed.phases.train_step", ABSENT)),
        INVALID,
        {"timed region of train_step": INVALID},
    ),
    "one not verified": (
        PYTORCH,
        on_cpu("pytorch", ("timed.verified", False)),
        INVALID,
        {"verified": INVALID},
    ),
    "one not measured": (
        PYTORCH,
        on_cpu("jax", ("trial", {})),
        INVALID,
        {"good trials": INVALID, "layout": SHIPPED},
    ),
    "the worst decides": (
        MXNET,
        on_cpu(
            "mxnet",
            ("cell.batch_size", 8),
            ("trial.versions.onednn", "3.0"),
            ("trial.python", "3.10"),
        ),
        INVALID,
        {"batch size": INVALID, "oneDNN": SHIPPED, "Python": NOTED},
    ),
}
