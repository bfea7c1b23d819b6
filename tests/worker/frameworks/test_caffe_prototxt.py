"""The text that Caffe is given. That Caffe reads it, and what it computes, is for integration."""

from __future__ import annotations

import re

import pytest

from netdyno import networks
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
    Network,
    Pool,
    ReLU,
    SoftmaxCrossEntropy,
)
from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.caffe.prototxt import Prototxt, prototxt
from netdyno_worker.network import Network as WorkerNetwork

IMAGES = ("images",)


def ending(*layers: Layer, input_shape: tuple[int, ...] = (4, 9, 11)) -> Network:
    end = (
        Flatten("flat", (layers[-1].name,)),
        Dense("logits", ("flat",), 3),
        SoftmaxCrossEntropy("loss", ("logits",)),
    )
    return Network("small", input_shape, (*layers, *end), {"dropout": False}, "a test\nof lines")


def written(network: Network, **options: bool) -> Prototxt:
    return prototxt(WorkerNetwork(network.to_json()), 2, **options)


def layer(text: str, name: str) -> str:
    """The block of one layer, its lines joined."""
    blocks = [" ".join(block.split()) for block in text.split("layer {")[1:]]
    (found,) = [block for block in blocks if block.startswith(f'name: "{name}"')]
    return found


def test_a_whole_network() -> None:
    network = ending(Conv("conv", IMAGES, 6, (3, 3), padding=(1, 1)), ReLU("relu", ("conv",)))
    assert written(network).text == (
        "# small dropout=off\n"
        "# a test of lines\n"
        f"# netdyno hash {network.hash}\n"
        """\
name: "small"
layer {
  name: "images"
  type: "Input"
  top: "images"
  input_param {
    shape { dim: 2 dim: 4 dim: 9 dim: 11 }
  }
}
layer {
  name: "labels"
  type: "Input"
  top: "labels"
  input_param {
    shape { dim: 2 }
  }
}
layer {
  name: "conv"
  type: "Convolution"
  bottom: "images"
  top: "conv"
  convolution_param {
    num_output: 6
    kernel_size: 3
    pad: 1
  }
}
layer {
  name: "relu"
  type: "ReLU"
  bottom: "conv"
  top: "conv"
}
layer {
  name: "flat"
  type: "Flatten"
  bottom: "conv"
  top: "flat"
}
layer {
  name: "logits"
  type: "InnerProduct"
  bottom: "flat"
  top: "logits"
  inner_product_param {
    num_output: 3
  }
}
layer {
  name: "loss"
  type: "SoftmaxWithLoss"
  bottom: "logits"
  bottom: "labels"
  top: "loss"
}
"""
    )


@pytest.mark.parametrize(
    ("tested", "expected"),
    [
        (
            Conv("x", IMAGES, 8, (3, 2), (2, 1), (1, 0), groups=2, bias=False),
            "convolution_param { num_output: 8 kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 "
            "pad_h: 1 pad_w: 0 group: 2 bias_term: false }",
        ),
        (
            LRN("x", IMAGES, 3, 5e-5, 0.5, 2.0),
            "lrn_param { local_size: 3 alpha: 5e-05 beta: 0.5 k: 2.0 }",
        ),
        (Dropout("x", IMAGES, 0.4), "dropout_param { dropout_ratio: 0.4 }"),
        (Add("x", ("images", "images")), "eltwise_param { operation: SUM }"),
        (Concat("x", ("images", "images")), 'bottom: "images" bottom: "images" top: "x"'),
    ],
)
def test_settings(tested: Layer, expected: str) -> None:
    assert expected in layer(written(ending(tested)).text, "x")


@pytest.mark.parametrize(
    ("tested", "rounding"),
    [
        # 9x11: windows of 3 by 2 fit evenly; rounding is not mentioned, for the sake of old Caffes.
        (Pool("x", IMAGES, "max", (3, 3), (2, 2)), ""),
        (Pool("x", IMAGES, "max", (3, 3), (2, 2), ceil_mode=True), ""),
        (Pool("x", IMAGES, "max", (2, 2), (2, 2)), "round_mode: FLOOR"),
        (Pool("x", IMAGES, "max", (2, 2), (2, 2), ceil_mode=True), ""),
        (Pool("x", IMAGES, "average", (4, 3), (3, 1), (1, 1)), "round_mode: FLOOR"),
        (Pool("x", IMAGES, "average", (4, 3), (3, 1), (1, 1), ceil_mode=True), ""),
        (Pool("x", IMAGES, "average", (2, 2), (2, 2), ceil_mode=True, count_padding=False), ""),
    ],
)
def test_pools_round_up_unless_told(tested: Pool, rounding: str) -> None:
    text = layer(written(ending(tested)).text, "x")
    assert ("round_mode: FLOOR" in text) == bool(rounding)
    assert ("pool: MAX" if tested.reduction == "max" else "pool: AVE") in text


@pytest.mark.parametrize(
    ("tested", "reason"),
    [
        (
            Pool("x", IMAGES, "average", (3, 3), (1, 1), (1, 1), count_padding=False),
            "average pool counts padding; layer 'x' does not",
        ),
        # A last window behind the image: Caffe drops it only where there is padding.
        (
            Pool("x", IMAGES, "max", (2, 1), (4, 6), ceil_mode=True),
            "gives layer 'x' the shape (3, 3), the network says (3, 2)",
        ),
        (LRN("x", IMAGES, 4), "needs an odd size; layer 'x' has 4"),
        (BatchNorm("x", IMAGES, momentum=0.0), "layer 'x' has 0.0"),
        (Add("x", IMAGES), "'x' reads one"),
    ],
)
def test_what_caffe_cannot_express(tested: Layer, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(reason)):
        written(ending(tested))


def test_batch_norm_is_two_layers() -> None:
    network = ending(Conv("c", IMAGES, 4, (1, 1)), BatchNorm("n", ("c",), 1e-3, 0.25))
    found = written(network)
    assert "moving_average_fraction: 0.75 eps: 0.001" in layer(found.text, "n")
    assert layer(found.text, "n_scale") == (
        'name: "n_scale" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }'
    )
    assert found.parameters["n.weight"] == ("n_scale", 0)
    assert found.parameters["n.bias"] == ("n_scale", 1)
    assert found.parameters["c.bias"] == ("c", 1)
    assert found.parameters.keys() == network.parameter_shapes.keys()


CONV = Conv("c", IMAGES, 4, (1, 1))


@pytest.mark.parametrize(
    ("layers", "blobs"),
    [
        # Caffe's own models: all in the blob of the convolution.
        ([CONV, BatchNorm("n", ("c",)), ReLU("r", ("n",)), Dropout("d", ("r",))], "ccc"),
        # The input stays as it is: the next iteration needs it.
        ([ReLU("r", IMAGES), Dropout("d", ("r",))], "rr"),
        # Another layer reads what was there before.
        ([CONV, ReLU("r", ("c",)), Add("a", ("c", "r"))], "ra"),
        # ReLU's backward pass needs the sign, which batch norm would replace.
        ([CONV, ReLU("r", ("c",)), BatchNorm("n", ("r",))], "cn"),
        ([CONV, ReLU("r", ("c",)), Dropout("d", ("r",)), BatchNorm("n", ("d",))], "ccn"),
        # LRN's backward pass needs its output; Flatten has no memory of its own.
        ([CONV, LRN("l", ("c",)), ReLU("r", ("l",))], "lr"),
        ([CONV, Concat("k", ("c",)), ReLU("r", ("k",))], "kr"),
    ],
)
def test_layers_work_in_place_where_nothing_is_lost(layers: list[Layer], blobs: str) -> None:
    network = ending(*layers)
    names = [layer.name for layer in layers if layer.name != "c"]
    assert "".join(written(network).blobs[name] for name in names) == blobs
    apart = written(network, in_place=False)
    assert [apart.blobs[name] for name in names] == names


def test_dropout_behind_flatten_has_a_blob_of_its_own() -> None:
    network = networks.build("alexnet_owt:dropout")
    assert written(network).blobs["pool5_flat_dropout"] == "pool5_flat_dropout"


def test_names_do_not_collide() -> None:
    network = ending(
        Conv("labels", IMAGES, 4, (1, 1)),
        BatchNorm("n", ("labels",)),
        Conv("n_scale", ("n",), 4, (1, 1)),
        Conv('say "c\\d"\n', ("n_scale",), 4, (1, 1)),
    )
    found = written(network)
    assert found.labels == "labels_"
    assert 'bottom: "logits" bottom: "labels_"' in layer(found.text, "loss")
    assert found.parameters["n.weight"] == ("n_scale_", 0)
    assert r'name: "say \"c\\d\"\n"' in found.text
    tops = re.findall(r'^  name: "(.*)"$', found.text, re.MULTILINE)
    assert len(tops) == len(set(tops)) == len(network.layers) + 3


def test_fillers_are_for_weights_only() -> None:
    text = written(ending(CONV, BatchNorm("n", ("c",))), fillers=True).text
    assert text.count('weight_filler { type: "msra" }') == 2  # of c and of logits
    assert "filler" not in written(ending(CONV)).text


def test_a_second_loss_weighs_what_it_weighs() -> None:
    text = written(networks.build("googlenet:aux_heads")).text
    assert layer(text, "aux1_loss").endswith('top: "aux1_loss" loss_weight: 0.3 }')
    assert "loss_weight" not in layer(text, "loss")


@pytest.mark.parametrize("name", networks.names())
def test_every_network_of_the_zoo(name: str) -> None:
    network = networks.build(name)
    found = written(network)
    for own in network.layers:
        assert layer(found.text, own.name)
    assert found.parameters.keys() == network.parameter_shapes.keys()
    assert found.text.count("{") == found.text.count("}")
