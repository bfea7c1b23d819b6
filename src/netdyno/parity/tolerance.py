"""How far a result may lie from the reference, from its precision and from the network's depth."""

from __future__ import annotations

import math
from dataclasses import dataclass

from netdyno.networks import Network
from netdyno.networks.graph import INPUT, LRN, BatchNorm, Conv, Dense, Layer, Pool
from netdyno.parity.conditions import HYPERPARAMETERS, TRAIN_STEPS

__all__ = ["Tolerance", "tolerance"]

# Largest relative error of one rounding.
UNIT_ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24}

# A sum of K rounded terms errs by about u sqrt(K) where errors are independent (Higham & Mary
# 2019, "probabilistic" bounds); the factor is the margin over that for layers that add up.
MARGIN = 8.0

# Where two values in a pooling window are nearer than float32 can tell, another framework may
# choose the other one, and a gradient goes to another place. Seen in whole networks: up to 1e-2
# relative L2 in the first convolution, mostly nothing. Double precision has no such ties.
TIE = 2e-2

# Frameworks that hold learning rate and momentum in float32 (MXNet) round them once.
HYPERPARAMETER = 2.0**-23


@dataclass(frozen=True)
class Tolerance:
    """Largest relative L2 distance by group: loss and logits, running statistics, the rest."""

    forward: float
    running: float
    gradient: float
    update: float

    def of(self, name: str) -> float:
        """For a key of netdyno_worker/compute.py."""
        group = name.split("/")[0]
        if group == "gradient":
            return self.gradient
        if group == "running":
            return self.running
        # The losses of the train steps follow updates.
        return self.update if group in ("update", "losses") else self.forward


def tolerance(network: Network, precision: str, batch_size: int) -> Tolerance:
    """``8 u sqrt(K) L``: K terms in the longest sum, L layers with sums on the longest path."""
    summing = [layer for layer in network.layers if isinstance(layer, Conv | Dense)]
    terms = max(_terms(network, layer, batch_size) for layer in summing) if summing else 1
    rounding = MARGIN * UNIT_ROUNDOFF[precision] * math.sqrt(terms) * _depth(network)
    ties = any(isinstance(layer, Pool) and layer.reduction == "max" for layer in network.layers)
    gradient = rounding + (TIE if ties and precision != "fp64" else 0.0)
    # 1 - momentum is what such a framework is told: its rounding error counts against momentum.
    momenta = [layer.momentum for layer in network.layers if isinstance(layer, BatchNorm)]
    running = rounding + HYPERPARAMETER / min(momenta, default=1.0)
    return Tolerance(rounding, running, gradient, gradient + HYPERPARAMETER + _held(precision))


def _held(precision: str) -> float:
    """How well parameters hold their update: each step rounds to a unit of the parameter.

    Decay alone makes the steps 1, 1 + m, 1 + m + m^2 … times rate x decay x parameter, so the
    update is at least their sum.
    """
    momentum = HYPERPARAMETERS["momentum"]
    steps = [sum(momentum**j for j in range(i + 1)) for i in range(TRAIN_STEPS)]
    least = HYPERPARAMETERS["learning_rate"] * HYPERPARAMETERS["weight_decay"] * sum(steps)
    return UNIT_ROUNDOFF[precision] * TRAIN_STEPS / least


def _depth(network: Network) -> int:
    depth = {INPUT: 0}
    for layer in network.layers:
        own = 1 if isinstance(layer, Conv | Dense | BatchNorm | LRN) else 0
        depth[layer.name] = max(depth[name] for name in layer.inputs) + own
    return max(1, *depth.values())


def _terms(network: Network, layer: Layer, batch_size: int) -> int:
    """Of the longest of the sums that give the output, the weights' and the input's gradient."""
    weight = layer.parameter_shapes(network.input_shapes(layer))["weight"]
    positions = math.prod(network.shapes[layer.name][1:])
    return max(math.prod(weight[1:]), batch_size * positions, math.prod(weight) // weight[1])
