import json

import numpy as np
import tensorflow as tf

import netdyno


class Model(tf.Module):
    def __init__(self):
        self.filters = tf.Variable(tf.random.normal((3, 3, 3, 8), stddev=0.2))
        self.weights = tf.Variable(tf.random.normal((8, 10), stddev=0.3))

    def __call__(self, images):
        maps = tf.nn.relu(tf.nn.conv2d(images, self.filters, strides=1, padding="SAME"))
        return tf.reduce_mean(maps, axis=(1, 2)) @ self.weights


def loss(outputs, labels):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)


random = np.random.default_rng(0)
images = random.standard_normal((72, 16, 16, 3), dtype=np.float32)
labels = random.integers(10, size=72)
loader = [(images[i : i + 32], labels[i : i + 32]) for i in range(0, 72, 32)]

model = Model()
result = netdyno.evaluate_framework(model, loader, device="cpu", batch_size=32, loss=loss)
print(json.dumps(result))
