"""The neutral network as a NetParameter in protobuf's text format: what people call a prototxt.

One Caffe layer for each layer of the network, under its name; batch norm takes two, BatchNorm and
Scale. Images and labels enter through Input layers. ReLU, dropout and batch norm write over their
input, as in Caffe's own models, wherever no backward pass reads it again.

Nothing of Caffe is needed to write one.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Sequence, Tuple

from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.network import INPUT, Layer, Network

# A protobuf message, field by field; a list is a message inside it.
Message = List[Tuple[str, Any]]

# These can write over their input.
IN_PLACE = frozenset(("ReLU", "Dropout", "BatchNorm"))
# The backward pass of a ReLU in place reads the sign of its output, which these leave as it is:
# where dropout has put a zero, it lets no gradient through either.
AFTER_RELU = frozenset(("ReLU", "Dropout"))
NOTHING: FrozenSet[str] = frozenset()


class Word(str):
    """A value without quotes: an enumerator, ``true``."""


class Prototxt(NamedTuple):
    """A NetParameter, and where the network is found in it.

    Attributes:
        text: the NetParameter.
        labels: the blob of labels; that of the images is ``images``.
        blobs: by layer, the blob that holds its output.
        parameters: by neutral name (``conv1.weight``), a Caffe layer and the index of its blob.
    """

    text: str
    labels: str
    blobs: Dict[str, str]
    parameters: Dict[str, Tuple[str, int]]


def prototxt(
    network: Network, batch_size: int, *, in_place: bool = True, fillers: bool = False
) -> Prototxt:
    """Write ``network`` for batches of ``batch_size`` images.

    Args:
        network: as the worker sees it, shapes resolved.
        batch_size: images in a batch.
        in_place: layers write over their input where that changes nothing.
        fillers: weights start at random (He et al. 2015); without, at zero until they are set.

    Raises:
        UnsupportedError: Caffe cannot express a layer, which is named.
    """
    writer = _Writer(network, in_place, fillers)
    layers = [
        _input(INPUT, (batch_size,) + network.input_shape),
        _input(writer.labels, (batch_size,)),
    ]
    for layer in network.layers:
        layers += writer.layers(layer)
    net: Message = [("name", network.name)]
    net += [("layer", message) for message in layers]
    lines = _comment(network) + _lines(net)
    return Prototxt("\n".join(lines) + "\n", writer.labels, writer.blobs, writer.parameters)


class _Writer:
    """Turns layers into messages, one after the other, and keeps the names."""

    def __init__(self, network: Network, in_place: bool, fillers: bool) -> None:
        self._network = network
        self._fillers = fillers
        self._names = {INPUT} | {layer.name for layer in network.layers}
        self._readers = network.readers()
        self._in_place = IN_PLACE if in_place else NOTHING
        # By blob, what may write over it.
        self._open: Dict[str, FrozenSet[str]] = {INPUT: NOTHING}
        self.labels = self._new_name("labels")
        self.blobs = {INPUT: INPUT}
        self.parameters: Dict[str, Tuple[str, int]] = {}

    def layers(self, layer: Layer) -> List[Message]:
        """Caffe's layers for one of ours."""
        bottoms = [self.blobs[name] for name in layer.inputs]
        top = self._top(layer, bottoms[0])
        self.blobs[layer.name] = top
        if layer.kind == "BatchNorm":
            return self._batch_norm(layer, bottoms[0], top)
        for index, short in enumerate(layer.parameters):
            self.parameters[layer.name + "." + short] = (layer.name, index)
        if layer.kind == "SoftmaxCrossEntropy":
            bottoms.append(self.labels)
        kind, rest = _LAYERS[layer.kind](layer, self._network)
        if self._fillers and layer.parameters:
            ((field, settings),) = rest
            rest = [(field, settings + [("weight_filler", [("type", "msra")])])]
        return [_head(layer.name, kind, bottoms, top) + rest]

    def _batch_norm(self, layer: Layer, bottom: str, top: str) -> List[Message]:
        """Two layers: Caffe's BatchNorm has no scale and no bias of its own."""
        if not 0 < layer.momentum <= 1:
            raise UnsupportedError(
                "Caffe's running statistics need a momentum above 0 and at most 1; "
                "layer '{}' has {}".format(layer.name, layer.momentum)
            )
        scale = self._new_name(layer.name + "_scale")
        for index, short in enumerate(("weight", "bias")):
            self.parameters[layer.name + "." + short] = (scale, index)
        settings = [("moving_average_fraction", 1 - layer.momentum), ("eps", layer.eps)]
        norm = _head(layer.name, "BatchNorm", [bottom], top)
        norm.append(("batch_norm_param", settings))
        scaled = _head(scale, "Scale", [top], top)
        scaled.append(("scale_param", [("bias_term", Word("true"))]))
        return [norm, scaled]

    def _top(self, layer: Layer, bottom: str) -> str:
        """The blob that ``layer`` writes: its input's, in place, or one of its own name."""
        alone = self._readers[layer.inputs[0]] == 1
        if alone and layer.kind in self._open[bottom] & self._in_place:
            if layer.kind == "ReLU":
                self._open[bottom] = AFTER_RELU
            return bottom
        # LRN reads its output in the backward pass; Flatten and a Concat of one layer only give
        # their input's memory another shape or name.
        shares = layer.kind == "Flatten" or (layer.kind == "Concat" and len(layer.inputs) == 1)
        self._open[layer.name] = NOTHING if shares or layer.kind == "LRN" else IN_PLACE
        return layer.name

    def _new_name(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name


def _head(name: str, kind: str, bottoms: Sequence[str], top: str) -> Message:
    message: Message = [("name", name), ("type", kind)]
    return message + [("bottom", bottom) for bottom in bottoms] + [("top", top)]


def _input(name: str, shape: Tuple[int, ...]) -> Message:
    dimensions = [("dim", size) for size in shape]
    return _head(name, "Input", [], name) + [("input_param", [("shape", dimensions)])]


# Caffe's type of a layer, and what its message has beyond names.
_Written = Tuple[str, Message]


def _conv(layer: Layer, network: Network) -> _Written:
    settings = [("num_output", layer.filters)] + _windows(layer)
    if layer.groups != 1:
        settings.append(("group", layer.groups))
    return "Convolution", [("convolution_param", settings + _bias(layer))]


def _pool(layer: Layer, network: Network) -> _Written:
    _check_pool(layer)
    method = {"max": "MAX", "average": "AVE"}[layer.reduction]
    settings = [("pool", Word(method))] + _windows(layer) + _rounding(layer, network)
    return "Pooling", [("pooling_param", settings)]


def _check_pool(layer: Layer) -> None:
    padded = layer.padding != (0, 0)
    if layer.reduction == "average" and padded and not layer.count_padding:
        raise UnsupportedError(
            "Caffe's average pool counts padding; layer '{}' does not".format(layer.name)
        )


def _rounding(layer: Layer, network: Network) -> Message:
    """Caffe rounds up unless told otherwise, which it can be only since 2018."""
    sizes = network.shape(layer.inputs[0])[1:]
    expected = layer.output_shape[1:]
    if _pooled(layer, sizes, up=True) == expected:
        return []
    if _pooled(layer, sizes, up=False) == expected:
        return [("round_mode", Word("FLOOR"))]
    raise UnsupportedError(
        "Caffe gives layer '{}' the shape {}, the network says {}".format(
            layer.name, _pooled(layer, sizes, layer.ceil_mode), expected
        )
    )


def _pooled(layer: Layer, sizes: Sequence[int], up: bool) -> Tuple[int, ...]:
    """Height and width that Caffe's PoolingLayer::Reshape computes."""
    shape = []
    for size, kernel, stride, padding in zip(sizes, layer.kernel, layer.stride, layer.padding):
        room = size + 2 * padding - kernel
        count = (-(-room // stride) if up else room // stride) + 1
        # A last window that would start behind the image goes, where there is any padding.
        if layer.padding != (0, 0) and (count - 1) * stride >= size + padding:
            count -= 1
        shape.append(count)
    return tuple(shape)


def _windows(layer: Layer) -> Message:
    """Kernel, stride and padding: one number where height and width agree."""
    settings: Message = []
    for square, single, pair, default in (
        ("kernel_size", "kernel", layer.kernel, None),
        ("stride", "stride", layer.stride, (1, 1)),
        ("pad", "pad", layer.padding, (0, 0)),
    ):
        if pair == default:
            continue
        if pair[0] == pair[1]:
            settings.append((square, pair[0]))
        else:
            settings += [(single + "_h", pair[0]), (single + "_w", pair[1])]
    return settings


def _bias(layer: Layer) -> Message:
    return [] if layer.bias else [("bias_term", Word("false"))]


def _lrn(layer: Layer, network: Network) -> _Written:
    if layer.size % 2 == 0:
        raise UnsupportedError(
            "Caffe's LRN needs an odd size; layer '{}' has {}".format(layer.name, layer.size)
        )
    settings = [
        ("local_size", layer.size),
        ("alpha", layer.alpha),
        ("beta", layer.beta),
        ("k", layer.k),
    ]
    return "LRN", [("lrn_param", settings)]


def _dense(layer: Layer, network: Network) -> _Written:
    settings: Message = [("num_output", layer.units)]
    return "InnerProduct", [("inner_product_param", settings + _bias(layer))]


def _add(layer: Layer, network: Network) -> _Written:
    if len(layer.inputs) < 2:
        raise UnsupportedError("Caffe adds two layers or more; '{}' reads one".format(layer.name))
    return "Eltwise", [("eltwise_param", [("operation", Word("SUM"))])]


def _loss(layer: Layer, network: Network) -> _Written:
    return "SoftmaxWithLoss", [] if layer.weight == 1 else [("loss_weight", layer.weight)]


_LAYERS: Dict[str, Callable[[Layer, Network], _Written]] = {
    "Conv": _conv,
    "Pool": _pool,
    "LRN": _lrn,
    "Dense": _dense,
    "Add": _add,
    "SoftmaxCrossEntropy": _loss,
    "ReLU": lambda layer, network: ("ReLU", []),
    "Concat": lambda layer, network: ("Concat", []),
    "Flatten": lambda layer, network: ("Flatten", []),
    "Dropout": lambda layer, network: (
        "Dropout",
        [("dropout_param", [("dropout_ratio", layer.rate)])],
    ),
}


def _comment(network: Network) -> List[str]:
    switch = {True: "on", False: "off"}
    options = [
        "{}={}".format(name, switch[value] if isinstance(value, bool) else value)
        for name, value in network.options.items()
    ]
    lines = [" ".join([network.name] + options), network.source, "netdyno hash " + network.hash]
    # What a person wrote may have several lines.
    return ["# " + " ".join(line.split()) for line in lines if line]


def _lines(message: Message, indent: str = "") -> List[str]:
    """The text of ``message``: a message in a layer's settings stands in one line."""
    lines = []
    for name, value in message:
        if not isinstance(value, list):
            lines.append("{}{}: {}".format(indent, name, _text(value)))
        elif len(indent) > 2:
            inner = " ".join(_lines(value))
            lines.append("{}{} {{ {} }}".format(indent, name, inner))
        else:
            lines += [indent + name + " {"] + _lines(value, indent + "  ") + [indent + "}"]
    return lines


def _text(value: Any) -> str:
    # JSON and protobuf quote texts alike; other letters may stand as they are, in UTF-8.
    if isinstance(value, str) and not isinstance(value, Word):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
