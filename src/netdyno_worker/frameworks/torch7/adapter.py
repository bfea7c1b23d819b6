"""Torch7: a network of nn modules and optim.sgd in a LuaJIT process, driven through a pipe.

This side is Python and computes nothing: it writes commands, and tensors to raw files. What runs
is ``worker.lua`` and the modules beside it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.frameworks.torch7 import installation, lua, unsupported
from netdyno_worker.frameworks.torch7.child import Child
from netdyno_worker.protocol import Job

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"fp32": "<f4", "fp64": "<f8"}
PTHREAD_NOTE = (
    "OpenBLAS is not its OpenMP build: its threads and Torch7's disturb each other,"
    " and 2 to 25 times slower has been seen"
)


class Adapter(Base):
    def __init__(self, job: Job) -> None:
        unsupported.check(job.network, job.batch_size)
        self.job = job
        self.dtype = np.dtype(DTYPES[job.precision])
        self._folder = tempfile.mkdtemp(prefix="torch7-", dir=job.scratch)
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        with open(self._path("job.lua"), "w", encoding="ascii") as file:
            file.write("return " + lua.literal(_job(job)) + "\n")
        self._child = start(self._folder)
        self.process_id = self._child.process_id
        self._child.ask("build")

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        with open(self._path("parameters"), "wb") as file:
            for name in self.job.network.parameter_shapes():
                parameters[name].astype("<f4").tofile(file)
        self._child.ask("load parameters")

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        images.astype("<f4").tofile(self._path("images"))
        labels.astype("<i4").tofile(self._path("labels"))
        self._child.ask("set_batch images labels")

    def forward(self) -> None:
        self._child.tell("forward")

    def forward_backward(self) -> None:
        self._child.tell("forward_backward")

    def train_step(self) -> None:
        self._child.tell("train_step")

    def synchronize(self) -> None:
        self._child.ask("synchronize")

    def loss(self) -> float:
        return float(self._child.ask("loss"))

    def logits(self) -> np.ndarray:
        return self._read("logits").reshape(self.job.batch_size, self.job.network.classes)

    def gradients(self) -> Dict[str, np.ndarray]:
        return _split(self._read("gradients"), self.job.network.parameter_shapes())

    def parameters(self) -> Dict[str, np.ndarray]:
        return _split(self._read("parameters"), self.job.network.parameter_shapes())

    def running_statistics(self) -> Dict[str, np.ndarray]:
        shapes = {
            layer.name + "." + name: layer.output_shape[:1]
            for layer in self.job.network.batch_norms()
            for name in ("running_mean", "running_variance")
        }
        return _split(self._read("running_statistics"), shapes) if shapes else {}

    def _read(self, what: str) -> np.ndarray:
        self._child.ask("{0} {0}".format(what))
        array = np.fromfile(self._path(what), self.dtype)
        os.remove(self._path(what))
        return array

    def clear(self) -> None:
        """Give back all that passes have left; the next one takes it anew."""
        self._child.ask("clear")

    def internal_bytes(self, phase: str) -> Dict[str, int]:
        """Bytes that one pass of ``phase`` takes from nothing, by what holds them; see memory.lua.

        Nothing is given back afterwards.
        """
        words = self._child.ask("internal_bytes " + phase).split("\t")
        return dict(zip(words[::2], map(int, words[1::2])))

    def versions(self) -> Dict[str, str]:
        found = installation.look_for(named_installation(), os.environ)
        return {"torch7": found.version, **self._libraries()}

    def _libraries(self) -> Dict[str, str]:
        """LuaJIT and the BLAS, by name."""
        words = self._child.ask("versions").split("\t")
        return dict(zip(words[::2], words[1::2]))

    def threads(self) -> Dict[str, Any]:
        return {"count": int(self._child.ask("threads")), "source": "torch.getnumthreads()"}

    def notes(self) -> List[str]:
        notes = []
        if any(layer.kind == "Conv" and layer.groups > 1 for layer in self.job.network.layers):
            notes.append("Torch7's nn has no groups: each group is a convolution of its own")
        blas = self._libraries().get("openblas", "")
        if blas and "USE_OPENMP" not in blas and self.job.threads > 1:
            notes.append(PTHREAD_NOTE)
        return notes


def named_installation() -> Optional[str]:
    """What netdyno, or the person, says in the worker's environment of where Torch7 is."""
    return os.environ.get("NETDYNO_TORCH7") or None


def start(folder: str) -> Child:
    """A LuaJIT that runs worker.lua on the ``job.lua`` of ``folder``."""
    place = installation.locate(named_installation(), os.environ)
    command = [place.interpreter, os.path.join(HERE, "worker.lua"), "job.lua"]
    return Child(command, installation.child_environ(place, os.environ), folder)


def _job(job: Job) -> Dict[str, Any]:
    """What worker.lua and network.lua read."""
    network = job.network
    layers = [
        {**vars(layer), "input_shape": network.shape(layer.inputs[0])} for layer in network.layers
    ]
    return {
        "layers": layers,
        "output": network.output,
        "input_shape": (job.batch_size,) + network.input_shape,
        "precision": job.precision,
        "threads": job.threads,
        "seed": job.seed % 2**31,
        **job.hyperparameters._asdict(),
    }


def _split(flat: np.ndarray, shapes: Mapping[str, Any]) -> Dict[str, np.ndarray]:
    """Arrays of ``shapes``, one behind the other."""
    found, start = {}, 0
    for name, shape in shapes.items():
        count = int(np.prod(shape, dtype=np.int64))
        found[name] = flat[start : start + count].reshape(shape)
        start += count
    return found
