"""The same numbers for every framework, for ever."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
import pytest

from netdyno.networks import Network, build
from netdyno_worker import weights
from netdyno_worker.network import Network as WorkerNetwork


def digest(arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    sha = hashlib.sha256()
    for name, value in arrays.items():
        sha.update(f"{name} {value.dtype.str} {value.shape}".encode())
        sha.update(np.ascontiguousarray(value).tobytes())
    return sha.hexdigest()[:32]


def test_parameters_of_seed_1_are_pinned(tiny: WorkerNetwork) -> None:
    """If this fails, results of this version cannot be compared with those of earlier ones."""
    found = weights.Parameters(tiny, seed=1)
    assert digest(found) == "1573d0b09d4036c7577fa019d9d00132"
    assert found["conv1.weight"].ravel()[:3].tolist() == [
        -0.0008436143398284912,
        -0.011009544134140015,
        -0.38170474767684937,
    ]


def test_the_batch_of_seed_1_is_pinned(tiny: WorkerNetwork) -> None:
    images, labels = weights.batch(tiny, 5, seed=1)
    assert digest({"images": images, "labels": labels}) == "8141582b1e4f7c220e9f58df863a2aa7"


def test_types_and_shapes(tiny: WorkerNetwork) -> None:
    found = weights.Parameters(tiny, seed=1)
    assert list(found) == list(tiny.parameter_shapes())
    for name, shape in tiny.parameter_shapes().items():
        assert found[name].shape == shape
        assert found[name].dtype == np.float32
    images, labels = weights.batch(tiny, 5, seed=1)
    assert (images.shape, images.dtype) == ((5, 3, 6, 6), np.float32)
    assert (labels.shape, labels.dtype) == ((5,), np.int32)


def test_equal_seeds_give_equal_values_other_seeds_others(tiny: WorkerNetwork) -> None:
    first, again, other = (weights.Parameters(tiny, seed) for seed in (1, 1, 2))
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name])
        assert not np.array_equal(value, other[name])
    for one, two in zip(weights.batch(tiny, 64, 1), weights.batch(tiny, 64, 2), strict=True):
        assert not np.array_equal(one, two)


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_the_ends_of_the_seeds(tiny: WorkerNetwork, seed: int) -> None:
    assert np.isfinite(weights.Parameters(tiny, seed)["logits.weight"]).all()


def test_values_depend_on_the_name_alone(tiny_network: Network) -> None:
    """Not on what was drawn before: an option that adds a layer leaves the others as they are."""
    data = json.loads(json.dumps(tiny_network.to_json()))
    forwards = dict(weights.Parameters(WorkerNetwork(data), 1))
    again = weights.Parameters(WorkerNetwork(data), 1)
    for name in reversed(list(forwards)):
        np.testing.assert_array_equal(again[name], forwards[name])
    short = data["layers"][:1]
    for name, value in weights.Parameters(WorkerNetwork({**data, "layers": short}), 1).items():
        np.testing.assert_array_equal(value, forwards[name])


def test_residual_branches_start_small() -> None:
    network = build("resnet50")
    found = weights.Parameters(WorkerNetwork(json.loads(json.dumps(network.to_json()))), 1)
    small = {n for n in found if n.endswith("_bn.weight") and found[n].max() < 0.31}
    # The last batch norm of each of the sixteen branches, and none of the four shortcuts.
    assert len(small) == 16
    assert all(name.endswith("_expand_bn.weight") for name in small)
    assert all(found[name].min() >= np.float32(0.1) for name in small)


def test_layers_of_one_shape_differ() -> None:
    one, two = (weights.uniform(1, name, (9,), -1, 1) for name in ("a.weight", "b.weight"))
    assert not np.array_equal(one, two)


def test_a_longer_array_begins_like_a_shorter_one() -> None:
    short, long = (weights.uniform(1, "images", (n,), -1, 1) for n in (7, 1000))
    np.testing.assert_array_equal(short, long[:7])


def test_drawing_leaves_numpys_own_generator_alone(tiny: WorkerNetwork) -> None:
    np.random.seed(3)
    expected = np.random.random_sample()
    np.random.seed(3)
    weights.Parameters(tiny, 1)
    assert np.random.random_sample() == expected


def test_ranges(tiny: WorkerNetwork) -> None:
    found = weights.Parameters(tiny, seed=1)

    def within(name: str, low: float, high: float) -> None:
        assert (found[name] >= np.float32(low)).all()
        assert (found[name] < np.float32(high)).all()

    he = math.sqrt(6 / (3 * 3 * 3))
    within("conv1.weight", -he, he)
    assert np.abs(found["conv1.weight"]).max() > 0.9 * he
    grouped = math.sqrt(6 / (2 * 3 * 3))  # a filter of two groups over four channels sees two
    within("left.weight", -grouped, grouped)
    within("conv1_bn.weight", 0.5, 1.5)
    inputs = found["logits.weight"].shape[1]
    within("logits.weight", -0.1 * math.sqrt(6 / inputs), 0.1 * math.sqrt(6 / inputs))
    for name in ("conv1.bias", "left.bias", "conv1_bn.bias", "logits.bias"):
        within(name, -0.02, 0.02)
        assert (found[name] != 0).all()  # so that a dropped bias shows


def test_variance_is_that_of_he(tiny: WorkerNetwork) -> None:
    values = weights.uniform(1, "large.weight", (400, 25), -math.sqrt(6 / 25), math.sqrt(6 / 25))
    assert values.var() == pytest.approx(2 / 25, rel=0.05)
    assert abs(values.mean()) < 0.01


def test_images_and_labels(tiny: WorkerNetwork) -> None:
    images, labels = weights.batch(tiny, 200, seed=1)
    assert images.min() >= np.float32(-0.02)
    assert images.max() < np.float32(0.02)
    assert set(labels.tolist()) == set(range(tiny.classes))


@pytest.mark.parametrize(("low", "high"), [(-0.02, 0.02), (0.5, 1.5), (-1.0, 1.0), (0.0, 1.0)])
def test_the_largest_draw_stays_below_the_end(
    monkeypatch: pytest.MonkeyPatch, low: float, high: float
) -> None:
    most = np.full(1, 2**32 - 1, np.uint32)
    monkeypatch.setattr(weights, "_draw", lambda generator, count: most)
    assert weights.uniform(1, "x", (1,), low, high)[0] < np.float32(high)
    monkeypatch.setattr(weights, "_draw", lambda generator, count: most * 0)
    assert weights.uniform(1, "x", (1,), low, high)[0] == np.float32(low)


def test_both_losses_of_a_network_with_two_start_small() -> None:
    network = build("googlenet:aux_heads=on:size=128")
    heads = [loss.inputs[0] for loss in network.losses]
    assert len(heads) == 3
    found = weights.Parameters(WorkerNetwork(json.loads(json.dumps(network.to_json()))), 1)
    for name in heads:
        inputs = found[f"{name}.weight"].shape[1]
        assert np.abs(found[f"{name}.weight"]).max() <= np.float32(0.1 * math.sqrt(6 / inputs))
