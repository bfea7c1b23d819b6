"""The neutral network as a function of tinygrad tensors."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from tinygrad import Tensor, dtypes

from netdyno_worker.network import INPUT, Layer, Network

# What parameters, sums over a batch and the loss are held in.
HELD = {"fp64": dtypes.float64}
# What feature maps and the operands of products are rounded to; where it is not what is held.
ROUNDED = {"fp16": dtypes.float16, "bf16": dtypes.bfloat16}

Tensors = Dict[str, Any]


def build(network: Network, precision: str) -> Callable[..., Any]:
    """A function ``(parameters, running, images, labels) -> (logits, loss, new running)``.

    ``running`` is by key ``LAYER.running_mean`` and ``LAYER.running_variance``. Where feature maps
    are rounded, normalization and loss are computed in what parameters are held in.
    """
    held = HELD.get(precision, dtypes.float32)
    rounded = ROUNDED.get(precision, held)

    def run(parameters: Tensors, running: Tensors, images: Any, labels: Any) -> Any:
        values = {INPUT: images.cast(rounded)}
        new_running: Tensors = {}
        losses = []
        for layer in network.layers:
            inputs = [values[name] for name in layer.inputs]
            own = {short: parameters[layer.name + "." + short] for short in layer.parameters}
            if layer.kind == "SoftmaxCrossEntropy":
                logits = inputs[0].cast(held)
                losses.append(layer.weight * logits.sparse_categorical_crossentropy(labels))
            elif layer.kind == "BatchNorm":
                out, new = _batch_norm(layer, inputs[0].cast(held), own, running)
                new_running.update(new)
                values[layer.name] = out.cast(rounded)
            elif layer.kind == "LRN":
                values[layer.name] = _lrn(layer, inputs[0].cast(held)).cast(rounded)
            else:
                own = {short: value.cast(rounded) for short, value in own.items()}
                values[layer.name] = _LAYERS[layer.kind](layer, inputs, own)
        return values[network.output].cast(held), sum(losses[1:], losses[0]), new_running

    return run


def _conv(layer: Layer, inputs: List[Any], own: Tensors) -> Any:
    return inputs[0].conv2d(
        own["weight"], own.get("bias"), layer.groups, layer.stride, 1, layer.padding
    )


def _pool(layer: Layer, inputs: List[Any], own: Tensors) -> Any:
    how = {
        "kernel_size": layer.kernel,
        "stride": layer.stride,
        "padding": layer.padding,
        "ceil_mode": layer.ceil_mode,
    }
    if layer.reduction == "max":
        return inputs[0].max_pool2d(**how)
    return inputs[0].avg_pool2d(**how, count_include_pad=layer.count_padding)


def _lrn(layer: Layer, x: Any) -> Any:
    """tinygrad has none: the sum of squares over neighbouring channels, as a pool along them."""
    half = layer.size // 2
    square = (x * x).pad(((0, 0), (half, layer.size - 1 - half), (0, 0), (0, 0)))
    channels = x.shape[1]
    total = sum(
        (square[:, shift : shift + channels] for shift in range(1, layer.size)),
        square[:, :channels],
    )
    return x * (layer.k + layer.alpha / layer.size * total) ** -layer.beta


def _batch_norm(layer: Layer, x: Any, own: Tensors, running: Tensors) -> Any:
    axes = (0, 2, 3)
    mean = x.mean(axes)
    centred = x - mean.reshape(1, -1, 1, 1)
    variance = (centred * centred).mean(axes)
    out = x.batchnorm(own["weight"], own["bias"], mean, (variance + layer.eps).rsqrt())
    count = x.numel() // x.shape[1]
    batch = {
        layer.name + ".running_mean": mean,
        layer.name + ".running_variance": variance * (count / max(1, count - 1)),
    }
    return out, {
        name: running[name] + layer.momentum * (new.detach() - running[name])
        for name, new in batch.items()
    }


def _dense(layer: Layer, inputs: List[Any], own: Tensors) -> Any:
    return inputs[0].linear(own["weight"].transpose(), own.get("bias"))


_LAYERS: Dict[str, Callable[[Layer, List[Any], Tensors], Any]] = {
    "Conv": _conv,
    "Pool": _pool,
    "Dense": _dense,
    "ReLU": lambda layer, inputs, own: inputs[0].relu(),
    "Concat": lambda layer, inputs, own: Tensor.cat(*inputs, dim=1),
    "Add": lambda layer, inputs, own: sum(inputs[1:], inputs[0]),
    "Flatten": lambda layer, inputs, own: inputs[0].flatten(1),
    "Dropout": lambda layer, inputs, own: inputs[0].dropout(layer.rate),
}
