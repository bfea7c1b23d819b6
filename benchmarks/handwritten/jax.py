"""The networks in plain JAX: a function, ``jax.value_and_grad``, ``jax.jit``."""

import time

import jax
import jax.numpy as jnp
from jax import lax

ALEXNET = [  # filters, kernel, stride, padding, pooled
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
]
VGG_A = [
    (64, 3, 1, 1, True),
    (128, 3, 1, 1, True),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
    (512, 3, 1, 1, False),
    (512, 3, 1, 1, True),
    (512, 3, 1, 1, False),
    (512, 3, 1, 1, True),
]
NETWORKS = {  # convolutions, pooling window, channels and size of the last feature map
    "alexnet_owt": (ALEXNET, 3, (256, 6, 6)),
    "vgg_a": (VGG_A, 2, (512, 7, 7)),
}
# Of products on a GPU. Explicit: operands of bf16 need no more than the default, whatever the
# process's jax_default_matmul_precision is.
PRECISIONS = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "default"}


def inward(value, last_map):
    """Channels last; the first dense layer reads the last feature map in that order."""
    channels, rows, columns = last_map
    if value.ndim == 4:
        return value.transpose(2, 3, 1, 0)
    if value.ndim == 2 and value.shape[1] == channels * rows * columns:
        value = value.reshape(-1, *last_map).transpose(0, 2, 3, 1).reshape(value.shape)
    return value.T


def make(job, images, labels, parameters):
    """``run(iterations) -> (seconds, loss)``, from NumPy arrays in the neutral layout."""
    convolutions, window, last_map = NETWORKS[job.network.name]
    compute = jnp.bfloat16 if job.precision == "bf16" else jnp.float32
    precision = None if job.device == "cpu" else PRECISIONS[job.precision]

    def predict(parameters, x):
        # Mixed: weights and activations are narrow, biases and their sums are not.
        x = x.astype(compute)
        for (w, b), (_, _, stride, padding, pooled) in zip(parameters, convolutions):
            x = lax.conv_general_dilated(
                x,
                w.astype(compute),
                (stride, stride),
                [(padding, padding)] * 2,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                precision=precision,
            )
            x = jax.nn.relu((x + b).astype(compute))
            if pooled:
                x = lax.reduce_window(
                    x, -jnp.inf, lax.max, (1, window, window, 1), (1, 2, 2, 1), "VALID"
                )
        x = x.reshape(x.shape[0], -1)
        for index, (w, b) in enumerate(parameters[len(convolutions) :]):
            x = jnp.matmul(x, w.astype(compute), precision=precision)
            x = (x + b).astype(compute)
            if index < 2:
                x = jax.nn.relu(x)
        return x

    def loss(parameters, images, labels):
        logits = predict(parameters, images).astype(jnp.float32)
        log_probabilities = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=1))

    device = jax.devices()[int(job.device.partition(":")[2] or 0)]
    values = [jax.device_put(inward(value, last_map), device) for value in parameters]
    parameters = list(zip(values[::2], values[1::2]))  # weight and bias of each layer
    images = jax.device_put(images.transpose(0, 2, 3, 1), device)
    labels = jax.device_put(labels, device)
    step = jax.jit(jax.value_and_grad(loss))

    def run(iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            value, gradients = step(parameters, images, labels)
        jax.block_until_ready((value, gradients))
        return time.perf_counter() - start, float(value)

    return run
