import json

import keras
import numpy as np
import tensorflow as tf

import netdyno

# The default loss wants logits, so no softmax at the end.
model = keras.Sequential(
    [
        keras.layers.Conv2D(8, 3, padding="same"),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
random = np.random.default_rng(0)
images = random.standard_normal((72, 16, 16, 3), dtype=np.float32)
labels = random.integers(10, size=72)
loader = tf.data.Dataset.from_tensor_slices((images, labels)).batch(32)

result = netdyno.evaluate_framework(model, loader, device="cpu", batch_size=32)
print(json.dumps(result))
