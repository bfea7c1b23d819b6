"""AlexNet (one weird trick) as a Keras model, trained with a ``tf.function`` and a gradient tape.

As in TensorFlow's guide "Writing a training loop from scratch".
"""

import time

import keras
import tensorflow as tf
from keras import layers


def alexnet(classes=1000):
    return keras.Sequential(
        [
            layers.Input((224, 224, 3)),
            layers.ZeroPadding2D(2),
            layers.Conv2D(64, 11, strides=4, activation="relu"),
            layers.MaxPooling2D(3, strides=2),
            layers.Conv2D(192, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(3, strides=2),
            layers.Conv2D(384, 3, padding="same", activation="relu"),
            layers.Conv2D(256, 3, padding="same", activation="relu"),
            layers.Conv2D(256, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(3, strides=2),
            layers.Flatten(),
            layers.Dense(4096, activation="relu"),
            layers.Dense(4096, activation="relu"),
            layers.Dense(classes),
        ]
    )


def inward(value):
    """Channels last; the first dense layer reads the last feature map in that order."""
    if value.ndim == 4:
        return value.transpose(2, 3, 1, 0)
    if value.ndim == 2 and value.shape[1] == 256 * 6 * 6:
        value = value.reshape(-1, 256, 6, 6).transpose(0, 2, 3, 1).reshape(value.shape)
    return value.T


def make(job, images, labels, parameters):
    """``run(iterations) -> (seconds, loss)``, from NumPy arrays in the neutral layout."""
    model = alexnet()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.set_weights([inward(value) for value in parameters])
    images, labels = tf.constant(images.transpose(0, 2, 3, 1)), tf.constant(labels)

    @tf.function(jit_compile=job.mode == "xla")
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        return loss, tape.gradient(loss, model.trainable_weights)

    def run(iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            loss, _gradients = step(images, labels)
        loss = float(loss)  # which waits for it
        return time.perf_counter() - start, loss

    return run
