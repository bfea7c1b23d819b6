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


def make(mode, batch_size):
    """A function that runs forward+backward some times and returns the seconds it took."""
    model = alexnet()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    images = tf.random.uniform((batch_size, 224, 224, 3), -0.02, 0.02)
    labels = tf.random.uniform((batch_size,), maxval=1000, dtype=tf.int32)

    @tf.function(jit_compile=mode == "xla")
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        return loss, tape.gradient(loss, model.trainable_weights)

    def run(iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            loss, _gradients = step(images, labels)
        loss.numpy()
        return time.perf_counter() - start

    return run
