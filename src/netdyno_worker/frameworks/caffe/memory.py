"""Caffe's blobs: it makes them once and keeps them, so each pass gets a net of its own here."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Set

from netdyno_worker.adapter import Adapter
from netdyno_worker.memory import Memory as Base
from netdyno_worker.memory import Reported
from netdyno_worker.network import INPUT
from netdyno_worker.protocol import Job

# Caffe's Python interface knows single precision only.
FLOAT_BYTES = 4
# Arrays of each parameter that a pass takes in a net of its own: the values; the gradient; what
# SGD keeps of it (SGDSolver's history_).
ARRAYS_PER_PARAMETER = {"forward": 1, "forward_backward": 2, "train_step": 3}
LEFT_OUT = (
    "blobs only: what layers keep for themselves (unfolded images, winners of max pooling, masks, "
    "LRN's sums, softmax) Caffe does not show"
)
KEEPS = "; the forward pass gives no blob back, whether a backward pass follows or not"


class Memory(Base):
    """A net takes its blobs when it first computes and gives nothing back until it goes.

    So its internal memory at the end of a pass is that at the peak. Its parameters are zeros here,
    which need as much memory as any, and there is no other net beside it: the total is its own.
    """

    def __init__(self, adapter: Adapter, job: Job) -> None:
        super().__init__(adapter, job)
        self.caffe: Any = adapter
        net = self.caffe.net
        self._parameters = _bytes(blob for blobs in net.params.values() for blob in blobs)
        self._batch_and_outputs = _bytes(net.blobs[name] for name in self._ends())
        self.caffe.drop()

    def run(self, phase: str) -> None:
        self.caffe.make()
        super().run(phase)
        self.caffe.drop()

    def foreign_bytes(self, phase: str) -> int:
        """Inputs, outputs and what belongs to parameters, all there when a pass ends."""
        return self._batch_and_outputs + ARRAYS_PER_PARAMETER[phase] * self._parameters

    def _ends(self) -> Set[str]:
        """Blobs that are inputs or outputs of the network: images, labels, logits, losses."""
        written = self.caffe.written
        losses = [loss for loss in self.job.network.layers if loss.kind == "SoftmaxCrossEntropy"]
        names = [name for loss in losses for name in (loss.name, loss.inputs[0])]
        return {written.labels} | {written.blobs[name] for name in [INPUT] + names}

    def reported(self, phase: str) -> Reported:
        self.caffe.make()
        super().run(phase)
        taken = self._blob_bytes(phase)
        self.caffe.drop()
        if phase == "forward":
            return Reported(taken, "blobs", "data of net.blobs", LEFT_OUT + KEEPS)
        return Reported(taken, "blobs", "data and diff of net.blobs", LEFT_OUT)

    def _blob_bytes(self, phase: str) -> int:
        """Of the net's blobs beyond its inputs and outputs, after ``phase``.

        ``data`` of the forward pass and ``diff`` of the backward pass. Blobs that share memory
        (the copies that Caffe's Split makes for several readers, Flatten) count once.
        """
        net = self.caffe.net
        data = _distinct(blob.data for blob in net.blobs.values())
        for name in self._ends():
            data.pop(net.blobs[name].data.ctypes.data, None)
        diff: Dict[int, int] = {}
        if phase != "forward":
            diff = _distinct(net.blobs[name].diff for name in _differentiated(net))
        return sum(data.values()) + sum(diff.values())


def _distinct(arrays: Iterable[Any]) -> Dict[int, int]:
    """Bytes by address."""
    return {array.ctypes.data: array.nbytes for array in arrays}


def _differentiated(net: Any) -> Set[str]:
    """Blobs that have a ``diff``. Asking another for it would allocate it.

    Those that depend on a parameter; and what a convolution reads, the images too: conv_layer.cpp
    makes room for the gradient by its input before it asks whether anybody wants it.
    """
    found: Set[str] = set()
    for name, layer in zip(net._layer_names, net.layers):
        if len(layer.blobs) or found.intersection(net.bottom_names[name]):
            found.update(net.top_names[name])
        if layer.type == "Convolution":
            found.update(net.bottom_names[name])
    return found


def _bytes(blobs: Iterable[Any]) -> int:
    return FLOAT_BYTES * sum(blob.count for blob in blobs)
