"""The neutral network as a functional Keras model: layers where Keras has one, ``keras.ops`` else.

Imported when the backend is chosen and the data types are set.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import keras
import numpy as np
from keras import layers, ops

from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.network import INPUT, Layer, Network
from netdyno_worker.pooling import average_counts, explicit_padding

# What Keras calls the parameters of a layer.
PARAMETERS = {
    "Conv": {"weight": "kernel", "bias": "bias"},
    "Dense": {"weight": "kernel", "bias": "bias"},
    "BatchNorm": {"weight": "gamma", "bias": "beta"},
}


class Built(NamedTuple):
    """``model`` maps images to what each loss reads.

    Variables are keyed by the names of the neutral network; ``running`` holds mean and variance.
    """

    model: Any
    weights: List[float]
    parameters: Dict[str, Any]
    running: Dict[str, Tuple[Any, Any]]

    def judged(self, outputs: Any, labels: Any) -> Tuple[Any, Any]:
        """The network's logits; the means over the batch, times their weights, added up."""
        # Keras takes a single output out of its list.
        logits = outputs if isinstance(outputs, list) else [outputs]
        one = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        terms = [
            one(labels, found) if weight == 1 else weight * one(labels, found)
            for weight, found in zip(self.weights, logits)
        ]
        return logits[-1], sum(terms[1:], terms[0])


def build(network: Network, batch_size: int, channels_last: bool, seed: int) -> Built:
    """Parameters are uninitialized, or rather random: they are to be loaded."""
    context = _Context(channels_last, seed)
    images = keras.Input(context.shape(network.input_shape), batch_size=batch_size)
    values = {INPUT: images}
    made: Dict[str, Any] = {}
    losses = [layer for layer in network.layers if layer.kind == "SoftmaxCrossEntropy"]
    for layer in network.layers:
        inputs = [values[name] for name in layer.inputs]
        if layer.kind in PARAMETERS:
            made[layer.name] = _WITH_PARAMETERS[layer.kind](layer, context)
            values[layer.name] = made[layer.name](context.padded(layer, inputs[0]))
        elif layer.kind != "SoftmaxCrossEntropy":
            values[layer.name] = _LAYERS[layer.kind](layer, inputs, context)
    return Built(
        keras.Model(images, [values[layer.inputs[0]] for layer in losses]),
        [layer.weight for layer in losses],
        {
            layer.name + "." + short: getattr(made[layer.name], PARAMETERS[layer.kind][short])
            for layer in network.layers
            for short in layer.parameters
        },
        {
            layer.name: (made[layer.name].moving_mean, made[layer.name].moving_variance)
            for layer in network.batch_norms()
        },
    )


class _Context:
    """What every layer of one model shares."""

    def __init__(self, channels_last: bool, seed: int) -> None:
        self.channels_last = channels_last
        self.format = "channels_last" if channels_last else "channels_first"
        self.axis = -1 if channels_last else 1
        self.seeds = itertools.count(seed)  # one for each dropout

    def shape(self, shape: Any) -> Tuple[int, ...]:
        """Of channels first."""
        return (*shape[1:], shape[0]) if self.channels_last else tuple(shape)

    def spatial(self, x: Any) -> Tuple[int, int]:
        """Height and width."""
        rows, columns = x.shape[1:3] if self.channels_last else x.shape[2:4]
        return rows, columns

    def around(self, pads: Any, x: Any, value: float) -> Any:
        """``x`` with ``value`` around its height and width."""
        if pads == [(0, 0), (0, 0)]:
            return x
        none = (0, 0)
        widths = (none, *pads, none) if self.channels_last else (none, none, *pads)
        return ops.pad(x, widths, constant_values=value)

    def padded(self, layer: Layer, x: Any) -> Any:
        """Where a convolution's padding is neither ``same`` nor ``valid``, a layer of its own."""
        if layer.kind != "Conv" or _is_same(layer) or layer.padding == (0, 0):
            return x
        return layers.ZeroPadding2D(layer.padding, data_format=self.format)(x)


def _is_same(layer: Layer) -> bool:
    """Whether Keras' ``same`` means the padding of this convolution."""
    centred = all(k == 2 * p + 1 for k, p in zip(layer.kernel, layer.padding))
    return centred and layer.stride == (1, 1)


def _is_narrowed() -> bool:
    """Whether Keras brings what is promoted to fewer bits: float64 to float32, but over TensorFlow.

    Batch norm promotes what it is given, and so does every mean.
    """
    floatx = keras.config.floatx()
    return bool(keras.backend.result_type(floatx, "float32") != floatx)


def _conv(layer: Layer, context: _Context) -> Any:
    return layers.Conv2D(
        layer.filters,
        layer.kernel,
        strides=layer.stride,
        padding="same" if _is_same(layer) else "valid",
        data_format=context.format,
        groups=layer.groups,
        use_bias=layer.bias,
    )


def _batch_norm(layer: Layer, context: _Context) -> Any:
    if _is_narrowed():
        raise UnsupportedError("Keras has batch norm in single precision only")
    return layers.BatchNormalization(
        axis=context.axis, momentum=1 - layer.momentum, epsilon=layer.eps
    )


def _dense(layer: Layer, context: _Context) -> Any:
    return layers.Dense(layer.units, use_bias=layer.bias)


def _pool(layer: Layer, inputs: List[Any], context: _Context) -> Any:
    x = inputs[0]
    sizes = context.spatial(x)
    pads = explicit_padding(layer, sizes)
    same = pads == _same_pads(layer, sizes)
    how = {"strides": layer.stride, "data_format": context.format}
    if layer.reduction == "max":
        if same:
            return layers.MaxPooling2D(layer.kernel, padding="same", **how)(x)
        return layers.MaxPooling2D(layer.kernel, **how)(context.around(pads, x, -np.inf))
    whole = layer.kernel == tuple(sizes) and pads == [(0, 0)] * 2
    if whole and not _is_narrowed():
        return layers.GlobalAveragePooling2D(data_format=context.format, keepdims=True)(x)
    # One-sided `same` is left alone: over PyTorch it repeats the edge, and counts it.
    centred = all(before == after for before, after in pads)
    if same and centred and not layer.count_padding:
        return layers.AveragePooling2D(layer.kernel, padding="same", **how)(x)
    average = layers.AveragePooling2D(layer.kernel, **how)(context.around(pads, x, 0))
    factor = layer.kernel[0] * layer.kernel[1] / average_counts(layer, sizes)
    if (factor == 1).all():
        return average
    factor = factor[None, :, :, None] if context.channels_last else factor[None, None]
    return average * ops.convert_to_tensor(factor, dtype=average.dtype)


def _same_pads(layer: Layer, sizes: Any) -> Any:
    """What ``same`` would pad."""
    total = [
        max(0, (-(-size // s) - 1) * s + k - size)
        for size, s, k in zip(sizes, layer.stride, layer.kernel)
    ]
    return [(t // 2, t - t // 2) for t in total]


class LocalResponseNormalization(layers.Layer):
    """What a person writes: Keras has none."""

    def __init__(self, layer: Layer, axis: int) -> None:
        super().__init__()
        self.constants = (layer.size, layer.alpha, layer.beta, layer.k)
        self.axis = axis

    def call(self, x: Any) -> Any:
        size, alpha, beta, k = self.constants
        # Squares leave the range of half precision: in single, as Keras' batch norm does it.
        wide = x if self.compute_dtype == "float64" else ops.cast(x, "float32")
        before = size // 2
        widths = [(0, 0)] * 4
        widths[self.axis] = (before, size - 1 - before)
        squares = ops.pad(wide * wide, widths)
        total = sum(self._shifted(squares, i, x.shape[self.axis]) for i in range(size))
        return ops.cast(wide * (k + alpha / size * total) ** -beta, self.compute_dtype)

    def _shifted(self, squares: Any, start: int, channels: int) -> Any:
        chosen = slice(start, start + channels)
        return squares[..., chosen] if self.axis == -1 else squares[:, chosen]

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def _flatten(layer: Layer, inputs: List[Any], context: _Context) -> Any:
    """In C, H, W order. Keras' Flatten would bring channels first to H, W, C."""
    x = inputs[0]
    if context.channels_last and context.spatial(x) != (1, 1):
        x = layers.Permute((3, 1, 2))(x)
    return layers.Reshape((-1,))(x)


_WITH_PARAMETERS: Dict[str, Callable[[Layer, _Context], Any]] = {
    "Conv": _conv,
    "BatchNorm": _batch_norm,
    "Dense": _dense,
}

_LAYERS: Dict[str, Callable[[Layer, List[Any], _Context], Any]] = {
    "Pool": _pool,
    "Flatten": _flatten,
    "ReLU": lambda layer, inputs, context: layers.ReLU()(inputs[0]),
    "LRN": lambda layer, inputs, context: LocalResponseNormalization(layer, context.axis)(
        inputs[0]
    ),
    "Concat": lambda layer, inputs, context: layers.Concatenate(axis=context.axis)(inputs),
    "Add": lambda layer, inputs, context: layers.Add()(inputs),
    "Dropout": lambda layer, inputs, context: layers.Dropout(layer.rate, seed=next(context.seeds))(
        inputs[0]
    ),
}
