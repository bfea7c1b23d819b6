"""Fingerprints as netdyno records them, of each framework on one host, and ways to change them."""

from __future__ import annotations

import copy
from typing import Any

from netdyno.comparability import Fingerprint
from netdyno.plan.job import TIMED

HOST: dict[str, Any] = {
    "id": "3fa9c1d07b42",
    "machine": "x86_64",
    "cpu": {
        "model": "AMD EPYC 9R14",
        "logical_cores": 4,
        "physical_cores": 2,
        "usable_cores": 2,
        "quota_cores": None,
        "simd": ["avx2", "fma", "avx512f"],
        "governor": "performance",
    },
    "memory_bytes": 8_320_000_000,
    "os": "Debian GNU/Linux 12 (bookworm)",
    "kernel": "Linux 6.1.0-28-amd64",
    "libc": "glibc 2.36",
    "compiler": "g++ (Debian 12.2.0-14) 12.2.0",
    "gpus": [
        {
            "name": "NVIDIA H200",
            "driver": "580.95.05",
            "memory_bytes": 150_754_820_096,
            "compute_capability": "9.0",
        }
    ]
    * 2,
}

TIMED_REGION: dict[str, Any] = {
    "schema": 1,
    "netdyno": "0.1.0",
    "hyperparameters": {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0001},
    "phases": TIMED,
    "verified": True,
}

THREADS = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
H200 = {"name": "NVIDIA H200", "compute_capability": "9.0"}

# By framework: mode, layout, and what differs in the worker's event.
CPU: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mxnet": (
        "symbol",
        "nchw",
        {
            "versions": {
                "mxnet": "1.9.1",
                "onednn": "2.4.4",
                "openblas": "OpenBLAS 0.3.9 DYNAMIC_ARCH NO_AFFINITY USE_OPENMP Zen MAX_THREADS=64",
            },
            "threads": {"count": 2, "source": "omp_get_max_threads()"},
            "openmp": ["libgomp"],
            "notes": ["MXNet keeps the biased variance as batch norm's running variance"],
            "inside": {
                "MXNET_OMP_MAX_THREADS": "2",
                "MXNET_OPTIMIZER_AGGREGATION_SIZE": "1",
                "MXNET_CUDNN_AUTOTUNE_DEFAULT": "1",
                "MXNET_CUDA_ALLOW_TENSOR_CORE": "0",
            },
        },
    ),
    "tensorflow": (
        "graph",
        "nhwc",
        {
            "versions": {
                "tensorflow": "2.21.0",
                "xla": "in tensorflow 2.21.0",
                "onednn": "3.7.3",
            },
            "threads": {"count": 2, "source": "tf.config.threading"},
            "openmp": [],
            "notes": [],
            "inside": {
                "TF2_BEHAVIOR": "1",
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "NPROC": "2",
                "NVIDIA_TF32_OVERRIDE": "0",
                "CUDA_VISIBLE_DEVICES": "-1",
            },
        },
    ),
    "pytorch": (
        "eager",
        "nchw",
        {
            "versions": {
                "pytorch": "2.13.0+cpu",
                "onednn": "3.12.0",
                "mkl": "2024.2-Product",
                "openmp": "201511",
                "blas": "mkl",
            },
            "threads": {"count": 2, "source": "torch.get_num_threads()"},
            "openmp": ["libgomp"],
            "notes": [],
            "inside": {"TORCHINDUCTOR_CACHE_DIR": "<path>"},
        },
    ),
    "jax": (
        "jit",
        "nhwc",
        {
            "versions": {"jax": "0.10.2", "jaxlib": "0.10.2", "xla": "in jaxlib 0.10.2"},
            "threads": {"count": 2, "source": "threads named tf_XLAEigen"},
            "openmp": [],
            "notes": [],
            "inside": {
                "NPROC": "2",
                "JAX_PLATFORMS": "cpu",
                "JAX_ENABLE_X64": "0",
                "JAX_ENABLE_COMPILATION_CACHE": "0",
            },
        },
    ),
    "caffe": (
        "net",
        "nchw",
        {
            "versions": {
                "caffe": "1.0.0",
                "openblas": "inside Caffe, of a version that it does not tell",
            },
            "threads": {"count": 2, "source": "openblas_get_num_threads()"},
            "openmp": [],
            "notes": [],
            "inside": {},
        },
    ),
    "torch7": (
        "eager",
        "nchw",
        {
            "versions": {
                "torch7": "LuaJIT 2.1.1772148810",
                "luajit": "LuaJIT 2.1.1772148810",
                "openblas": "OpenBLAS 0.3.21 NO_AFFINITY USE_OPENMP Zen MAX_THREADS=128",
            },
            "threads": {"count": 2, "source": "torch.getnumthreads()"},
            "openmp": ["libgomp"],
            "notes": [],
            "inside": {},
        },
    ),
}

# On a GPU: what each adds to the above.
CUDA: dict[str, dict[str, Any]] = {
    "pytorch": {
        "pytorch": "2.13.0+cu130",
        "cuda": "13.0",
        "cudnn": "9.19.0",
        "cublas": "13.1.0",
        "nccl": "2.28.9",
    },
    "jax": {"cuda": "13.0", "cudnn": "9.19.0", "cublas": "13.1.0", "nccl": "2.28.9"},
}

ABSENT = object()


def on_cpu(framework: str, *changes: tuple[str, Any]) -> Fingerprint:
    """``on_cpu("pytorch", ("cell.batch_size", 64), ("trial.versions.onednn", ABSENT))``."""
    mode, layout, told = CPU[framework]
    trial = {
        "event": "fingerprint",
        "python": "3.11.2",
        "libc": "glibc-2.36",
        "versions": dict(told["versions"]),
        "threads": dict(told["threads"]),
        "openmp": list(told["openmp"]),
        "allocators": [],
        "gpu": None,
        "tf32": False,
        "notes": list(told["notes"]),
        "environment": {**THREADS, **told["inside"]},
        "set_inside": sorted(told["inside"]),
    }
    cell = {
        "framework": framework,
        "mode": mode,
        "network": "alexnet_owt",
        "network_hash": "5b1e0c9a77d2",
        "batch_size": 32,
        "precision": "fp32",
        "layout": layout,
        "device": "cpu",
        "threads": 2,
        "host_allocator": "system",
    }
    return changed(cell, trial, changes)


def on_gpu(framework: str, *changes: tuple[str, Any]) -> Fingerprint:
    """The same on ``cuda:0``, an H200."""
    found = on_cpu(framework)
    cell = {**found.cell, "device": "cuda:0"}
    trial = {
        **copy.deepcopy(dict(found.trial)),
        "versions": {**found.trial["versions"], **CUDA[framework]},
        "gpu": H200,
    }
    if framework == "jax":
        trial["environment"]["JAX_PLATFORMS"] = "cuda"
    return changed(cell, trial, changes)


def changed(cell: Any, trial: Any, changes: tuple[tuple[str, Any], ...]) -> Fingerprint:
    """``HOST`` and ``TIMED_REGION`` stay the same objects where nothing of them is changed."""
    parts = {"cell": cell, "trial": trial, "host": HOST, "timed": TIMED_REGION}
    for path, value in changes:
        first, *keys = path.split(".")
        if not keys:
            parts[first] = value
            continue
        parts[first] = place = copy.deepcopy(parts[first])
        for key in keys[:-1]:
            place = place[key]
        if value is ABSENT:
            del place[keys[-1]]
        else:
            place[keys[-1]] = value
    return Fingerprint(**parts)
