"""Under what conditions cells are compared: so that a mistake shows and rounding does not."""

from __future__ import annotations

__all__ = [
    "BATCH_SIZE",
    "HYPERPARAMETERS",
    "NETWORK_IMAGE_SCALE",
    "SEED",
    "SHEET_IMAGE_SCALE",
    "TRAIN_STEPS",
]

SEED = 7

# Small enough for the reference, large enough for a mean over the batch to be one.
BATCH_SIZE = 2

TRAIN_STEPS = 3

# Not those of a measurement. With this decay a term that is left out, of biases say, is a large
# part of an update and not a millionth. With this rate the steps stay where the first gradient was
# taken: at a larger one a deep network with batch norm is chaotic, and three steps make any
# rounding error as large as the update (resnet50 in single precision, its branches as large as the
# shortcuts: 0.75 of it at 0.01, 0.1 at 1e-4, 0.03 at 1e-5, where the gradient itself is 0.02 off).
# What is compared is the update itself, whatever its size.
HYPERPARAMETERS = {"learning_rate": 1e-5, "momentum": 0.9, "weight_decay": 1.0}

NETWORK_IMAGE_SCALE = 0.02
# Of single layers: large enough for the squares that LRN adds up to count beside its constant.
SHEET_IMAGE_SCALE = 10.0
