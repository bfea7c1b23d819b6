"""The neutral network as a ``torch.nn.Module``: straight-line code, written by ``torch.fx``."""

from __future__ import annotations

import functools
import operator
from typing import Any, List

import torch
from torch import fx, nn
from torch.nn import functional as F

from netdyno_worker.network import INPUT, Layer, Network

# What a layer of these kinds puts out is not needed for its own backward pass: a ReLU that is its
# only reader may overwrite it, as torchvision's networks do.
OVERWRITABLE = {"Conv", "Dense", "BatchNorm", "Add"}


def build(network: Network) -> fx.GraphModule:
    """A module that maps images and labels to ``(logits, loss)``."""
    root = nn.Module()
    graph = fx.Graph()
    values = {INPUT: graph.placeholder("images")}
    labels = graph.placeholder("labels")
    kinds = {layer.name: layer.kind for layer in network.layers}
    readers = network.readers()
    losses: List[Any] = []
    for layer in network.layers:
        inputs = [values[name] for name in layer.inputs]
        if layer.kind == "SoftmaxCrossEntropy":
            loss = graph.call_function(F.cross_entropy, (inputs[0], labels))
            if layer.weight != 1:
                loss = graph.call_function(operator.mul, (loss, layer.weight))
            losses.append(loss)
        elif layer.kind == "Concat":
            values[layer.name] = graph.call_function(torch.cat, (inputs, 1))
        elif layer.kind == "Add":
            values[layer.name] = _sum(graph, inputs)
        else:
            source = layer.inputs[0]
            inplace = kinds.get(source) in OVERWRITABLE and readers[source] == 1
            root.add_module(_attribute(layer), _module(layer, network.shape(source), inplace))
            values[layer.name] = graph.call_module(_attribute(layer), tuple(inputs))
    graph.output((values[network.output], _sum(graph, losses)))
    return fx.GraphModule(root, graph, class_name="Netdyno")


def _sum(graph: fx.Graph, terms: List[fx.Node]) -> fx.Node:
    return functools.reduce(lambda a, b: graph.call_function(operator.add, (a, b)), terms)


def parameters(module: nn.Module, network: Network) -> List[nn.Parameter]:
    """In the order of ``network.parameter_shapes()``."""
    return [
        getattr(submodule(module, layer), short)
        for layer in network.layers
        for short in layer.parameters
    ]


def submodule(module: nn.Module, layer: Layer) -> nn.Module:
    """The part of ``module`` that stands for a layer of the network."""
    return module.get_submodule(_attribute(layer))


def _attribute(layer: Layer) -> str:
    """An identifier for any name: ``a/b`` and ``a_b`` are two, and none hides a method."""
    known = (c if c.isalnum() and c < "\x7f" else "_{:x}_".format(ord(c)) for c in layer.name)
    return "layer_" + "".join(known)


def _module(layer: Layer, shape: Any, inplace: bool) -> nn.Module:
    return _MODULES[layer.kind](layer, shape, inplace)


def _conv(layer: Layer, shape: Any, inplace: bool) -> nn.Module:
    return nn.Conv2d(
        shape[0],
        layer.filters,
        layer.kernel,
        layer.stride,
        layer.padding,
        groups=layer.groups,
        bias=layer.bias,
    )


def _pool(layer: Layer, shape: Any, inplace: bool) -> nn.Module:
    geometry = (layer.kernel, layer.stride, layer.padding)
    if layer.reduction == "max":
        return nn.MaxPool2d(*geometry, ceil_mode=layer.ceil_mode)
    if layer.kernel == tuple(shape[1:]) and layer.padding == (0, 0):
        return nn.AdaptiveAvgPool2d(1)
    return nn.AvgPool2d(*geometry, ceil_mode=layer.ceil_mode, count_include_pad=layer.count_padding)


_MODULES = {
    "Conv": _conv,
    "Pool": _pool,
    "ReLU": lambda layer, shape, inplace: nn.ReLU(inplace=inplace),
    "LRN": lambda layer, shape, inplace: nn.LocalResponseNorm(
        layer.size, layer.alpha, layer.beta, layer.k
    ),
    "BatchNorm": lambda layer, shape, inplace: nn.BatchNorm2d(
        shape[0], eps=layer.eps, momentum=layer.momentum
    ),
    "Dense": lambda layer, shape, inplace: nn.Linear(shape[0], layer.units, bias=layer.bias),
    "Dropout": lambda layer, shape, inplace: nn.Dropout(layer.rate),
    "Flatten": lambda layer, shape, inplace: nn.Flatten(),
}
