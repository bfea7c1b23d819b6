"""evaluate_framework in each framework's managed environment, through the examples."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netdyno.environments import clean_environ, find
from netdyno.environments.instruments import find_or_install
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.settings import load_settings
from netdyno_worker.protocol import HYPERPARAMETERS

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "jax": "jax",
    "keras": "tensorflow",
    "mxnet": "mxnet",
    "pytorch": "pytorch",
    "tensorflow": "tensorflow",
}
# What tells of memory: MXNet is looked at from outside, with memray if its Python has it.
SOURCES = {
    "jax": "memory_analysis()",
    "mxnet": "memray",
    "pytorch": "torch.profiler",
    "tensorflow": "tf.profiler",
}

# Runs an example and looks at the model before and after: parameters, running statistics, modes.
WATCHED = """
import json, runpy, sys
import numpy as np
import netdyno

def state(model, words):
    root = {base.__module__.split(".")[0] for base in type(model).__mro__}
    if "torch" in root:
        values = [v.detach().numpy().copy() for v in model.state_dict().values()]
        modes = [module.training for module in model.modules()]
        return values, modes + [p.grad is None for p in model.parameters()]
    if "mxnet" in root:
        # What was to be made at the first call has no value before it.
        values = [p.data() for p in model.collect_params().values() if p._data is not None]
        return [v.asnumpy() for v in values], None
    if "tensorflow" in root or "keras" in root:
        return [np.array(v) for v in model.variables], None
    return [np.array(v) for v in words["parameters"].values()], None

measured = netdyno.evaluate_framework

def watched(model, *arguments, **words):
    if "mxnet" in type(model).__module__:
        import mxnet as mx
        with mx.autograd.pause():
            model(mx.nd.zeros((1, 3, 16, 16)))
    if "keras" in type(model).__module__:
        model.build((None, 16, 16, 3))
    before = state(model, words)
    result = measured(model, *arguments, **words)
    after = state(model, words)
    same = len(before[0]) == len(after[0]) > 0 and before[1] == after[1]
    same = same and all(np.array_equal(a, b) for a, b in zip(before[0], after[0]))
    print(json.dumps({"unchanged": bool(same)}))
    return result

netdyno.evaluate_framework = watched
runpy.run_path(sys.argv[1])
"""

# Two training steps of a linear model under a squared loss, whose gradient is known.
STEPS = {
    "pytorch": """
import torch
model = torch.nn.Linear(3, 2, bias=False)
model.weight.data = torch.tensor(W).T.contiguous()
def loss(outputs, labels): return ((outputs - labels) ** 2).mean()
def weights(own): return model.weight.detach().numpy().T
""",
    "tensorflow": """
import tensorflow as tf
class Model(tf.Module):
    def __init__(self): self.w = tf.Variable(W)
    def __call__(self, images): return images @ self.w
model = Model()
def loss(outputs, labels): return (outputs - labels) ** 2
def weights(own): return model.w.numpy()
""",
    "mxnet": """
import mxnet as mx
model = mx.gluon.nn.Dense(2, use_bias=False)
model.initialize(mx.init.Constant(mx.nd.array(W.T)))
def loss(outputs, labels): return (outputs - labels) ** 2
def weights(own): return model.weight.data().asnumpy().T
""",
    "jax": """
parameters = {"w": W}
def model(parameters, images, labels): return ((images @ parameters["w"] - labels) ** 2).mean()
loss = None
def weights(own): return np.asarray(own._parameters["w"])
""",
}
AROUND = """
import importlib, json, sys
import numpy as np
W, images, labels = (np.array(v, np.float32) for v in json.loads(sys.argv[2]))
parameters = None
{body}
kind = importlib.import_module("netdyno_worker.frameworks." + sys.argv[1] + ".own_model").OwnModel
assert kind.accepts(model)
own = kind(model, "cpu", loss, parameters)
batch = own.put(images, labels)
own.snapshot(batch)
own.forward_backward(batch)
for _ in range(2):
    own.train_step(batch)
own.synchronize()
print(json.dumps(weights(own).tolist()))
"""


# A hidden array of ``size`` MB, and nothing else to speak of.
HIDDEN = {
    "pytorch": """
import torch
model = torch.nn.Sequential(
    torch.nn.Linear(4, 1000, bias=False), torch.nn.ReLU(), torch.nn.Linear(1000, 2, bias=False)
)
loss = None
""",
    "tensorflow": """
import tensorflow as tf
class Model(tf.Module):
    def __init__(self):
        self.a, self.b = tf.Variable(tf.ones((4, 1000))), tf.Variable(tf.ones((1000, 2)))
    def __call__(self, images): return tf.nn.relu(images @ self.a) @ self.b
model, loss = Model(), None
""",
    "mxnet": """
import mxnet as mx
model = mx.gluon.nn.HybridSequential()
model.add(mx.gluon.nn.Dense(1000, activation="relu", use_bias=False))
model.add(mx.gluon.nn.Dense(2, use_bias=False))
model.initialize()
model.hybridize(static_alloc=True, static_shape=True)
loss = None
""",
    "jax": """
import jax
parameters = {"a": np.ones((4, 1000), np.float32), "b": np.ones((1000, 2), np.float32)}
def model(parameters, images, labels):
    hidden = jax.nn.relu(images @ parameters["a"])
    return -jax.nn.log_softmax(hidden @ parameters["b"])[:, 0].mean()
loss = None
""",
}
AROUND_MEMORY = """
import importlib, json, sys
import numpy as np
from netdyno_worker.own_memory import internal_memory
parameters = None
{body}
kind = importlib.import_module("netdyno_worker.frameworks." + sys.argv[1] + ".own_model").OwnModel
own = kind(model, "cpu", loss, parameters)
images = int(sys.argv[2]) * 250
batch = own.put(np.ones((images, 4), np.float32), np.zeros(images, np.int64))
own.snapshot(batch)
own.forward_backward(batch)
own.synchronize()
found = internal_memory(own, batch, "cpu")
print(json.dumps([found.bytes / 1e6, found.kind]))
"""


def run(name: str, *words: str, memray: bool = True) -> list[Any]:
    """What the program prints in the environment of ``name``: its lines of JSON.

    With ``memray`` as if it were installed there.
    """
    path = [str(ROOT / "src")]
    try:
        environment = find(framework(name), load_settings())
        if memray:
            path.append(str(find_or_install(environment, load_settings())))
    except NetdynoError as error:
        pytest.skip(str(error))
    environ = {**clean_environ(), "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(environment.python), "-c", *words],
        env=environ,
        cwd=os.sep,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example(example: str) -> None:
    name = EXAMPLES[example]
    path = ROOT / "examples" / f"evaluate_{example}.py"
    watched, result = run(name, WATCHED, str(path))
    assert watched == {"unchanged": True}
    assert result["forward_backward_time"] > 0
    assert result["epoch_time"] > 0
    # 32 images of 16 x 16 in 8 maps are 0.26 MB. Each example makes such arrays, and small ones.
    assert 0.26 < result["memory_mb"] < 3
    assert SOURCES[name] in result["memory_source"]
    # Ten classes: a loss that is no nonsense.
    assert 0 < result["loss"] < 10
    assert {key: result[key] for key in ("framework", "batch_size", "batches", "images")} == {
        "framework": name,
        "batch_size": 32,
        "batches": 3,
        "images": 72,
    }


@pytest.mark.parametrize("name", STEPS)
def test_the_update_is_that_of_the_seed(name: str) -> None:
    random = np.random.default_rng(1)
    weights, images, labels = (
        random.standard_normal(shape).astype(np.float32) for shape in ((3, 2), (4, 3), (4, 2))
    )
    data = json.dumps([weights.tolist(), images.tolist(), labels.tolist()])
    (found,) = run(name, AROUND.replace("{body}", STEPS[name]), name, data)
    velocity = np.zeros_like(weights)
    for _ in range(2):
        gradient = 2 * images.T @ (images @ weights - labels) / labels.size
        gradient += HYPERPARAMETERS.weight_decay * weights
        velocity = HYPERPARAMETERS.momentum * velocity + gradient
        weights = weights - HYPERPARAMETERS.learning_rate * velocity
    np.testing.assert_allclose(found, weights, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "memray", "kind"),
    [
        ("jax", False, "static plan"),
        ("mxnet", True, "every allocation"),
        ("mxnet", False, "process peak"),
        ("pytorch", False, "allocator peak"),
        ("tensorflow", False, "allocator peak"),
    ],
)
def test_memory_is_that_of_known_arrays(name: str, memray: bool, kind: str) -> None:
    program = AROUND_MEMORY.replace("{body}", HIDDEN[name])
    small, large = (run(name, program, name, str(size), memray=memray)[0] for size in (20, 40))
    assert small[1] == large[1] == kind
    # The hidden array and its gradient; a copy of each where nothing is done in place.
    assert 0.9 * 20 < small[0] < 4.2 * 20
    assert large[0] == pytest.approx(2 * small[0], rel=0.1)
