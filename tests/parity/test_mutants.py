"""Adapters and networks with one thing wrong, each of which must be refused.

Each is a mistake that a published comparison has made, or could have made unseen. They are checked
the way ``netdyno verify`` checks a framework that has single precision only: where a mistake shows
in that, it shows in double precision all the more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netdyno.networks import Network
from netdyno.networks.graph import INPUT, Layer, Pool, ReLU
from netdyno_worker.frameworks.numpy import operations
from netdyno_worker.frameworks.numpy.adapter import Adapter
from tests.parity.conftest import Judge
from tests.small_network import small_network


def test_the_adapter_itself_passes(judge: Judge) -> None:
    assert judge(small_network(), "fp32") == []
    assert judge(small_network(), "fp64") == []


# Wrong adapters: each changes one operation or one step of the reference.


class Momentum(Adapter):
    """The update of a train step, to be got wrong."""

    def update(self, name: str, gradient: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def train_step(self) -> None:
        self.forward_backward()
        for name, value in self._parameters.items():
            value -= self.hyperparameters.learning_rate * self.update(
                name, self._gradients[name], self._momenta[name]
            )


class Dampened(Momentum):
    """Momentum with dampening, the default of Lua Torch's optim.sgd."""

    def update(self, name: str, gradient: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        _, momentum, decay = self.hyperparameters
        velocity *= momentum
        velocity += (1 - momentum) * (gradient + decay * self._parameters[name])
        return velocity


class Nesterov(Momentum):
    def update(self, name: str, gradient: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        _, momentum, decay = self.hyperparameters
        step = gradient + decay * self._parameters[name]
        velocity *= momentum
        velocity += step
        return step + momentum * velocity


class NoDecayOfBiases(Momentum):
    """MXNet's optimizer does this when it knows the names."""

    def update(self, name: str, gradient: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        _, momentum, decay = self.hyperparameters
        velocity *= momentum
        velocity += gradient + (0 if name.endswith("bias") else decay) * self._parameters[name]
        return velocity


class DecoupledDecay(Momentum):
    """As in AdamW, and in Keras' ``weight_decay``."""

    def update(self, name: str, gradient: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        _, momentum, decay = self.hyperparameters
        velocity *= momentum
        velocity += gradient
        return velocity + decay * self._parameters[name]


class NoUpdate(Adapter):
    def train_step(self) -> None:
        self.forward_backward()


class BackwardSkipped(Adapter):
    """Only the loss is asked for, and the rest is eliminated as dead code."""

    def forward_backward(self) -> None:
        self.forward()
        self._gradients = {name: np.zeros_like(w) for name, w in self._parameters.items()}


class BackwardOnce(Adapter):
    """A result that is kept from the first iteration."""

    def forward_backward(self) -> None:
        if hasattr(self, "_gradients"):
            self.forward()
        else:
            super().forward_backward()


class PreviousBatch(Adapter):
    """Gradients lag a call behind: read before the asynchronous engine is done."""

    def forward_backward(self) -> None:
        previous = getattr(self, "_gradients", None)
        super().forward_backward()
        self._late = previous or self._gradients

    def gradients(self) -> dict[str, np.ndarray]:
        return self._late


class SummedLoss(Adapter):
    """Summed over the batch, MXNet's default of SoftmaxOutput."""

    def forward(self) -> None:
        super().forward()
        count = len(self._labels)
        self._loss *= count
        for layer in self.network.layers:
            if layer.kind == "SoftmaxCrossEntropy":
                self._saved[layer.name] = self._saved[layer.name] * count


class LossWithoutWeight(Adapter):
    """Every loss counts fully."""

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        for layer in self.network.layers:
            if layer.kind == "SoftmaxCrossEntropy":
                layer.weight = 1.0


class BiasedVariance(Adapter):
    def _update_running(self, layer: Any) -> None:
        mean, variance, _ = self._saved[layer.name][2:]
        self._saved[layer.name] = (*self._saved[layer.name][:2], mean, variance, 10**9)
        super()._update_running(layer)


WRONG_ADAPTERS = [
    Dampened,
    Nesterov,
    NoDecayOfBiases,
    DecoupledDecay,
    NoUpdate,
    BackwardSkipped,
    BackwardOnce,
    PreviousBatch,
    SummedLoss,
    LossWithoutWeight,
    BiasedVariance,
]


@pytest.mark.parametrize("adapter", WRONG_ADAPTERS)
def test_a_wrong_adapter_is_refused(judge: Judge, adapter: type[Adapter]) -> None:
    assert judge(small_network(), "fp32", adapter)


def one_off_padding(layer: Any, inputs: list[np.ndarray], own: dict[str, np.ndarray]) -> Any:
    """A padding that is one too much before and one too little after."""
    shifted = np.roll(inputs[0], 1, axis=3) if layer.padding[1] else inputs[0]
    return operations.conv(layer, [shifted], own)


def no_bias(layer: Any, inputs: list[np.ndarray], own: dict[str, np.ndarray]) -> Any:
    return operations.conv(layer, inputs, {"weight": own["weight"]})


def dense_without_bias(layer: Any, inputs: list[np.ndarray], own: dict[str, np.ndarray]) -> Any:
    return inputs[0] @ own["weight"].T, inputs[0]


WRONG_OPERATIONS: list[tuple[str, Callable[..., Any]]] = [
    ("Conv", one_off_padding),
    ("Conv", no_bias),
    ("Dense", dense_without_bias),
]


@pytest.mark.parametrize(("kind", "operation"), WRONG_OPERATIONS)
def test_a_wrong_operation_is_refused(
    judge: Judge, kind: str, operation: Callable[..., Any]
) -> None:
    right = operations.FORWARD[kind]
    if operation is one_off_padding or operation is no_bias:
        assert right is operations.conv

    class Wrong(Adapter):
        def forward(self) -> None:
            operations.FORWARD[kind] = operation
            try:
                super().forward()
            finally:
                operations.FORWARD[kind] = right

    assert judge(small_network(), "fp32", Wrong)


# Wrong networks: a layer's constants differ from what was asked.


def changed(kind: str, name: str = "", **fields: Any) -> Network:
    """The small network with fields of its layers of one kind (and name) replaced."""
    network = small_network()
    layers = [
        dataclasses.replace(layer, **fields) if layer.kind == kind and name in layer.name else layer
        for layer in network.layers
    ]
    return dataclasses.replace(network, layers=tuple(layers))


def without_relu(name: str) -> Network:
    network = small_network()
    layers: list[Layer] = []
    source = {}
    for layer in network.layers:
        if isinstance(layer, ReLU) and layer.name == name:
            source[layer.name] = layer.inputs[0]
            continue
        inputs = tuple(source.get(read, read) for read in layer.inputs)
        layers.append(dataclasses.replace(layer, inputs=inputs))
    return dataclasses.replace(network, layers=tuple(layers))


WRONG_NETWORKS = {
    "LRN alpha not divided by the size": changed("LRN", alpha=5 * 5e-4),
    "LRN k of 1": changed("LRN", k=1.0),
    "LRN beta": changed("LRN", beta=0.5),
    "LRN over another size": changed("LRN", size=3, alpha=5e-4 * 3 / 5),
    "floor for ceil": small_network(ceil_mode=False),
    "batch norm eps": changed("BatchNorm", eps=1e-3),
    "batch norm momentum taken for its complement": changed("BatchNorm", momentum=0.9),
    "average over the image, not the padding": changed("Pool", "b/pool", count_padding=False),
    "max for average": changed("Pool", "p2", reduction="max"),
    "a ReLU is missing": without_relu("a_relu"),
    "the last ReLU is missing": without_relu("d1_relu"),
}


@pytest.mark.parametrize("wrong", WRONG_NETWORKS.values(), ids=WRONG_NETWORKS.keys())
def test_a_wrong_network_is_refused(judge: Judge, wrong: Network) -> None:
    assert wrong.hash != small_network().hash
    assert judge(small_network(), "fp32", computes=wrong)


def test_the_small_network_is_what_the_mutants_take_it_for() -> None:
    kinds = {layer.kind for layer in small_network().layers}
    assert kinds >= {"Conv", "Pool", "LRN", "BatchNorm", "Concat", "Add", "Dense"}
    pools = [layer for layer in small_network().layers if isinstance(layer, Pool)]
    assert any(pool.ceil_mode for pool in pools)
    assert all(layer.inputs != (INPUT,) or layer.kind == "Conv" for layer in small_network().layers)
