"""A backend for ``import keras`` where none is chosen; to be run before it.

By itself Keras would take TensorFlow, which may be absent, and write that to a file in the
person's home.
"""

from __future__ import annotations

import importlib.util
import os

BACKENDS = ("jax", "torch", "tensorflow")  # each is the name of its package, and of a mode

if "KERAS_BACKEND" not in os.environ:
    _installed = [name for name in BACKENDS if importlib.util.find_spec(name) is not None]
    os.environ["KERAS_BACKEND"] = (_installed or BACKENDS)[0]
# No folder: no configuration is read and none is written.
os.environ.setdefault("KERAS_HOME", os.devnull)
