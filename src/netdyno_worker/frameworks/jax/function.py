"""The neutral network as a pure function of ``jax.numpy`` and ``jax.lax``."""

from __future__ import annotations

from typing import Any, Callable, Dict

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from netdyno_worker.network import INPUT, Layer, Network
from netdyno_worker.pooling import average_counts, explicit_padding


def build(network: Network, channels_last: bool, compute: Any) -> Callable[..., Any]:
    """A function ``(parameters, running, images, labels, key) -> (logits, loss, running)``.

    ``compute``: the type of activations and of the operands of products. Where it is narrower than
    the parameters, statistics, LRN and losses are still computed in theirs.
    """

    def run(parameters, running, images, labels, key):
        wide = images.dtype
        values = {INPUT: images.astype(compute)}
        new_running = {}
        loss = jnp.zeros((), wide)
        for index, layer in enumerate(network.layers):
            inputs = [values[name] for name in layer.inputs]
            own = {short: parameters[layer.name + "." + short] for short in layer.parameters}
            if "weight" in own and layer.kind in ("Conv", "Dense"):
                own["weight"] = own["weight"].astype(compute)
            if layer.kind == "SoftmaxCrossEntropy":
                loss = loss + layer.weight * _cross_entropy(inputs[0].astype(wide), labels)
            elif layer.kind == "BatchNorm":
                out, new_running[layer.name] = _batch_norm(
                    layer, inputs[0].astype(wide), own, running[layer.name], channels_last
                )
                values[layer.name] = out.astype(compute)
            elif layer.kind == "LRN":
                out = _lrn(layer, [inputs[0].astype(wide)], own, channels_last)
                values[layer.name] = out.astype(compute)
            elif layer.kind == "Dropout":
                kept = jax.random.bernoulli(
                    jax.random.fold_in(key, index), 1 - layer.rate, inputs[0].shape
                )
                values[layer.name] = jnp.where(kept, inputs[0] / (1 - layer.rate), 0)
            else:
                values[layer.name] = _LAYERS[layer.kind](layer, inputs, own, channels_last)
        return values[network.output], loss, new_running

    return run


def _cross_entropy(logits, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -jnp.mean(chosen)


def _axes(channels_last: bool) -> Any:
    """Reduction axes of a feature map, and the shape of a per-channel vector that fits it."""
    return ((0, 1, 2), (1, 1, 1, -1)) if channels_last else ((0, 2, 3), (1, -1, 1, 1))


def _spatial(channels_last: bool, pairs: Any, rest: Any) -> Any:
    rows, columns = pairs
    return (rest, rows, columns, rest) if channels_last else (rest, rest, rows, columns)


def _conv(layer: Layer, inputs: Any, own: Dict[str, Any], channels_last: bool) -> Any:
    dims = ("NHWC", "HWIO", "NHWC") if channels_last else ("NCHW", "OIHW", "NCHW")
    out = lax.conv_general_dilated(
        inputs[0],
        own["weight"],
        window_strides=layer.stride,
        padding=[(p, p) for p in layer.padding],
        dimension_numbers=dims,
        feature_group_count=layer.groups,
    )
    if "bias" not in own:
        return out
    return _plus(out, own["bias"].reshape(_axes(channels_last)[1]))


def _plus(x: Any, bias: Any) -> Any:
    """In the bias's precision: its gradient is a sum over all positions, too long for few bits."""
    return (x.astype(bias.dtype) + bias).astype(x.dtype)


def _pool(layer: Layer, inputs: Any, own: Dict[str, Any], channels_last: bool) -> Any:
    x = inputs[0]
    sizes = x.shape[1:3] if channels_last else x.shape[2:4]
    window = _spatial(channels_last, layer.kernel, 1)
    strides = _spatial(channels_last, layer.stride, 1)
    padding = _spatial(channels_last, explicit_padding(layer, sizes), (0, 0))
    if layer.reduction == "max":
        least = np.array(-np.inf, x.dtype)
        return lax.reduce_window(x, least, lax.max, window, strides, padding)
    total = lax.reduce_window(x, np.array(0, x.dtype), lax.add, window, strides, padding)
    return total / _divisor(layer, x.dtype, sizes, channels_last)


def _divisor(layer: Layer, dtype: Any, sizes: Any, channels_last: bool) -> Any:
    """A constant, known when the program is traced; a scalar where it can be one."""
    divisor = average_counts(layer, sizes).astype(dtype)
    if (divisor == divisor[0, 0]).all():
        return divisor[0, 0]
    return divisor[None, :, :, None] if channels_last else divisor[None, None]


def _lrn(layer: Layer, inputs: Any, own: Dict[str, Any], channels_last: bool) -> Any:
    x = inputs[0]
    half = layer.size // 2
    window = (1, 1, 1, layer.size) if channels_last else (1, layer.size, 1, 1)
    pad = (half, layer.size - 1 - half)
    none = (0, 0)
    padding = (none, none, none, pad) if channels_last else (none, pad, none, none)
    total = lax.reduce_window(x * x, 0.0, lax.add, window, (1, 1, 1, 1), padding)
    return x * (layer.k + layer.alpha / layer.size * total) ** -layer.beta


def _batch_norm(layer: Layer, x: Any, own: Any, running: Any, channels_last: bool) -> Any:
    axes, shape = _axes(channels_last)
    mean = jnp.mean(x, axes)
    # One pass over the data, as Flax does: E[x^2] - E[x]^2.
    variance = jnp.maximum(jnp.mean(x * x, axes) - mean * mean, 0)
    scale = own["weight"] * lax.rsqrt(variance + layer.eps)
    out = (x - mean.reshape(shape)) * scale.reshape(shape) + own["bias"].reshape(shape)
    count = x.size // mean.size
    unbiased = variance * (count / max(1, count - 1))
    old_mean, old_variance = running
    new = (
        old_mean + layer.momentum * (mean - old_mean),
        old_variance + layer.momentum * (unbiased - old_variance),
    )
    return out, new


def _flatten(layer: Layer, inputs: Any, own: Dict[str, Any], channels_last: bool) -> Any:
    x = inputs[0].transpose(0, 3, 1, 2) if channels_last else inputs[0]
    return x.reshape(x.shape[0], -1)


def _dense(layer: Layer, inputs: Any, own: Dict[str, Any], channels_last: bool) -> Any:
    out = inputs[0] @ own["weight"]
    return _plus(out, own["bias"]) if "bias" in own else out


_LAYERS = {
    "Conv": _conv,
    "Pool": _pool,
    "Flatten": _flatten,
    "Dense": _dense,
    "ReLU": lambda layer, inputs, own, last: jax.nn.relu(inputs[0]),
    "Concat": lambda layer, inputs, own, last: jnp.concatenate(inputs, axis=-1 if last else 1),
    "Add": lambda layer, inputs, own, last: sum(inputs[1:], inputs[0]),
}
