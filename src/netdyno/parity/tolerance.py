"""How far a result may lie from the reference, from its precision and from the network's depth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from netdyno.networks import Network
from netdyno.networks.graph import INPUT, LRN, BatchNorm, Conv, Dense, Layer, Pool, ReLU
from netdyno.parity.conditions import HYPERPARAMETERS, TRAIN_STEPS

__all__ = ["Tolerance", "tolerance"]

# Largest relative error of one rounding.
UNIT_ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24}
# Where operands are rounded to fewer bits and products are added up in single precision.
OPERAND_ROUNDOFF = {"tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}

# A sum of K rounded terms errs by about u sqrt(K) where errors are independent (Higham & Mary
# 2019, "probabilistic" bounds); the factor is the margin over that. Half of it refused Gluon's
# MobileNet by a tenth: batch norm over few values makes errors larger than its share of L.
MARGIN = 16.0

# Of operands that are rounded once each: the errors of K products are independent and average out
# as the products themselves do, so that a sum is off by sqrt(2) u of its size whatever K is, and L
# layers by sqrt(2 L) u. Activations that are stored in few bits, and softmax over them, add to it.
OPERAND_MARGIN = 4.0

# Where two values in a max pool's window, or a ReLU's input and zero, are nearer than float32 can
# tell, another framework may choose the other side, and a gradient goes to another place. One such
# flip has been seen to change a first convolution's gradient by 1e-2.
FLIP = 2e-2

# Eight bits and fifty layers allow more than a gradient's own size. What is further off than this
# is refused whatever its bound: a gradient of zero is 1 off. Layer by layer the bounds are narrow.
WORTHLESS = 0.7

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
    """``16 u sqrt(K) L + u E``: K terms in the longest sum, L layers with sums on the longest path.

    E equal terms are not independent, and err by up to u E. Where operands are rounded to u' it is
    ``4 u' sqrt(2 L)`` more.
    """
    summing = [layer for layer in network.layers if isinstance(layer, Conv | Dense)]
    terms = max(_terms(network, layer, batch_size) for layer in summing) if summing else 1
    depth = _longest_path(network, lambda layer: isinstance(layer, Conv | Dense | BatchNorm | LRN))
    held = "fp32" if precision in OPERAND_ROUNDOFF else precision
    unit = UNIT_ROUNDOFF[held]
    rounding = MARGIN * unit * math.sqrt(terms) * max(1, depth)
    rounding += unit * _equal_terms(network, batch_size)
    rounding += OPERAND_MARGIN * OPERAND_ROUNDOFF.get(precision, 0) * math.sqrt(2 * max(1, depth))
    gradient = min(rounding + _flips(network, precision, terms), WORTHLESS)
    # 1 - momentum is what such a framework is told: its rounding error counts against momentum.
    momenta = [layer.momentum for layer in network.layers if isinstance(layer, BatchNorm)]
    running = rounding + HYPERPARAMETER / min(momenta, default=1.0)
    return Tolerance(rounding, running, gradient, gradient + HYPERPARAMETER + _held(held))


def _held(precision: str) -> float:
    """How well parameters hold their update: each step rounds to a unit of the parameter.

    Decay alone makes the steps 1, 1 + m, 1 + m + m^2 … times rate x decay x parameter, so the
    update is at least their sum.
    """
    momentum = HYPERPARAMETERS["momentum"]
    steps = [sum(momentum**j for j in range(i + 1)) for i in range(TRAIN_STEPS)]
    least = HYPERPARAMETERS["learning_rate"] * HYPERPARAMETERS["weight_decay"] * sum(steps)
    return UNIT_ROUNDOFF[precision] * TRAIN_STEPS / least


def _equal_terms(network: Network, batch_size: int) -> int:
    """A global average pool gives every position of a channel the same gradient, and the bias of a
    convolution before it adds them up.

    MXNet, TensorFlow and Torch7 do that one after the other: 3e-4 off in conv_l1.
    """
    pools = [
        layer.kernel
        for layer in network.layers
        if isinstance(layer, Pool)
        and layer.reduction == "average"
        and layer.kernel == network.input_shapes(layer)[0][1:]
    ]
    return batch_size * max(map(math.prod, pools), default=0)


def _flips(network: Network, precision: str, terms: int) -> float:
    """What flips of ReLUs and max pools can do to a gradient.

    A value errs by about ``e = u sqrt(K L)`` of its size, so about a share ``e`` of a layer's
    elements lies nearer to the edge than that and flips; the gradient's relative L2 changes by
    the root of that share, and by the root of the number of such layers in a row.
    """
    few_bits = precision in OPERAND_ROUNDOFF
    kinks = _longest_path(network, _kinks_in_few_bits if few_bits else _is_kinked)
    if not kinks or precision == "fp64":  # of ten million elements, none lies that near
        return 0.0
    depth = _longest_path(network, lambda layer: isinstance(layer, Conv | Dense))
    if few_bits:
        error = OPERAND_ROUNDOFF[precision] * math.sqrt(2 * max(1, depth))
    else:
        error = UNIT_ROUNDOFF[precision] * math.sqrt(terms * max(1, depth))
    return max(FLIP, math.sqrt(error * kinks))


def _is_kinked(layer: Layer) -> bool:
    return isinstance(layer, ReLU) or (isinstance(layer, Pool) and layer.reduction == "max")


def _kinks_in_few_bits(layer: Layer) -> float:
    """The share of a layer's gradients that flips move, over ``e``.

    Of n values, normally distributed, the largest is about ``sqrt(2 ln n)`` deviations and leads by
    ``1 / sqrt(2 ln n)`` of one: in a share of ``2 ln n e`` of max pooling's windows another comes
    first. That takes a gradient from one place and puts it in another, which counts twice.
    """
    if isinstance(layer, Pool) and layer.reduction == "max":
        return 4 * math.log(max(2, math.prod(layer.kernel)))
    return float(_is_kinked(layer))


def _longest_path(network: Network, counts: Callable[[Layer], float]) -> float:
    """The most that layers count together, on any path from the images to a loss."""
    found: dict[str, float] = {INPUT: 0}
    for layer in network.layers:
        found[layer.name] = max(found[name] for name in layer.inputs) + counts(layer)
    return max(found.values())


def _terms(network: Network, layer: Layer, batch_size: int) -> int:
    """Of the longest of the sums that give the output, the weights' and the input's gradient."""
    weight = layer.parameter_shapes(network.input_shapes(layer))["weight"]
    positions = math.prod(network.shapes[layer.name][1:])
    return max(math.prod(weight[1:]), batch_size * positions, math.prod(weight) // weight[1])
