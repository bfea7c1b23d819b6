"""Caffe: a net written as prototxt, inside Caffe's own SGD solver."""

from __future__ import annotations

import ctypes
import importlib
import os
import tempfile
from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.adapter import UnsupportedError, tf32_is_forbidden
from netdyno_worker.frameworks.caffe.prototxt import Prototxt, prototxt
from netdyno_worker.network import INPUT
from netdyno_worker.protocol import Hyperparameters, Job

SOLVER = """type: "SGD"
lr_policy: "fixed"
base_lr: {rate!r}
momentum: {momentum!r}
weight_decay: {decay!r}
net_param {{
{net}}}
"""

BATCH_NORM = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 1 dim: 1 dim: 1 } } }
layer { name: "probe" type: "BatchNorm" bottom: "x" top: "y" }
"""


class Adapter(Base):
    @classmethod
    def prepare(cls, job: Job) -> None:
        # Caffe tells about every layer it makes. What makes it abort is printed at any level.
        os.environ.setdefault("GLOG_minloglevel", "2")
        if job.device != "cpu":
            # Caffe asks cuDNN for its default, which since version 8 allows TF32.
            os.environ["NVIDIA_TF32_OVERRIDE"] = "0"

    def __init__(self, job: Job) -> None:
        self.job = job
        self.written = prototxt(job.network, job.batch_size)
        importlib.import_module("netdyno_worker.frameworks.caffe.stand_ins")
        import caffe

        self.caffe = caffe
        # Opened already: this handle finds what the module and the libraries it needs export.
        self.library = ctypes.CDLL(caffe._caffe.__file__)
        _check_vocabulary(self.written)
        _use_device(caffe, self.library, job.device)
        caffe.set_random_seed(job.seed % 2**31)
        self._folder = tempfile.TemporaryDirectory(prefix="netdyno-caffe-")
        if job.network.batch_norms():
            self._check_batch_norm()
        self._path = self._write("solver", solver(self.written, job.hyperparameters))
        self._batch: Optional[List[np.ndarray]] = None
        self.make()

    def make(self) -> None:
        """A net of zeros with no momentum."""
        self.drop()  # its memory goes before there is another
        self.solver = self.caffe.SGDSolver(self._path)
        self.net = self.solver.net
        self._has_momentum = False
        if self._batch is not None:
            self.set_batch(*self._batch)

    def drop(self) -> None:
        """Let go of the net; ``make`` makes another."""
        self.solver = self.net = None

    def _write(self, name: str, text: str) -> str:
        """Caffe reads files only."""
        path = os.path.join(self._folder.name, name + ".prototxt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def _check_batch_norm(self) -> None:
        """Raises UnsupportedError for a Caffe made to convert models: it has half of batch norm.

        Kendryte's, the one with wheels, never takes the batch's statistics, in training either.
        """
        net = self.caffe.Net(self._write("probe", BATCH_NORM), self.caffe.TRAIN)
        net.forward()
        if not net.params["probe"][2].data.any():  # which counts batches
            raise UnsupportedError(
                "this build of Caffe has no batch norm in training: it never takes the batch's "
                "statistics; BVLC's own does, name one with --python caffe=PATH"
            )

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        # Python cannot reach the momentum that a solver keeps: another solver starts without.
        if self._has_momentum:
            self.make()
        for name in self.written.parameters:
            self._blob(name).data[...] = parameters[name]
        for layer in self.job.network.batch_norms():
            # Caffe's statistics are sums over a decaying count of batches. Starting that count
            # where it settles, at 1 / momentum, makes their quotient ours from the first batch.
            mean, variance, count = self.net.params[layer.name]
            mean.data[...] = 0
            variance.data[...] = count.data[...] = 1 / layer.momentum

    def _blob(self, name: str) -> Any:
        layer, index = self.written.parameters[name]
        return self.net.params[layer][index]

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._batch = [images, labels]
        self.net.blobs[INPUT].data[...] = images
        self.net.blobs[self.written.labels].data[...] = labels

    def forward(self) -> None:
        self.net.forward()

    def forward_backward(self) -> None:
        self.net.clear_param_diffs()  # the backward pass adds to what is there
        self.net.forward()
        self.net.backward()

    def train_step(self) -> None:
        self._has_momentum = True
        self.solver.step(1)

    def synchronize(self) -> None:
        if self.job.device != "cpu":
            self.library.cudaDeviceSynchronize()

    def loss(self) -> float:
        return sum(
            layer.weight * float(self.net.blobs[self.written.blobs[layer.name]].data)
            for layer in self.job.network.layers
            if layer.kind == "SoftmaxCrossEntropy"
        )

    def logits(self) -> np.ndarray:
        return self.net.blobs[self.written.blobs[self.job.network.output]].data

    def gradients(self) -> Dict[str, np.ndarray]:
        return {name: self._blob(name).diff for name in self.written.parameters}

    def input_gradient(self) -> np.ndarray:
        path = self._write("by_images", self.written.text + "force_backward: true\n")
        net = self.caffe.Net(path, self.caffe.TRAIN)
        for name, blobs in self.net.params.items():
            for blob, known in zip(net.params[name], blobs):
                blob.data[...] = known.data
        for name in (INPUT, self.written.labels):
            net.blobs[name].data[...] = self.net.blobs[name].data
        net.forward()
        net.backward()
        return net.blobs[INPUT].diff

    def parameters(self) -> Dict[str, np.ndarray]:
        return {name: self._blob(name).data for name in self.written.parameters}

    def running_statistics(self) -> Dict[str, np.ndarray]:
        found = {}
        for layer in self.job.network.batch_norms():
            mean, variance, count = self.net.params[layer.name]
            found[layer.name + ".running_mean"] = mean.data / count.data
            found[layer.name + ".running_variance"] = variance.data / count.data
        return found

    def versions(self) -> Dict[str, str]:
        found = {"caffe": getattr(self.caffe, "__version__", "unknown")}
        if hasattr(self.library, "openblas_get_config"):
            config = self.library.openblas_get_config
            config.restype = ctypes.c_char_p
            found["openblas"] = config().decode()
        elif hasattr(self.library, "openblas_get_num_threads"):
            found["openblas"] = "inside Caffe, of a version that it does not tell"
        return found

    def threads(self) -> Dict[str, Any]:
        # All that Caffe does on several cores happens in its BLAS.
        for name in ("openblas_get_num_threads", "MKL_Get_Max_Threads"):
            if hasattr(self.library, name):
                return {"count": getattr(self.library, name)(), "source": name + "()"}
        return {"count": None, "source": "left to Caffe's BLAS"}

    def tf32(self) -> Optional[bool]:
        # Caffe has no switch of its own that could be asked.
        return False if self.job.device == "cpu" or tf32_is_forbidden() else None


def solver(written: Prototxt, hyperparameters: Hyperparameters) -> str:
    """A SolverParameter with the net inside."""
    rate, momentum, decay = hyperparameters
    return SOLVER.format(rate=rate, momentum=momentum, decay=decay, net=written.text)


def _check_vocabulary(written: Prototxt) -> None:
    """Raises UnsupportedError for what this release of Caffe has no words for.

    Caffe itself would abort.
    """
    from caffe.proto import caffe_pb2
    from google.protobuf import text_format

    try:
        text_format.Parse(written.text, caffe_pb2.NetParameter())
    except text_format.ParseError as error:
        raise UnsupportedError("this Caffe does not know all of it: {}".format(error)) from None


def _use_device(caffe: Any, library: Any, device: str) -> None:
    if device == "cpu":
        caffe.set_mode_cpu()
        return
    if not hasattr(library, "cudaGetDeviceCount"):
        raise UnsupportedError("this Caffe was built without CUDA")
    index = int(device.split(":")[1]) if ":" in device else 0
    count = ctypes.c_int()
    library.cudaGetDeviceCount(ctypes.byref(count))
    if index >= count.value:
        raise UnsupportedError("this Caffe sees no {}".format(device))
    caffe.set_device(index)
    caffe.set_mode_gpu()
