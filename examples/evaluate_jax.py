import json

import jax
import numpy as np

import netdyno


def loss(parameters, images, labels):
    maps = jax.lax.conv_general_dilated(
        images, parameters["filters"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    logits = jax.nn.relu(maps).mean(axis=(1, 2)) @ parameters["weights"]
    return -jax.nn.log_softmax(logits)[jax.numpy.arange(len(labels)), labels].mean()


random = np.random.default_rng(0)
parameters = {
    "filters": random.normal(0, 0.2, (3, 3, 3, 8)).astype(np.float32),
    "weights": random.normal(0, 0.3, (8, 10)).astype(np.float32),
}
images = random.standard_normal((72, 16, 16, 3), dtype=np.float32)
labels = random.integers(10, size=72)
loader = [(images[i : i + 32], labels[i : i + 32]) for i in range(0, 72, 32)]

result = netdyno.evaluate_framework(
    loss, loader, device="cpu", batch_size=32, parameters=parameters
)
print(json.dumps(result))
