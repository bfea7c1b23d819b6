"""Forward and backward of each layer kind, plainly: what the others are checked against.

``FORWARD[kind](layer, inputs, parameters)`` returns ``(output, saved)``;
``BACKWARD[kind](layer, gradient, saved, parameters)`` returns the gradients by each input and by
each parameter. Everything happens in the precision of what comes in. Sums over windows are loops
over the positions of a kernel, so that what is added to what can be read off the code.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from netdyno_worker.network import Layer

Arrays = Dict[str, np.ndarray]
Backward = Tuple[List[np.ndarray], Arrays]


def _pad(x: np.ndarray, padding: Tuple[int, int], value: float = 0.0) -> np.ndarray:
    rows, columns = padding
    return np.pad(x, ((0, 0), (0, 0), (rows, rows), (columns, columns)), constant_values=value)


def _crop(x: np.ndarray, padding: Tuple[int, int], like: np.ndarray) -> np.ndarray:
    rows, columns = padding
    height, width = like.shape[2:]
    return x[:, :, rows : rows + height, columns : columns + width]


def _window(x: np.ndarray, layer: Layer, i: int, j: int) -> np.ndarray:
    """The view of padded ``x`` that position (i, j) of the kernel meets, one for each output."""
    _, height, width = layer.output_shape
    (down, right) = layer.stride
    return x[:, :, i : i + down * height : down, j : j + right * width : right]


def conv(layer: Layer, inputs: List[np.ndarray], parameters: Arrays) -> Tuple[np.ndarray, Any]:
    padded = _pad(inputs[0], layer.padding)
    weight = parameters["weight"]
    groups = layer.groups
    batch, (filters, height, width) = len(padded), layer.output_shape
    out = np.zeros((batch, groups, filters // groups, height * width), padded.dtype)
    kernels = weight.reshape((groups, filters // groups) + weight.shape[1:])
    for i in range(layer.kernel[0]):
        for j in range(layer.kernel[1]):
            out += kernels[..., i, j] @ _columns(_window(padded, layer, i, j), groups)
    out = out.reshape(batch, filters, height, width)
    if "bias" in parameters:
        out += parameters["bias"][:, None, None]
    return out, (inputs[0], padded)


def _columns(x: np.ndarray, groups: int) -> np.ndarray:
    """``(N, C, H, W)`` as ``(N, groups, C / groups, H * W)``, to multiply with."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, -1)


def conv_backward(layer: Layer, gradient: np.ndarray, saved: Any, parameters: Arrays) -> Backward:
    x, padded = saved
    weight = parameters["weight"]
    groups = layer.groups
    kernels = weight.reshape((groups, layer.filters // groups) + weight.shape[1:])
    by_weight = np.zeros_like(kernels)
    by_padded = np.zeros_like(padded)
    g = _columns(gradient, groups)
    for i in range(layer.kernel[0]):
        for j in range(layer.kernel[1]):
            window = _window(padded, layer, i, j)
            x_columns = _columns(window, groups)
            by_weight[..., i, j] = (g @ x_columns.swapaxes(-1, -2)).sum(axis=0)
            back = kernels[..., i, j].swapaxes(-1, -2) @ g
            _window(by_padded, layer, i, j)[...] += back.reshape(window.shape)
    gradients = {"weight": by_weight.reshape(weight.shape)}
    if "bias" in parameters:
        gradients["bias"] = gradient.sum(axis=(0, 2, 3))
    return [_crop(by_padded, layer.padding, x)], gradients


def _pool_canvas(layer: Layer, x: np.ndarray, fill: float) -> np.ndarray:
    """``x`` padded, and extended to the right and below as far as the last window reaches."""
    padded = _pad(x, layer.padding, fill)
    reach = [
        (size - 1) * stride + kernel
        for size, stride, kernel in zip(layer.output_shape[1:], layer.stride, layer.kernel)
    ]
    extra = [max(0, r - have) for r, have in zip(reach, padded.shape[2:])]
    return np.pad(padded, ((0, 0), (0, 0), (0, extra[0]), (0, extra[1])), constant_values=fill)


def pool(layer: Layer, inputs: List[np.ndarray], parameters: Arrays) -> Tuple[np.ndarray, Any]:
    x = inputs[0]
    if layer.reduction == "average":
        canvas = _pool_canvas(layer, x, 0.0)
        shape = x.shape[:2] + tuple(layer.output_shape[1:])
        total = np.zeros(shape, x.dtype)
        for i in range(layer.kernel[0]):
            for j in range(layer.kernel[1]):
                total += _window(canvas, layer, i, j)
        divisor = _divisor(layer, x)
        return total / divisor, (x, divisor)
    canvas = _pool_canvas(layer, x, -np.inf)
    best = _window(canvas, layer, 0, 0).copy()
    where = np.zeros(best.shape, np.int32)
    for i in range(layer.kernel[0]):
        for j in range(layer.kernel[1]):
            candidate = _window(canvas, layer, i, j)
            better = candidate > best  # of equal values the first one wins, as everywhere
            best[better] = candidate[better]
            where[better] = i * layer.kernel[1] + j
    return best, (x, where)


def _divisor(layer: Layer, x: np.ndarray) -> np.ndarray:
    """How many positions each average counts."""
    ones = np.ones((1, 1) + x.shape[2:], x.dtype)
    counted = _pool_canvas(layer, ones, 0.0)
    if layer.count_padding:
        rows, columns = layer.padding
        counted[:, :, : x.shape[2] + 2 * rows, : x.shape[3] + 2 * columns] = 1.0
    total = np.zeros((1, 1) + tuple(layer.output_shape[1:]), x.dtype)
    for i in range(layer.kernel[0]):
        for j in range(layer.kernel[1]):
            total += _window(counted, layer, i, j)
    return total


def pool_backward(layer: Layer, gradient: np.ndarray, saved: Any, parameters: Arrays) -> Backward:
    x, extra = saved
    canvas = np.zeros_like(_pool_canvas(layer, x, 0.0))
    for i in range(layer.kernel[0]):
        for j in range(layer.kernel[1]):
            if layer.reduction == "average":
                share = gradient / extra
            else:
                share = gradient * (extra == i * layer.kernel[1] + j)
            _window(canvas, layer, i, j)[...] += share
    return [_crop(canvas, layer.padding, x)], {}


def relu(layer: Layer, inputs: List[np.ndarray], parameters: Arrays) -> Tuple[np.ndarray, Any]:
    positive = inputs[0] > 0
    return inputs[0] * positive, positive


def relu_backward(layer: Layer, gradient: np.ndarray, saved: Any, parameters: Arrays) -> Backward:
    return [gradient * saved], {}


def _channel_sums(x: np.ndarray, below: int, above: int) -> np.ndarray:
    """Sum over each channel, the ``below`` before it and the ``above`` after it."""
    total = np.zeros_like(x)
    channels = x.shape[1]
    for shift in range(-min(below, channels - 1), min(above, channels - 1) + 1):
        low, high = max(0, -shift), min(channels, channels - shift)
        total[:, low:high] += x[:, low + shift : high + shift]
    return total


def lrn(layer: Layer, inputs: List[np.ndarray], parameters: Arrays) -> Tuple[np.ndarray, Any]:
    x = inputs[0]
    below, above = layer.size // 2, (layer.size - 1) // 2
    scale = layer.k + layer.alpha / layer.size * _channel_sums(x * x, below, above)
    return x * scale**-layer.beta, (x, scale)


def lrn_backward(layer: Layer, gradient: np.ndarray, saved: Any, parameters: Arrays) -> Backward:
    x, scale = saved
    # Mirrored: a channel counts in the sums of those whose window holds it.
    above, below = layer.size // 2, (layer.size - 1) // 2
    inner = _channel_sums(gradient * x * scale ** (-layer.beta - 1), below, above)
    factor = 2 * layer.alpha * layer.beta / layer.size
    return [gradient * scale**-layer.beta - factor * x * inner], {}


def batch_norm(
    layer: Layer, inputs: List[np.ndarray], parameters: Arrays
) -> Tuple[np.ndarray, Any]:
    x = inputs[0]
    mean = x.mean(axis=(0, 2, 3), keepdims=True)
    variance = x.var(axis=(0, 2, 3), keepdims=True)
    inverse = 1 / np.sqrt(variance + layer.eps)
    normal = (x - mean) * inverse
    out = normal * parameters["weight"][:, None, None] + parameters["bias"][:, None, None]
    return out, (normal, inverse, mean.ravel(), variance.ravel(), x.size // x.shape[1])


def batch_norm_backward(
    layer: Layer, gradient: np.ndarray, saved: Any, parameters: Arrays
) -> Backward:
    normal, inverse = saved[:2]
    axes = (0, 2, 3)
    by_weight = (gradient * normal).sum(axis=axes)
    by_bias = gradient.sum(axis=axes)
    count = gradient.size // gradient.shape[1]
    centred = gradient - by_bias[:, None, None] / count - normal * by_weight[:, None, None] / count
    by_input = parameters["weight"][:, None, None] * inverse * centred
    return [by_input], {"weight": by_weight, "bias": by_bias}


def concat(layer: Layer, inputs: List[np.ndarray], parameters: Arrays) -> Tuple[np.ndarray, Any]:
    return np.concatenate(inputs, axis=1), [x.shape[1] for x in inputs]


def concat_backward(layer: Layer, gradient: np.ndarray, saved: Any, parameters: Arrays) -> Backward:
    return np.split(gradient, np.cumsum(saved)[:-1], axis=1), {}


def add(layer: Layer, inputs: List[np.ndarray], parameters: Arrays) -> Tuple[np.ndarray, Any]:
    return sum(inputs[1:], inputs[0]), len(inputs)


def add_backward(layer: Layer, gradient: np.ndarray, saved: Any, parameters: Arrays) -> Backward:
    return [gradient] * saved, {}


def dense(layer: Layer, inputs: List[np.ndarray], parameters: Arrays) -> Tuple[np.ndarray, Any]:
    out = inputs[0] @ parameters["weight"].T
    return out + parameters["bias"] if "bias" in parameters else out, inputs[0]


def dense_backward(layer: Layer, gradient: np.ndarray, saved: Any, parameters: Arrays) -> Backward:
    gradients = {"weight": gradient.T @ saved}
    if "bias" in parameters:
        gradients["bias"] = gradient.sum(axis=0)
    return [gradient @ parameters["weight"]], gradients


def flatten(layer: Layer, inputs: List[np.ndarray], parameters: Arrays) -> Tuple[np.ndarray, Any]:
    return inputs[0].reshape(len(inputs[0]), -1), inputs[0].shape


def flatten_backward(
    layer: Layer, gradient: np.ndarray, saved: Any, parameters: Arrays
) -> Backward:
    return [gradient.reshape(saved)], {}


def softmax_cross_entropy(
    logits: np.ndarray, labels: np.ndarray, weight: float
) -> Tuple[np.ndarray, np.ndarray]:
    """Weighted mean loss over the batch, and its gradient by the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probability = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    gradient = np.exp(log_probability)
    gradient[rows, labels] -= 1
    return -weight * log_probability[rows, labels].mean(), weight * gradient / len(labels)


FORWARD: Dict[str, Callable[..., Tuple[np.ndarray, Any]]] = {
    "Conv": conv,
    "Pool": pool,
    "ReLU": relu,
    "LRN": lrn,
    "BatchNorm": batch_norm,
    "Concat": concat,
    "Add": add,
    "Dense": dense,
    "Flatten": flatten,
}

BACKWARD: Dict[str, Callable[..., Backward]] = {
    "Conv": conv_backward,
    "Pool": pool_backward,
    "ReLU": relu_backward,
    "LRN": lrn_backward,
    "BatchNorm": batch_norm_backward,
    "Concat": concat_backward,
    "Add": add_backward,
    "Dense": dense_backward,
    "Flatten": flatten_backward,
}
