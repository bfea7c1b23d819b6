"""From a network to the list of operations of one pass, and the internal values they exchange.

The forward pass runs in the network's order, the backward pass in the reverse one. Where several
layers read a value, their gradients are added by one operation of its own, which runs just before
the backward operation that reads the sum (AggregateGradient in MXNet's
``src/executor/graph_executor.cc``).

Internal is what is left without inputs, labels, parameters, their gradients, and the outputs: the
logits of every loss, and the losses themselves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from netdyno.memory.rules import GRADIENT, INPUT_DATA, OUTPUT_DATA, Rule, RuleSet, Saved
from netdyno.networks.graph import INPUT, Layer, Network, Shape, SoftmaxCrossEntropy

__all__ = ["Operation", "Reuse", "Schedule", "expand"]


@dataclass(frozen=True)
class Reuse:
    """``target`` may take the place of ``source``, or is it (``view``)."""

    source: int
    target: int
    view: bool


@dataclass(frozen=True)
class Operation:
    """What one operation reads and writes; internal values only, by number."""

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    reuses: tuple[Reuse, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """Operations in the order in which they run, and the bytes of each value."""

    operations: tuple[Operation, ...]
    value_bytes: tuple[int, ...]


def expand(
    network: Network, *, batch_size: int, itemsize_bytes: int, training: bool, rules: RuleSet
) -> Schedule:
    """The operations of a forward pass, or with ``training`` of forward and backward.

    Raises:
        NetdynoError: a layer that the rules do not know.
    """
    expansion = _Expansion(network, batch_size, itemsize_bytes, rules)
    expansion.forward()
    if training:
        expansion.backward()
    return Schedule(tuple(expansion.operations), tuple(expansion.value_bytes))


class _Expansion:
    def __init__(
        self, network: Network, batch_size: int, itemsize_bytes: int, rules: RuleSet
    ) -> None:
        self.network = network
        self.batch_size = batch_size
        self.itemsize_bytes = itemsize_bytes
        self.rules = rules
        self.layers = _used(network)
        self.outputs = {loss.inputs[0] for loss in network.losses}
        self.operations: list[Operation] = []
        self.value_bytes: list[int] = []
        # None stands for memory that is not internal.
        self.data: dict[str, int | None] = {INPUT: None}
        self.saved: dict[tuple[str, str], int] = {}

    def forward(self) -> None:
        for layer in self.layers:
            rule = self.rules.rule(layer)
            reads = _internal(self.data[name] for name in layer.inputs)
            external = layer.name in self.outputs or isinstance(layer, SoftmaxCrossEntropy)
            output = None if external else self._value(self.network.shapes[layer.name])
            self.data[layer.name] = output
            writes = list(_internal([output]))
            for saved in rule.saved:
                self.saved[layer.name, saved.name] = self._saved(layer, saved)
                writes.append(self.saved[layer.name, saved.name])
            reuses: tuple[Reuse, ...] = ()
            if output is not None and rule.forward != "no":
                reuses = tuple(Reuse(read, output, rule.forward == "view") for read in reads)
            self.operations.append(Operation(layer.name, reads, tuple(writes), reuses))

    def backward(self) -> None:
        trained = self._trained()
        gradients: defaultdict[str, list[int]] = defaultdict(list)
        for layer in reversed(self.layers):
            if layer.name not in trained:
                continue
            rule = self.rules.rule(layer)
            found = {GRADIENT: self._sum(layer.name, gradients[layer.name])}
            found |= self._zeros(layer, rule)
            writes = []
            for name in layer.inputs:
                if name in trained or self.rules.unused_gradients:
                    writes.append(self._value(self.network.shapes[name]))
                if name in trained:
                    gradients[name].append(writes[-1])
            taken = None if rule.backward_takes is None else self._find(layer, rule, found)
            reuses = (
                ()
                if taken is None
                else tuple(Reuse(taken, write, rule.backward_view) for write in writes)
            )
            reads = self._backward_reads(layer, rule, found)
            self.operations.append(
                Operation(f"{layer.name}.backward", reads, tuple(writes), reuses)
            )

    def _backward_reads(
        self, layer: Layer, rule: Rule, found: dict[str, int | None]
    ) -> tuple[int, ...]:
        reads: list[int | None] = []
        for what in rule.reads:
            if what == INPUT_DATA:
                reads += [self.data[name] for name in layer.inputs]
            else:
                reads.append(self._one(layer, what, found))
        return _internal(reads)

    def _find(self, layer: Layer, rule: Rule, found: dict[str, int | None]) -> int | None:
        """What the gradient of an input may take the place of."""
        assert rule.backward_takes is not None
        if rule.backward_takes == INPUT_DATA:
            return self.data[layer.inputs[0]]
        return self._one(layer, rule.backward_takes, found)

    def _one(self, layer: Layer, what: str, found: dict[str, int | None]) -> int | None:
        if what in found:
            return found[what]
        return self.data[layer.name] if what == OUTPUT_DATA else self.saved[layer.name, what]

    def _sum(self, name: str, gradients: list[int]) -> int | None:
        if not gradients:  # that of a loss is 1
            return None
        if len(gradients) == 1:
            return gradients[0]
        total = self._value(self.network.shapes[name])
        # MXNet adds into the first one only (tensor/elemwise_sum.cc, FInplaceOption).
        reuses = (Reuse(gradients[0], total, view=False),)
        self.operations.append(Operation(f"{name}.sum", tuple(gradients), (total,), reuses))
        return total

    def _zeros(self, layer: Layer, rule: Rule) -> dict[str, int | None]:
        """The gradients, all zeros, of what only the backward pass reads."""
        zeros: dict[str, int | None] = {}
        for saved in rule.saved:
            if saved.gradient:
                value = self._saved(layer, saved)
                self.operations.append(Operation(f"{layer.name}.zeros", (), (value,)))
                zeros[f"{saved.name} gradient"] = value
        return zeros

    def _trained(self) -> set[str]:
        """Layers with parameters at or below them: those with a backward pass."""
        trained: set[str] = set()
        for layer in self.layers:
            parameters = layer.parameter_shapes(self.network.input_shapes(layer))
            if parameters or trained.intersection(layer.inputs):
                trained.add(layer.name)
        return trained

    def _saved(self, layer: Layer, saved: Saved) -> int:
        source = self.network.input_shapes(layer)[0]
        if saved.size_of == "output":
            source = self.network.shapes[layer.name]
        itemsize_bytes = saved.itemsize_bytes or self.itemsize_bytes
        if saved.size_of == "channels":
            return self._add(source[0] * itemsize_bytes)
        return self._add(self.batch_size * math.prod(source) * itemsize_bytes)

    def _value(self, shape: Shape) -> int:
        return self._add(self.batch_size * math.prod(shape) * self.itemsize_bytes)

    def _add(self, size_bytes: int) -> int:
        self.value_bytes.append(size_bytes)
        return len(self.value_bytes) - 1


def _used(network: Network) -> list[Layer]:
    """The layers that some loss depends on, in the network's order."""
    needed = {loss.name for loss in network.losses}
    used = []
    for layer in reversed(network.layers):
        if layer.name in needed:
            needed.update(layer.inputs)
            used.append(layer)
    return used[::-1]


def _internal(values: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(value for value in values if value is not None)
