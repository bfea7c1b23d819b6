"""The reference against its own definition, written out as loops, and against finite differences.

Shapes are small and odd on purpose: height and width differ, windows do not fit evenly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netdyno.networks import Network
from netdyno.networks.graph import (
    LRN,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Layer,
    Pool,
    ReLU,
    SoftmaxCrossEntropy,
)
from netdyno_worker.frameworks.numpy.adapter import Adapter
from netdyno_worker.protocol import Job

Array = np.ndarray[Any, Any]
MakeJob = Callable[..., Job]

IMAGES = ("images",)
INPUT_SHAPE = (4, 5, 7)
BATCH = 3


def ending(*layers: Layer, input_shape: tuple[int, ...] = INPUT_SHAPE) -> Network:
    """A network of ``layers``, then a dense layer of three logits and the loss."""
    end = (
        Flatten("flat", (layers[-1].name,)),
        Dense("logits", ("flat",), 3),
        SoftmaxCrossEntropy("loss", ("logits",), 0.7),
    )
    return Network("small", input_shape, (*layers, *end))


def loaded(job: Job) -> Adapter:
    """An adapter with values of about one, far from the small ones that a trial starts with."""
    random = np.random.default_rng(5)
    adapter = Adapter(job)
    adapter.load(
        {name: random.normal(size=shape) for name, shape in job.network.parameter_shapes().items()}
    )
    images = random.normal(size=(job.batch_size, *job.network.input_shape))
    adapter.set_batch(images, np.arange(job.batch_size, dtype=np.int32) % job.network.classes)
    return adapter


CASES = {
    "conv": [Conv("x", IMAGES, 6, (3, 2), (2, 1), (1, 2))],
    "conv in groups": [Conv("x", IMAGES, 6, (3, 3), (1, 2), (0, 1), groups=2)],
    "depthwise conv": [Conv("x", IMAGES, 4, (2, 2), groups=4)],
    "conv without bias": [Conv("x", IMAGES, 2, (1, 1), (3, 3), bias=False)],
    "conv that leaves a rest": [Conv("x", IMAGES, 2, (2, 2), (3, 3))],
    "max pool": [Pool("x", IMAGES, "max", (2, 2), (2, 2))],
    "max pool, ragged": [Pool("x", IMAGES, "max", (2, 3), (2, 3), ceil_mode=True)],
    "max pool, overlapping, padded": [
        Pool("x", IMAGES, "max", (3, 3), (2, 2), (1, 1), ceil_mode=True)
    ],
    "average pool": [Pool("x", IMAGES, "average", (5, 7), (1, 1))],
    "average pool, padded": [Pool("x", IMAGES, "average", (3, 3), (1, 2), (1, 1))],
    "average pool, ragged, padded": [
        Pool("x", IMAGES, "average", (2, 3), (3, 2), (1, 1), ceil_mode=True)
    ],
    "average pool, ragged, padding not counted": [
        Pool("x", IMAGES, "average", (2, 3), (3, 2), (1, 1), ceil_mode=True, count_padding=False)
    ],
    "relu": [ReLU("x", IMAGES)],
    "lrn": [LRN("x", IMAGES, size=3, alpha=0.9, beta=0.6, k=1.3)],
    "lrn wider than the channels": [LRN("x", IMAGES, size=11, alpha=0.9)],
    "lrn of an even size": [LRN("x", IMAGES, size=2, alpha=0.9)],
    "batch norm": [BatchNorm("x", IMAGES, eps=0.01)],
    "concat": [
        Conv("a", IMAGES, 2, (1, 1)),
        Concat("x", ("images", "a", "images")),
    ],
    "add": [Conv("a", IMAGES, 4, (1, 1)), Add("x", ("images", "a", "a"))],
    "dropout of nothing": [Dropout("x", IMAGES, 0.0)],
    "a branch that is read three times": [
        ReLU("a", IMAGES),
        Pool("b", ("a",), "max", (3, 3), (1, 1), (1, 1)),
        BatchNorm("c", ("a",)),
        Add("d", ("a", "b", "c")),
        LRN("x", ("d",), alpha=0.5),
    ],
}
every_case = pytest.mark.parametrize("layers", CASES.values(), ids=list(CASES))


def check_gradients(adapter: Adapter, entries: int = 12, step: float = 1e-5) -> None:
    """Against central differences, at some entries of each array and of the images."""
    adapter.forward_backward()
    arrays = {**adapter._parameters, "images": adapter._images}
    found = {**adapter.gradients(), "images": adapter.input_gradient()}
    random = np.random.default_rng(7)
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        assert found[name].dtype == np.float64
        for index in random.choice(array.size, min(entries, array.size), replace=False):
            at = np.unravel_index(index, array.shape)
            kept = array[at]
            losses = []
            for value in (kept + step, kept - step):
                array[at] = value
                adapter.forward()
                losses.append(adapter.loss())
            array[at] = kept
            expected = (losses[0] - losses[1]) / (2 * step)
            assert found[name][at] == pytest.approx(expected, rel=1e-5, abs=1e-9), (name, at)


@every_case
def test_gradients(make_job: MakeJob, layers: list[Layer]) -> None:
    check_gradients(loaded(make_job(ending(*layers), batch_size=BATCH)))


def test_gradients_of_dense_layers_and_several_losses(make_job: MakeJob) -> None:
    network = Network(
        "heads",
        (1, 2, 3),
        (
            Flatten("flat", IMAGES),
            Dense("hidden", ("flat",), 5, bias=False),
            Dense("first", ("hidden",), 4),
            SoftmaxCrossEntropy("aux", ("first",), 0.3),
            Dense("second", ("hidden",), 4),
            SoftmaxCrossEntropy("loss", ("second",)),
        ),
    )
    check_gradients(loaded(make_job(network, batch_size=BATCH)))


def test_gradients_of_a_network_of_every_kind(make_job: MakeJob, tiny_network: Network) -> None:
    check_gradients(loaded(make_job(tiny_network, batch_size=BATCH)), entries=6)


def output(adapter: Adapter, layer: Layer) -> Array:
    """Of ``layer``, which the flattened input of the logits is."""
    adapter.forward()
    saved = adapter._saved["logits"]
    shape = next(own.output_shape for own in adapter.network.layers if own.name == layer.name)
    return np.asarray(saved).reshape(len(saved), *shape)


def by_definition(layer: Layer, x: Array, own: dict[str, Array], shape: tuple[int, ...]) -> Array:
    """One value after the other, as networks/graph.py defines them."""
    out = np.zeros((len(x), *shape))
    for n, c, i, j in np.ndindex(*out.shape):
        if isinstance(layer, Conv):
            out[n, c, i, j] = conv_value(layer, x[n], own, (c, i, j))
        elif isinstance(layer, Pool):
            out[n, c, i, j] = pool_value(layer, x[n, c], i, j)
        elif isinstance(layer, LRN):
            first = c - layer.size // 2
            near = [x[n, k, i, j] for k in range(first, first + layer.size) if 0 <= k < x.shape[1]]
            scale = layer.k + layer.alpha / layer.size * sum(value**2 for value in near)
            out[n, c, i, j] = x[n, c, i, j] / scale**layer.beta
        elif isinstance(layer, BatchNorm):
            values = x[:, c].ravel()
            mean = sum(values) / len(values)
            variance = sum((value - mean) ** 2 for value in values) / len(values)
            normal = (x[n, c, i, j] - mean) / (variance + layer.eps) ** 0.5
            out[n, c, i, j] = own["weight"][c] * normal + own["bias"][c]
        else:
            raise TypeError(layer)
    return out


def window(layer: Any, i: int, j: int) -> list[tuple[int, int, int, int]]:
    """Position in the kernel and in the image, which may lie outside it."""
    return [
        (
            a,
            b,
            i * layer.stride[0] + a - layer.padding[0],
            j * layer.stride[1] + b - layer.padding[1],
        )
        for a, b in itertools.product(range(layer.kernel[0]), range(layer.kernel[1]))
    ]


def conv_value(layer: Conv, x: Array, own: dict[str, Array], at: tuple[int, int, int]) -> float:
    filter_, i, j = at
    each = x.shape[0] // layer.groups
    first = filter_ // (layer.filters // layer.groups) * each
    total = float(own["bias"][filter_]) if layer.bias else 0.0
    for a, b, row, column in window(layer, i, j):
        if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
            for channel in range(each):
                weight = own["weight"][filter_, channel, a, b]
                total += weight * x[first + channel, row, column]
    return total


def pool_value(layer: Pool, x: Array, i: int, j: int) -> float:
    height, width = x.shape
    down, right = layer.padding
    inside, counted = [], 0
    for _, _, row, column in window(layer, i, j):
        if 0 <= row < height and 0 <= column < width:
            inside.append(float(x[row, column]))
        counted += -down <= row < height + down and -right <= column < width + right
    if layer.reduction == "max":
        return max(inside)
    return sum(inside) / (counted if layer.count_padding else len(inside))


DEFINED = {
    name: layers[0]
    for name, layers in CASES.items()
    if len(layers) == 1 and isinstance(layers[0], Conv | Pool | LRN | BatchNorm)
}


@pytest.mark.parametrize("layer", DEFINED.values(), ids=list(DEFINED))
def test_values_are_those_of_the_definition(make_job: MakeJob, layer: Layer) -> None:
    adapter = loaded(make_job(ending(layer), batch_size=2))
    found = output(adapter, layer)
    own = {
        name.partition(".")[2]: value
        for name, value in adapter.parameters().items()
        if name.startswith("x.")
    }
    expected = by_definition(layer, adapter._images, own, found.shape[1:])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_the_loss_by_hand(make_job: MakeJob) -> None:
    network = Network(
        "two",
        (1, 1, 2),
        (
            Flatten("flat", IMAGES),
            Dense("logits", ("flat",), 2, bias=False),
            SoftmaxCrossEntropy("loss", ("logits",), 0.5),
        ),
    )
    adapter = Adapter(make_job(network, batch_size=2))
    adapter.load({"logits.weight": np.eye(2)})
    adapter.set_batch(np.array([[[[0.0, 0.0]]], [[[1.0, 3.0]]]]), np.array([0, 1], np.int32))
    adapter.forward_backward()
    second = np.log(1 + np.exp(-2.0))
    assert adapter.loss() == pytest.approx(0.5 * (np.log(2) + second) / 2, rel=1e-14)
    np.testing.assert_allclose(adapter.logits(), [[0, 0], [1, 3]])


def test_large_logits_do_not_overflow(make_job: MakeJob) -> None:
    network = ending(Dropout("x", IMAGES, 0.0))
    adapter = loaded(make_job(network, batch_size=2))
    adapter._parameters["logits.weight"] *= 1e6
    adapter.forward_backward()
    assert np.isfinite(adapter.loss())
    assert all(np.isfinite(value).all() for value in adapter.gradients().values())


def test_of_equal_values_the_first_is_the_greatest(make_job: MakeJob) -> None:
    adapter = loaded(make_job(ending(Pool("x", IMAGES, "max", (2, 2), (2, 2))), batch_size=1))
    adapter._images[...] = 1.0
    adapter.forward_backward()
    gradient = adapter.input_gradient()[0, 0]
    assert (gradient[0::2, 0::2][:2, :3] != 0).all()
    assert np.count_nonzero(gradient) == 2 * 3


def test_running_statistics(make_job: MakeJob) -> None:
    """Biased variance normalizes, unbiased variance is kept (Ioffe & Szegedy 2015)."""
    adapter = loaded(make_job(ending(BatchNorm("x", IMAGES, momentum=0.25)), batch_size=2))
    values = adapter._images.transpose(1, 0, 2, 3).reshape(4, -1)
    mean, variance = values.mean(axis=1), values.var(axis=1, ddof=1)
    adapter.forward()
    np.testing.assert_allclose(adapter.running["x.running_mean"], 0.25 * mean)
    np.testing.assert_allclose(adapter.running["x.running_variance"], 0.75 + 0.25 * variance)
    adapter.forward()
    kept = 0.75 * (0.75 + 0.25 * variance) + 0.25 * variance
    np.testing.assert_allclose(adapter.running["x.running_variance"], kept)
    adapter.load(adapter.parameters())
    np.testing.assert_array_equal(adapter.running["x.running_mean"], np.zeros(4))
    np.testing.assert_array_equal(adapter.running["x.running_variance"], np.ones(4))


def test_three_train_steps_by_hand(make_job: MakeJob) -> None:
    """v = 0.9 v + (g + 1e-4 w); w -= 0.05 v, for every parameter."""
    layers = (Conv("a", IMAGES, 2, (3, 3)), BatchNorm("b", ("a",)), ReLU("x", ("b",)))
    job = make_job(ending(*layers), batch_size=BATCH)
    assert job.hyperparameters == (0.05, 0.9, 1e-4)
    trained, helper = loaded(job), loaded(job)
    weights = {name: value.copy() for name, value in trained.parameters().items()}
    velocity = {name: np.zeros_like(value) for name, value in weights.items()}
    for _ in range(3):
        helper.load(weights)
        helper.forward_backward()
        for name, gradient in helper.gradients().items():
            velocity[name] = 0.9 * velocity[name] + gradient + 1e-4 * weights[name]
            weights[name] = weights[name] - 0.05 * velocity[name]
        trained.train_step()
        for name, value in trained.parameters().items():
            np.testing.assert_allclose(value, weights[name], rtol=1e-12, atol=1e-14)


def test_the_update_of_one_weight_by_hand(make_job: MakeJob) -> None:
    network = Network(
        "one",
        (1, 1, 1),
        (
            Flatten("flat", IMAGES),
            Dense("logits", ("flat",), 2, bias=False),
            SoftmaxCrossEntropy("loss", ("logits",)),
        ),
    )
    adapter = Adapter(make_job(network, batch_size=1))
    adapter.load({"logits.weight": np.zeros((2, 1))})
    adapter.set_batch(np.full((1, 1, 1, 1), 2.0), np.zeros(1, np.int32))
    adapter.train_step()  # the gradient is (0.5 - 1, 0.5) times 2; no decay of zeros
    np.testing.assert_allclose(adapter.parameters()["logits.weight"], [[0.05], [-0.05]])
    adapter.train_step()
    p = 1 / (1 + np.exp(-0.2))
    v = 0.9 * -1.0 + 2 * (p - 1) + 1e-4 * 0.05
    np.testing.assert_allclose(adapter.parameters()["logits.weight"][0, 0], 0.05 - 0.05 * v)


def test_loading_starts_anew_and_keeps_nothing_of_the_callers(make_job: MakeJob) -> None:
    adapter = loaded(make_job(ending(ReLU("x", IMAGES)), batch_size=BATCH))
    start = {name: value.copy() for name, value in adapter.parameters().items()}
    given = {name: value.copy() for name, value in start.items()}
    runs = []
    for _ in range(2):
        adapter.load(given)
        adapter.train_step()
        adapter.train_step()
        runs.append({name: value.copy() for name, value in adapter.parameters().items()})
    for name, value in start.items():
        np.testing.assert_array_equal(given[name], value)
        np.testing.assert_array_equal(runs[0][name], runs[1][name])


def test_single_precision_stays_single(make_job: MakeJob, tiny_network: Network) -> None:
    adapter = loaded(make_job(tiny_network, precision="fp32", batch_size=2))
    adapter.train_step()
    assert adapter.logits().dtype == np.float32
    for arrays in (adapter.parameters(), adapter.gradients(), adapter.running):
        assert {value.dtype for value in arrays.values()} == {np.dtype(np.float32)}
