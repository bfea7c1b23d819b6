"""The neutral network in TensorFlow operations, channels last."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import tensorflow as tf

from netdyno_worker.network import INPUT, Layer, Network
from netdyno_worker.pooling import average_counts, explicit_padding


def build(
    network: Network, variables: Dict[str, Any], running: Dict[str, Any], xla: bool
) -> Callable[..., Any]:
    """A function ``(images, labels) -> (logits, loss)`` that updates ``running``."""

    def run(images, labels):
        values = {INPUT: images}
        losses: List[Any] = []
        for layer in network.layers:
            inputs = [values[name] for name in layer.inputs]
            own = {short: variables[layer.name + "." + short] for short in layer.parameters}
            if layer.kind == "SoftmaxCrossEntropy":
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels, inputs[0])
                )
                losses.append(loss if layer.weight == 1 else layer.weight * loss)
            elif layer.kind == "BatchNorm":
                values[layer.name] = _batch_norm(layer, inputs[0], own, running[layer.name])
            elif layer.kind == "Conv":
                values[layer.name] = _conv(layer, inputs[0], own, xla)
            else:
                values[layer.name] = _LAYERS[layer.kind](layer, inputs, own)
        return values[network.output], losses[0] if len(losses) == 1 else tf.add_n(losses)

    return run


def _conv(layer: Layer, x: Any, own: Dict[str, Any], xla: bool) -> Any:
    weight = tf.convert_to_tensor(own["weight"])
    padding, x = _conv_padding(layer, x)
    if layer.groups > 1 and not xla:
        # The gradient of a grouped convolution is not there on CPU: one convolution a group.
        out = tf.concat(
            [
                tf.nn.conv2d(part, kernel, layer.stride, padding)
                for part, kernel in zip(
                    tf.split(x, layer.groups, axis=3), tf.split(weight, layer.groups, axis=3)
                )
            ],
            axis=3,
        )
    else:
        out = tf.nn.conv2d(x, weight, layer.stride, padding)
    return tf.nn.bias_add(out, own["bias"]) if "bias" in own else out


def _conv_padding(layer: Layer, x: Any) -> Any:
    """``SAME`` or ``VALID`` where they mean the same, else a pad before ``VALID``.

    An explicit padding in ``tf.nn.conv2d`` would leave oneDNN in the backward pass, and be half
    again as slow there.
    """
    if layer.padding == (0, 0):
        return "VALID", x
    centred = all(k == 2 * p + 1 for k, p in zip(layer.kernel, layer.padding))
    if centred and layer.stride == (1, 1):
        return "SAME", x
    rows, columns = layer.padding
    return "VALID", tf.pad(x, [[0, 0], [rows, rows], [columns, columns], [0, 0]])


def _pool(layer: Layer, inputs: Any, own: Dict[str, Any]) -> Any:
    x = inputs[0]
    sizes = x.shape[1:3]
    pads = explicit_padding(layer, sizes)
    if layer.reduction == "average" and layer.kernel == tuple(sizes) and pads == [(0, 0)] * 2:
        return tf.reduce_mean(x, [1, 2], keepdims=True)
    geometry = (layer.kernel, layer.stride)
    if layer.reduction == "max":
        if _same_pads(layer, sizes) == pads:
            return tf.nn.max_pool2d(x, *geometry, "SAME")
        return tf.nn.max_pool2d(_padded(x, pads, x.dtype.min), *geometry, "VALID")
    if not layer.count_padding and _same_pads(layer, sizes) == pads:
        return tf.nn.avg_pool2d(x, *geometry, "SAME")  # which counts real positions only
    average = tf.nn.avg_pool2d(_padded(x, pads, 0), *geometry, "VALID")
    correction = _correction(layer, sizes)
    return average if correction is None else average * tf.constant(correction, x.dtype)


def _same_pads(layer: Layer, sizes: Any) -> Any:
    """What ``SAME`` would pad."""
    total = [
        max(0, (-(-size // s) - 1) * s + k - size)
        for size, s, k in zip(sizes, layer.stride, layer.kernel)
    ]
    return [(t // 2, t - t // 2) for t in total]


def _padded(x: Any, pads: Any, value: Any) -> Any:
    if pads == [(0, 0), (0, 0)]:
        return x
    return tf.pad(x, [(0, 0), *pads, (0, 0)], constant_values=value)


def _correction(layer: Layer, sizes: Any) -> Any:
    """Kernel size over the number of positions that count, or None where they are equal."""
    factor = layer.kernel[0] * layer.kernel[1] / average_counts(layer, sizes)
    return None if (factor == 1).all() else factor[None, :, :, None]


def _lrn(layer: Layer, inputs: Any, own: Dict[str, Any]) -> Any:
    x = inputs[0]
    alpha = layer.alpha / layer.size  # TensorFlow does not divide
    if layer.size % 2 and x.dtype == tf.float32:
        return tf.nn.local_response_normalization(x, layer.size // 2, layer.k, alpha, layer.beta)
    half = layer.size // 2
    squares = tf.pad(x * x, [(0, 0), (0, 0), (0, 0), (half, layer.size - 1 - half)])
    channels = x.shape[3]
    total = tf.add_n([squares[..., i : i + channels] for i in range(layer.size)])
    return x * (layer.k + alpha * total) ** -layer.beta


def _batch_norm(layer: Layer, x: Any, own: Dict[str, Any], running: Any) -> Any:
    old_mean, old_variance = running
    if x.dtype == tf.float32:
        out, mean, unbiased = tf.compat.v1.nn.fused_batch_norm(
            x, own["weight"], own["bias"], epsilon=layer.eps, is_training=True
        )
    else:  # the fused kernel has no double precision
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        out = tf.nn.batch_normalization(x, mean, variance, own["bias"], own["weight"], layer.eps)
        count = tf.cast(tf.size(x) // tf.size(mean), x.dtype)
        unbiased = variance * count / tf.maximum(count - 1, 1)
    old_mean.assign_add(layer.momentum * (mean - old_mean))
    old_variance.assign_add(layer.momentum * (unbiased - old_variance))
    return out


def _flatten(layer: Layer, inputs: Any, own: Dict[str, Any]) -> Any:
    x = inputs[0]
    if x.shape[1:3] != (1, 1):
        x = tf.transpose(x, (0, 3, 1, 2))
    return tf.reshape(x, (x.shape[0], -1))


def _dense(layer: Layer, inputs: Any, own: Dict[str, Any]) -> Any:
    out = tf.matmul(inputs[0], own["weight"])
    return tf.nn.bias_add(out, own["bias"]) if "bias" in own else out


_LAYERS = {
    "Pool": _pool,
    "LRN": _lrn,
    "Flatten": _flatten,
    "Dense": _dense,
    "ReLU": lambda layer, inputs, own: tf.nn.relu(inputs[0]),
    "Concat": lambda layer, inputs, own: tf.concat(inputs, axis=3),
    "Add": lambda layer, inputs, own: tf.add_n(inputs),
    "Dropout": lambda layer, inputs, own: tf.nn.dropout(inputs[0], layer.rate),
}
