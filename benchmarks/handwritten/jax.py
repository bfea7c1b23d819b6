"""AlexNet (one weird trick) in plain JAX: a function, ``jax.value_and_grad``, ``jax.jit``."""

import time

import jax
import jax.numpy as jnp
from jax import lax

CONVOLUTIONS = [  # filters, kernel, stride, padding, pooled
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
]


def inward(value):
    """Channels last; the first dense layer reads the last feature map in that order."""
    if value.ndim == 4:
        return value.transpose(2, 3, 1, 0)
    if value.ndim == 2 and value.shape[1] == 256 * 6 * 6:
        value = value.reshape(-1, 256, 6, 6).transpose(0, 2, 3, 1).reshape(value.shape)
    return value.T


def predict(parameters, x):
    for (w, b), (_, _, stride, padding, pooled) in zip(parameters, CONVOLUTIONS):
        x = lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            [(padding, padding)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        x = jax.nn.relu(x + b)
        if pooled:
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(x.shape[0], -1)
    for index, (w, b) in enumerate(parameters[len(CONVOLUTIONS) :]):
        x = x @ w + b
        if index < 2:
            x = jax.nn.relu(x)
    return x


def loss(parameters, images, labels):
    log_probabilities = jax.nn.log_softmax(predict(parameters, images))
    return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=1))


def make(mode, images, labels, parameters):
    """``run(iterations) -> (seconds, loss)``, from NumPy arrays in the neutral layout."""
    values = [jnp.asarray(inward(value)) for value in parameters]
    parameters = list(zip(values[::2], values[1::2]))  # weight and bias of each layer
    images, labels = jnp.asarray(images.transpose(0, 2, 3, 1)), jnp.asarray(labels)
    step = jax.jit(jax.value_and_grad(loss))

    def run(iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            value, gradients = step(parameters, images, labels)
        jax.block_until_ready((value, gradients))
        return time.perf_counter() - start, float(value)

    return run
