"""ONNX's nodes, one by one, as layers of the neutral network.

Every attribute is read; one that is not known is an error, never ignored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netdyno.errors import NetdynoError
from netdyno.networks.graph import (
    LRN,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Pool,
    ReLU,
    Shape,
)
from netdyno.networks.importers.assembly import Assembly, shape_text
from netdyno.networks.importers.onnx_node import Node, padding_of, window_of
from netdyno.networks.importers.onnx_values import Constants, Padding

__all__ = ["Translator"]


class Translator:
    """Adds ONNX's nodes to an assembly, in the order of the file.

    Args:
        weights: ONNX's stored tensors by name.
        nodes: all of the graph: what one becomes may depend on who reads it.
        batch: the images that the file was made for, if it says so.
    """

    def __init__(
        self,
        assembly: Assembly,
        weights: Mapping[str, Any],
        nodes: Sequence[Any],
        batch: int | None,
    ) -> None:
        self._assembly = assembly
        self._constants = Constants(weights)
        self._nodes = nodes
        self._batch = batch
        # Shapes that the graph computes on their way to a Reshape; None stands for the batch.
        self._sizes: dict[str, list[int | None]] = {}
        self._padding: dict[str, Padding] = {}
        self._weight_of: dict[str, str] = {}
        self._absorbed: set[int] = set()

    def translate(self, node: Node) -> None:
        """Raises NetdynoError, without the node's name, for what is not supported."""
        translate = _TRANSLATE.get(node.type)
        if translate is None:
            raise NetdynoError(f"not supported; netdyno reads {', '.join(sorted(_TRANSLATE))}")
        for output in node.outputs[1:]:
            if output and any(output in other.input for other in self._nodes):
                raise NetdynoError(f"its second output '{output}' is read: not supported")
        if node.index in self._absorbed:
            return
        try:
            translate(self, node)
        except (IndexError, TypeError, ValueError) as error:
            raise NetdynoError(f"is not as ONNX defines it: {error}") from error

    def _source(self, node: Node) -> str:
        """The layer that the first input stands for."""
        if not node.has(0):
            raise NetdynoError("has no input")
        return self._read(node.inputs[0])

    def _read(self, value: str) -> str:
        if value in self._padding:
            raise NetdynoError(
                f"reads '{value}', a Pad: one is only supported before Conv and AveragePool"
            )
        if value in self._constants:
            raise NetdynoError(f"reads the constant '{value}': not supported here")
        if value in self._sizes:
            raise NetdynoError(f"reads '{value}', a shape: not supported here")
        return self._assembly.layer(value)

    def _map(self, node: Node) -> tuple[str, Shape]:
        """The layer that is read and its shape, which must be that of feature maps."""
        source = self._source(node)
        shape = self._assembly.shape(source)
        if len(shape) != 3:
            raise NetdynoError(f"needs feature maps, but reads {shape_text(shape)}")
        return source, shape

    def _padded_map(self, node: Node) -> tuple[str, Shape, Padding]:
        """As ``_map``, but of a Pad what it pads, and by how much."""
        value = node.inputs[0] if node.has(0) else ""
        if value not in self._padding:
            return (*self._map(node), Padding())
        padding = self._padding[value]
        return padding.layer, self._assembly.shape(padding.layer), padding

    def _weight(self, node: Node, index: int, dimensions: int) -> Shape:
        """Shape of the weights that a Conv or a matrix product reads."""
        value = node.inputs[index] if node.has(index) else ""
        shape = self._constants.shape(value)
        if shape is None:
            raise NetdynoError(f"its weights '{value}' are computed, not stored: not supported")
        if len(shape) != dimensions:
            what = "2-D convolutions only" if dimensions == 4 else "matrices only"
            raise NetdynoError(f"its weights are {shape_text(shape)}; {what} are supported")
        stored = self._constants.stored(value)
        if self._weight_of.setdefault(stored, node.outputs[0]) != node.outputs[0]:
            raise NetdynoError(
                f"shares its weights '{stored}' with '{self._weight_of[stored]}': not supported"
            )
        return shape

    def conv(self, node: Node) -> None:
        node.only("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
        source, shape, before = self._padded_map(node)
        weight = self._weight(node, 1, 4)
        groups = node.attributes.get("group", 1)
        _fits(weight[1] * groups, shape[0], "channels")
        kernel, stride = window_of(node, (weight[2], weight[3]))
        padding = before.plus(padding_of(node, shape, kernel, stride)).symmetric()
        conv = Conv(node.name, (source,), weight[0], kernel, stride, padding, groups, node.has(2))
        self._assembly.add(conv, node.outputs[0])

    def max_pool(self, node: Node) -> None:
        known = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
        node.only(*known, "storage_order")
        source, shape = self._map(node)
        kernel, stride = window_of(node, None)
        padding = padding_of(node, shape, kernel, stride).symmetric()
        ceil_mode = bool(node.attributes.get("ceil_mode", 0))
        self._pool(node, Pool(node.name, (source,), "max", kernel, stride, padding, ceil_mode))

    def average_pool(self, node: Node) -> None:
        known = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
        node.only(*known, "count_include_pad")
        source, shape, before = self._padded_map(node)
        kernel, stride = window_of(node, None)
        own = padding_of(node, shape, kernel, stride)
        ceil_mode = bool(node.attributes.get("ceil_mode", 0))
        count_padding = bool(node.attributes.get("count_include_pad", 0))
        if before.any and (ceil_mode or (own.any and not count_padding)):
            raise NetdynoError("a Pad before this pooling is not supported")
        padding = before.plus(own).symmetric()
        pool = Pool(
            node.name,
            (source,),
            "average",
            kernel,
            stride,
            padding,
            ceil_mode,
            # What a Pad has put there is part of the image.
            count_padding or before.any,
        )
        self._pool(node, pool)

    def _pool(self, node: Node, pool: Pool) -> None:
        if (pool.kernel, pool.stride, pool.padding) == ((1, 1), (1, 1), (0, 0)):
            self._assembly.note(f"'{node.name}' was left out: a pooling of 1x1 changes nothing")
            self._assembly.define(node.outputs[0], pool.inputs[0])
        else:
            self._assembly.add(pool, node.outputs[0])

    def global_average_pool(self, node: Node) -> None:
        node.only()
        self._assembly.global_pool(self._source(node), node.name, "average", node.outputs[0])

    def global_max_pool(self, node: Node) -> None:
        node.only()
        self._assembly.global_pool(self._source(node), node.name, "max", node.outputs[0])

    def reduce_mean(self, node: Node) -> None:
        node.only("axes", "keepdims", "noop_with_empty_axes")
        source, _ = self._map(node)
        axes = node.attributes.get("axes")
        if node.has(1):
            axes = self._constants.integers(node.inputs[1])
        if axes is None or sorted(axis % 4 for axis in axes) != [2, 3]:
            raise NetdynoError("a mean over other axes than height and width is not supported")
        if node.attributes.get("keepdims", 1):
            self._assembly.global_pool(source, node.name, "average", node.outputs[0])
            return
        pool = self._assembly.global_pool(source, node.name, "average")
        self._assembly.define(node.outputs[0], self._assembly.flat(pool))

    def relu(self, node: Node) -> None:
        node.only()
        self._assembly.add(ReLU(node.name, (self._source(node),)), node.outputs[0])

    def lrn(self, node: Node) -> None:
        node.only("size", "alpha", "beta", "bias")
        if "size" not in node.attributes:
            raise NetdynoError("has no size")
        # As here, alpha is divided by the size.
        lrn = LRN(
            node.name,
            (self._source(node),),
            node.attributes["size"],
            node.number("alpha", 1e-4),
            node.number("beta", 0.75),
            node.number("bias", 1.0),
        )
        self._assembly.add(lrn, node.outputs[0])

    def batch_norm(self, node: Node) -> None:
        node.only("epsilon", "momentum", "training_mode", "spatial")
        node.must(spatial=1)
        # ONNX's momentum is the share of the old value.
        momentum = round(1 - node.number("momentum", 0.9), 7)
        norm = BatchNorm(node.name, (self._source(node),), node.number("epsilon", 1e-5), momentum)
        self._assembly.add(norm, node.outputs[0])

    def concat(self, node: Node) -> None:
        node.only("axis")
        if all(value in self._sizes or value in self._constants for value in node.inputs):
            parts = map(self._size, node.inputs)
            self._sizes[node.outputs[0]] = list(itertools.chain.from_iterable(parts))
            return
        node.must(axis=1 if node.attributes.get("axis") != -3 else -3)
        layers = tuple(map(self._read, node.inputs))
        self._assembly.add(Concat(node.name, layers), node.outputs[0])

    def add(self, node: Node) -> None:
        node.only()
        for value in node.inputs:
            if value in self._constants:
                raise NetdynoError(
                    f"adds the constant '{value}': only supported right after a MatMul, as its bias"
                )
        layers = tuple(map(self._read, node.inputs))
        if len(layers) == 1:
            self._assembly.define(node.outputs[0], layers[0])
        else:
            self._assembly.add(Add(node.name, layers), node.outputs[0])

    def gemm(self, node: Node) -> None:
        node.only("alpha", "beta", "transA", "transB")
        node.must(alpha=1.0, beta=1.0, transA=0)
        features, units = self._weight(node, 1, 2)
        if node.attributes.get("transB", 0):
            features, units = units, features
        self._dense(node, features, units, node.has(2), node.outputs[0])

    def mat_mul(self, node: Node) -> None:
        """With the Add after it, where that adds a bias."""
        node.only()
        features, units = self._weight(node, 1, 2)
        output, bias = node.outputs[0], False
        readers = [(i, other) for i, other in enumerate(self._nodes) if output in other.input]
        if len(readers) == 1 and readers[0][1].op_type == "Add":
            index, add = readers[0]
            (other,) = [value for value in add.input if value != output] or [""]
            if other and self._constants.shape(other) in ((units,), (1, units)):
                output, bias = add.output[0], True
                self._absorbed.add(index)
        self._dense(node, features, units, bias, output)

    def _dense(self, node: Node, features: int, units: int, bias: bool, output: str) -> None:
        source = self._source(node)
        shape = self._assembly.shape(source)
        if len(shape) != 1:
            raise NetdynoError(f"reads {shape_text(shape)}: a Flatten must come before it")
        _fits(features, shape[0], "features")
        self._assembly.add(Dense(node.name, (source,), units, bias), output)

    def flatten(self, node: Node) -> None:
        node.only("axis")
        if node.attributes.get("axis", 1) not in (1, -3):
            raise NetdynoError(f"axis {node.attributes['axis']} is not supported")
        self._flat(node)

    def _flat(self, node: Node) -> None:
        source = self._source(node)
        if len(self._assembly.shape(source)) == 1:
            self._assembly.define(node.outputs[0], source)
        else:
            self._assembly.add(Flatten(node.name, (source,)), node.outputs[0])

    def reshape(self, node: Node) -> None:
        """To one row for each image, however its shape is written."""
        node.only("allowzero", "shape")
        source = self._source(node)
        features = math.prod(self._assembly.shape(source))
        sizes = node.attributes.get("shape") or self._size(node.inputs[1] if node.has(1) else "")
        rows = {None, 0, -1, self._batch or (sizes or [None])[0]}
        if len(sizes) != 2 or sizes[0] not in rows or sizes[1] not in (-1, features):
            written = ", ".join("N" if size is None else str(size) for size in sizes)
            raise NetdynoError(
                f"to ({written}) is not supported: only to one row for each image, "
                f"(N, {features}) here"
            )
        self._flat(node)

    def squeeze(self, node: Node) -> None:
        """Of 1x1 maps, which makes them a row; or of a shape that is being computed."""
        node.only("axes")
        if node.inputs[0] in self._sizes:
            self._sizes[node.outputs[0]] = self._size(node.inputs[0])
            return
        axes = node.attributes.get("axes")
        if node.has(1):
            axes = self._constants.integers(node.inputs[1])
        _, shape = self._map(node)
        if axes is None or sorted(a % 4 for a in axes) != [2, 3] or shape[1:] != (1, 1):
            raise NetdynoError("only supported for maps of 1x1, axes 2 and 3")
        self._flat(node)

    def dropout(self, node: Node) -> None:
        node.only("ratio", "seed", "is_test", "consumed_inputs")
        rate = node.number("ratio", 0.5)
        if node.has(1):
            rate = self._constants.number(node.inputs[1])
        self._assembly.add(Dropout(node.name, (self._source(node),), rate), node.outputs[0])

    def identity(self, node: Node) -> None:
        value, output = node.inputs[0], node.outputs[0]
        if value in self._constants:
            self._constants.alias(output, value)
        elif value in self._sizes:
            self._sizes[output] = self._size(value)
        else:
            self._assembly.define(output, self._read(value))

    def softmax(self, node: Node) -> None:
        node.only("axis")
        source = self._source(node)
        if node.attributes.get("axis", 1) not in (1, -1):
            raise NetdynoError(f"axis {node.attributes['axis']} is not supported")
        self._assembly.define_softmax(node.outputs[0], source)
        self._assembly.note(f"'{node.name}' ({node.type}) is part of the loss")

    def pad(self, node: Node) -> None:
        node.only("mode", "pads", "value")
        node.must(mode="constant", value=0.0)
        if node.has(2) and self._constants.number(node.inputs[2]) != 0:
            raise NetdynoError("padding with another value than 0 is not supported")
        source, _ = self._map(node)
        pads = node.attributes.get("pads")
        if node.has(1):
            pads = self._constants.integers(node.inputs[1])
        if node.has(3) or pads is None or len(pads) != 8 or any(pads[i] for i in (0, 1, 4, 5)):
            raise NetdynoError("only height and width can be padded, by fixed amounts")
        _, _, top, left, _, _, bottom, right = pads
        self._padding[node.outputs[0]] = Padding(source, top, left, bottom, right)

    def constant(self, node: Node) -> None:
        self._constants.define(node.outputs[0], node.attributes)

    def shape(self, node: Node) -> None:
        node.only()
        batch: list[int | None] = [None]
        self._sizes[node.outputs[0]] = [*batch, *self._assembly.shape(self._source(node))]

    def gather(self, node: Node) -> None:
        node.only("axis")
        node.must(axis=0)
        sizes = self._size(node.inputs[0])
        picked = self._constants.integers(node.inputs[1])
        if any(not -len(sizes) <= index < len(sizes) for index in picked):
            raise NetdynoError(f"picks {picked} of {len(sizes)} sizes")
        self._sizes[node.outputs[0]] = [sizes[index] for index in picked]

    def same_size(self, node: Node) -> None:
        """What a shape goes through on its way to a Reshape without becoming another."""
        self._sizes[node.outputs[0]] = self._size(node.inputs[0])

    def _size(self, value: str) -> list[int | None]:
        """The numbers of a shape, None for the batch."""
        if value in self._constants:
            return list(self._constants.integers(value))
        if value in self._sizes:
            return self._sizes[value]
        raise NetdynoError(f"'{value}' is computed in a way that is not supported")


def _fits(stored: int, found: int, what: str) -> None:
    if stored != found:
        raise NetdynoError(
            f"its weights are for {stored} {what}, but it reads {found}: "
            "use the input size that the file was made for"
        )


_TRANSLATE: dict[str, Callable[[Translator, Node], None]] = {
    "Add": Translator.add,
    "AveragePool": Translator.average_pool,
    "BatchNormalization": Translator.batch_norm,
    "Cast": Translator.same_size,
    "Concat": Translator.concat,
    "Constant": Translator.constant,
    "Conv": Translator.conv,
    "Dropout": Translator.dropout,
    "Flatten": Translator.flatten,
    "Gather": Translator.gather,
    "Gemm": Translator.gemm,
    "GlobalAveragePool": Translator.global_average_pool,
    "GlobalMaxPool": Translator.global_max_pool,
    "Identity": Translator.identity,
    "LRN": Translator.lrn,
    "LogSoftmax": Translator.softmax,
    "MatMul": Translator.mat_mul,
    "MaxPool": Translator.max_pool,
    "Pad": Translator.pad,
    "ReduceMean": Translator.reduce_mean,
    "Relu": Translator.relu,
    "Reshape": Translator.reshape,
    "Shape": Translator.shape,
    "Softmax": Translator.softmax,
    "Squeeze": Translator.squeeze,
    "Sum": Translator.add,
    "Unsqueeze": Translator.same_size,
}
