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
from collections.abc import Iterable, Sequence
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
    """What one operation reads and writes; internal values only, by number.

    ``writes`` is in the order in which buffers are requested.
    """

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
            targets = _internal([output] if rule.forward != "no" else [])
            reuses = [
                Reuse(source, target, rule.forward == "view")
                for target in targets
                for source in reads
            ]
            self._run(layer.name, reads, writes, reuses)

    def backward(self) -> None:
        trained = self._trained()
        gradients: defaultdict[str, list[int]] = defaultdict(list)
        for layer in reversed(self.layers):
            if layer.name not in trained:
                continue
            rule = self.rules.rule(layer)
            known = self._known(layer, rule, gradients[layer.name])
            writes = []
            for name in layer.inputs:
                if name in trained or self.rules.unused_gradients:
                    writes.append(self._value(self.network.shapes[name]))
                if name in trained:
                    gradients[name].append(writes[-1])
            reads = [value for what in rule.reads for value in known[what]]
            sources = known[rule.backward_takes][:1] if rule.backward_takes else ()
            reuses = [
                Reuse(source, target, rule.backward_view) for target in writes for source in sources
            ]
            self._run(f"{layer.name}.backward", reads, writes, reuses)

    def _known(self, layer: Layer, rule: Rule, gradients: list[int]) -> dict[str, tuple[int, ...]]:
        """What a backward pass can read, by the name that a rule has for it.

        Runs the operations that make some of it: sums of gradients, and zeros.
        """
        known = {
            GRADIENT: self._sum(layer.name, gradients),
            INPUT_DATA: _internal(self.data[name] for name in layer.inputs),
            OUTPUT_DATA: _internal([self.data[layer.name]]),
        }
        for saved in rule.saved:
            known[saved.name] = (self.saved[layer.name, saved.name],)
            if saved.gradient:
                zeros = self._saved(layer, saved)
                self._run(f"{layer.name}.zeros", (), (zeros,))
                known[f"{saved.name} gradient"] = (zeros,)
        return known

    def _sum(self, name: str, gradients: list[int]) -> tuple[int, ...]:
        """The gradient of a layer's output; that of a loss is 1, and no array."""
        if len(gradients) < 2:
            return tuple(gradients)
        total = self._value(self.network.shapes[name])
        # MXNet adds into the first one only (tensor/elemwise_sum.cc, FInplaceOption).
        self._run(f"{name}.sum", gradients, (total,), [Reuse(gradients[0], total, view=False)])
        return (total,)

    def _run(
        self,
        name: str,
        reads: Sequence[int],
        writes: Sequence[int],
        reuses: Sequence[Reuse] = (),
    ) -> None:
        if self.rules.largest_first:
            # Of equal ones the last: a multimap, walked backwards.
            writes = sorted(writes, key=lambda value: (self.value_bytes[value], value))[::-1]
        self.operations.append(Operation(name, tuple(reads), tuple(writes), tuple(reuses)))

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
