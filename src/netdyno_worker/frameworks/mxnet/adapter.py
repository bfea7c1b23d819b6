"""MXNet 1.x: a bound executor in mode ``symbol``, a hybridized Gluon block in mode ``hybrid``."""

from __future__ import annotations

import abc
import ctypes
import glob
import os
import re
import warnings
from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.adapter import UnsupportedError, tf32_is_forbidden
from netdyno_worker.lazy import Lazy
from netdyno_worker.protocol import Job


class Adapter(Base):
    """Common to both modes, which it delegates to: see ``_Executor`` and ``_Block``."""

    @classmethod
    def prepare(cls, job: Job) -> None:
        # Read once, at import; MXNet would otherwise count hyper-threads and take half of them.
        os.environ["MXNET_OMP_MAX_THREADS"] = str(job.threads)
        if job.device == "cpu":
            # Updating several arrays in one operator is meant for GPUs: half as fast on CPU.
            os.environ.setdefault("MXNET_OPTIMIZER_AGGREGATION_SIZE", "1")
        else:
            # "fp32" means it. MXNet asks cuDNN for its default, which since version 8 allows TF32.
            os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
        # Convolution algorithms are chosen by trying them, as MXNet does by default on GPUs.
        os.environ.setdefault("MXNET_CUDNN_AUTOTUNE_DEFAULT", "1")
        os.environ["MXNET_CUDA_ALLOW_TENSOR_CORE"] = "0"

    def __init__(self, job: Job) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MXNet 1.9.1 warns of its own spelling at import
            import mxnet as mx
        from netdyno_worker.frameworks.mxnet import symbol

        self.mx = mx
        self.job = job
        self.device = find_device(mx, job.device)
        self.dtype = {"fp32": "float32", "fp64": "float64"}[job.precision]
        mx.random.seed(job.seed % 2**31)
        outputs = symbol.build(job.network, self.dtype, job.device == "cpu")
        self.outputs = outputs
        symbol.check(outputs, job.network, job.batch_size)
        self.run: _Mode = {"symbol": _Executor, "hybrid": _Block}[job.mode](self)

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        for name, value in parameters.items():
            self.run.weight(name)[:] = value
        self.run.reset()

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.run.set_batch(images, labels)

    def forward(self) -> None:
        self.run.forward()

    def forward_backward(self) -> None:
        self.run.forward_backward()

    def train_step(self) -> None:
        self.run.forward_backward()
        self.run.update()

    def synchronize(self) -> None:
        self.mx.nd.waitall()

    def loss(self) -> float:
        return float(self.run.loss.asscalar())

    def logits(self) -> np.ndarray:
        return self.run.logits.asnumpy()

    def gradients(self) -> Mapping[str, np.ndarray]:
        names = self.job.network.parameter_shapes()
        return Lazy(names, lambda name: self.run.gradient(name).asnumpy())

    def input_gradient(self) -> np.ndarray:
        return self.run.input_gradient().asnumpy()

    def parameters(self) -> Mapping[str, np.ndarray]:
        names = self.job.network.parameter_shapes()
        return Lazy(names, lambda name: self.run.weight(name).asnumpy())

    def running_statistics(self) -> Dict[str, np.ndarray]:
        return {
            layer.name + "." + name: self.run.state(layer.name + "." + name).asnumpy()
            for layer in self.job.network.batch_norms()
            for name in ("running_mean", "running_variance")
        }

    def versions(self) -> Dict[str, str]:
        folder = os.path.dirname(self.mx.__file__)
        found = {"mxnet": self.mx.__version__}
        onednn = _onednn_version(folder)
        if onednn and self.mx.runtime.Features().is_enabled("MKLDNN"):
            found["onednn"] = onednn
        blas = _openblas_version(folder)
        if blas:
            found["openblas"] = blas
        if self.device.device_type == "gpu":
            found.update(_cuda_versions(folder))
        return found

    def threads(self) -> Dict[str, Any]:
        # The OpenMP runtime is the system's: the one that is loaded already answers.
        try:
            count = ctypes.CDLL("libgomp.so.1").omp_get_max_threads()
        except (OSError, AttributeError):
            count = None
        return {"count": count, "source": "omp_get_max_threads()"}

    def tf32(self) -> Optional[bool]:
        # MXNet has no switch of its own that could be asked.
        return False if self.job.device == "cpu" or tf32_is_forbidden() else None

    def notes(self) -> List[str]:
        from netdyno_worker.frameworks.mxnet import symbol

        notes = []
        if self.job.network.batch_norms():
            notes.append("MXNet keeps the biased variance as batch norm's running variance")
        if self.job.device == "cpu" and any(
            layer.kind == "LRN" for layer in self.job.network.layers
        ):
            notes.append(symbol.LRN_NOTE)
        return notes


class _Mode(abc.ABC):
    """What differs between the two ways to run."""

    loss: Any
    logits: Any

    @abc.abstractmethod
    def weight(self, name: str) -> Any:
        """The NDArray of a parameter."""

    @abc.abstractmethod
    def state(self, name: str) -> Any:
        """The NDArray of a running statistic."""

    @abc.abstractmethod
    def gradient(self, name: str) -> Any:
        """The NDArray of its gradient."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Momentum to zero, running mean to 0 and variance to 1."""

    @abc.abstractmethod
    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None: ...

    @abc.abstractmethod
    def forward(self) -> None: ...

    @abc.abstractmethod
    def forward_backward(self) -> None: ...

    @abc.abstractmethod
    def input_gradient(self) -> Any:
        """The NDArray of the gradient by the images."""

    @abc.abstractmethod
    def update(self) -> None: ...


class _Executor(_Mode):
    """``simple_bind``, ``forward(is_train=True)``, ``backward()`` and MXNet's own SGD operator."""

    def __init__(self, adapter: Adapter) -> None:
        self.mx, self.job = adapter.mx, adapter.job
        self.adapter = adapter
        self.names = list(self.job.network.parameter_shapes())
        self.executor = self._bind(images="null")
        self.logits, self.loss = self.executor.outputs

    def _bind(self, **gradients: str) -> Any:
        required = {**dict.fromkeys(self.names, "write"), "labels": "null", **gradients}
        return self.adapter.outputs.simple_bind(
            self.adapter.device,
            grad_req=required,
            type_dict=dict.fromkeys(required, self.adapter.dtype),
            images=(self.job.batch_size,) + self.job.network.input_shape,
            labels=(self.job.batch_size,),
        )

    def weight(self, name: str) -> Any:
        return self.executor.arg_dict[name]

    def state(self, name: str) -> Any:
        return self.executor.aux_dict[name]

    def gradient(self, name: str) -> Any:
        return self.executor.grad_dict[name]

    def reset(self) -> None:
        for name, value in self.executor.aux_dict.items():
            value[:] = 1 if name.endswith("variance") else 0
        rate, momentum, decay = self.job.hyperparameters
        self.how = {"lr": rate, "momentum": momentum, "wd": decay}
        self.momenta = {name: self.mx.nd.zeros_like(self.weight(name)) for name in self.names}

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.executor.arg_dict["images"][:] = images
        self.executor.arg_dict["labels"][:] = labels

    def forward(self) -> None:
        self.executor.forward(is_train=True)

    def forward_backward(self) -> None:
        self.executor.forward(is_train=True)
        self.executor.backward()

    def input_gradient(self) -> Any:
        executor = self._bind(images="write")
        executor.copy_params_from(self.executor.arg_dict, self.executor.aux_dict)
        executor.forward(is_train=True)
        executor.backward()
        return executor.grad_dict["images"]

    def update(self) -> None:
        for name in self.names:
            weight = self.weight(name)
            self.mx.nd.sgd_mom_update(
                weight, self.gradient(name), self.momenta[name], out=weight, **self.how
            )


class _Block(_Mode):
    """``gluon.SymbolBlock``, hybridized with a static plan, and ``gluon.Trainer``."""

    def __init__(self, adapter: Adapter) -> None:
        self.mx, self.job, self.device = adapter.mx, adapter.job, adapter.device
        self.dtype = adapter.dtype
        mx = self.mx
        self.block = mx.gluon.SymbolBlock(
            adapter.outputs, [mx.sym.var("images"), mx.sym.var("labels")]
        )
        shapes = self.job.network.parameter_shapes()
        running = {
            layer.name + "." + name: (layer.output_shape[0],)
            for layer in self.job.network.batch_norms()
            for name in ("running_mean", "running_variance")
        }
        # The block's dictionary is keyed by name; SymbolBlock leaves shapes unknown.
        for name, parameter in self.block.collect_params().items():
            parameter.shape = shapes.get(name) or running[name]
            parameter.cast(self.dtype)
            parameter.initialize(mx.init.Zero(), ctx=self.device)
        self.block.hybridize(static_alloc=True, static_shape=True)
        self._parameters = self.block.collect_params()

    def weight(self, name: str) -> Any:
        return self._parameters[name].data(self.device)

    def state(self, name: str) -> Any:
        return self.weight(name)

    def gradient(self, name: str) -> Any:
        return self._parameters[name].grad(self.device)

    def reset(self) -> None:
        for layer in self.job.network.batch_norms():
            self.state(layer.name + ".running_mean")[:] = 0
            self.state(layer.name + ".running_variance")[:] = 1
        rate, momentum, decay = self.job.hyperparameters
        self.trainer = self.mx.gluon.Trainer(
            self._parameters,
            "sgd",
            {"learning_rate": rate, "momentum": momentum, "wd": decay},
            kvstore=None,
        )

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        nd = self.mx.nd
        self.images = nd.array(images, self.device, self.dtype)
        self.labels = nd.array(labels, self.device, self.dtype)

    def forward(self) -> None:
        with self.mx.autograd.record():
            self.logits, self.loss = self.block(self.images, self.labels)

    def forward_backward(self) -> None:
        self.forward()
        self.loss.backward()

    def input_gradient(self) -> Any:
        images = self.images.copy()
        images.attach_grad()
        with self.mx.autograd.record():
            _, loss = self.block(images, self.labels)
        return self.mx.autograd.grad(loss, [images])[0]

    def update(self) -> None:
        self.trainer.step(1)  # the loss is a mean already


def find_device(mx: Any, name: str) -> Any:
    if name == "cpu":
        return mx.cpu()
    index = int(name.split(":")[1]) if ":" in name else 0
    if index >= mx.context.num_gpus():
        raise UnsupportedError("this MXNet ({}) sees no {}".format(mx.__version__, name))
    return mx.gpu(index)


def _onednn_version(folder: str) -> str:
    """From the header that the wheel ships."""
    for path in glob.glob(os.path.join(folder, "include", "**", "*_version.h"), recursive=True):
        with open(path, encoding="utf-8", errors="replace") as file:
            parts = re.findall(r"#define DNNL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read())
        if len(parts) == 3:
            return ".".join(parts)
    return ""


def _openblas_version(folder: str) -> str:
    """``OpenBLAS 0.3.9 …`` from the library that is loaded, with the kernel it chose."""
    for path in glob.glob(os.path.join(folder, "libopenblas*.so*")) + [
        os.path.join(folder, "libmxnet.so")
    ]:
        try:
            config = ctypes.CDLL(path).openblas_get_config
        except (OSError, AttributeError):
            continue
        config.restype = ctypes.c_char_p
        return config().decode()
    return ""


def _cuda_versions(folder: str) -> Dict[str, str]:
    library = ctypes.CDLL(os.path.join(folder, "libmxnet.so"))
    found = {}
    version = ctypes.c_int()
    if library.cudaRuntimeGetVersion(ctypes.byref(version)) == 0:
        found["cuda"] = "{}.{}".format(version.value // 1000, version.value % 1000 // 10)
    return found
