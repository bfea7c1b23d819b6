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
DENSE = [(256 * 6 * 6, 4096), (4096, 4096), (4096, 1000)]


def initialize(key):
    parameters, channels = [], 3
    normal = jax.nn.initializers.he_normal()
    for filters, kernel, *_ in CONVOLUTIONS:
        key, own = jax.random.split(key)
        parameters.append((normal(own, (kernel, kernel, channels, filters)), jnp.zeros(filters)))
        channels = filters
    for inputs, outputs in DENSE:
        key, own = jax.random.split(key)
        parameters.append((normal(own, (inputs, outputs)), jnp.zeros(outputs)))
    return parameters


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


def make(mode, batch_size):
    """A function that runs forward+backward some times and returns the seconds it took."""
    key = jax.random.key(0)
    parameters = initialize(key)
    images = jax.random.uniform(key, (batch_size, 224, 224, 3), minval=-0.02, maxval=0.02)
    labels = jax.random.randint(key, (batch_size,), 0, 1000)
    step = jax.jit(jax.value_and_grad(loss))

    def run(iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            value, gradients = step(parameters, images, labels)
        jax.block_until_ready((value, gradients))
        return time.perf_counter() - start

    return run
