"""Caffe's network definitions of both generations: every layer, and every error with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from netdyno.errors import NetdynoError
from netdyno.networks.graph import (
    LRN,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Pool,
    ReLU,
    SoftmaxCrossEntropy,
)
from netdyno.networks.importers import Imported
from netdyno.networks.importers.prototxt import read_prototxt

INPUT = 'input: "data"\ninput_dim: 1 input_dim: 3 input_dim: 9 input_dim: 9\n'
CLASSIFIER = 'layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc"\n' + (
    "inner_product_param { num_output: 10 } }\n"
)


def read(text: str, shape: tuple[int, ...] | None = None) -> Imported:
    return read_prototxt(Path("net.prototxt"), text, "net", shape)


def modern(kind: str, settings: str = "", bottoms: str = '"data"', top: str = "x") -> str:
    """A layer of its own, then a classifier."""
    reads = " ".join(f"bottom: {bottom}" for bottom in bottoms.split())
    layer = f'layer {{ name: "it" type: "{kind}" {reads} top: "{top}"\n{settings} }}\n'
    return INPUT + layer + CLASSIFIER


OLD = """\
name: "small" # as in 2014
input: "data"
input_dim: 16
input_dim: 3
input_dim: 20
input_dim: 18
force_backward: true
layers {
  name: "conv1"
  type: CONVOLUTION
  bottom: "data"
  top: "conv1/3x3"
  blobs_lr: 1
  blobs_lr: 2
  weight_decay: 1
  weight_decay: 0
  convolution_param {
    num_output: 8 kernel_size: 3 stride: 2 pad: 1
    weight_filler { type: "xavier" std: 0.1 }
  }
}
layers { name: "relu" type: RELU bottom: "conv1/3x3" top: "conv1/3x3" }
layers { name: "norm" type: LRN bottom: "conv1/3x3" top: "norm"
  lrn_param { local_size: 3 alpha: 0.01 beta: 0.5 } }
layers { name: "pool" type: POOLING bottom: "norm" top: "pool"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layers { name: "left" type: CONVOLUTION bottom: "pool" top: "left"
  convolution_param { num_output: 4 kernel_size: 1 group: 2 } }
layers { name: "relu" type: RELU bottom: "left" top: "left" }
layers { name: "right" type: CONVOLUTION bottom: "pool" top: "right"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 bias_term: false } }
layers { name: "both" type: CONCAT bottom: "left" bottom: "right" top: "both" }
layers { name: "fc" type: INNER_PRODUCT bottom: "both" top: "fc"
  inner_product_param { num_output: 10 } }
layers { name: "drop" type: DROPOUT bottom: "fc" top: "fc" dropout_param { dropout_ratio: 0.4 } }
layers { name: "out" type: INNER_PRODUCT bottom: "fc" top: "out"
  inner_product_param { num_output: 5 } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "out" bottom: "label" top: "loss" }
"""


def test_a_file_of_the_older_generation() -> None:
    imported = read(OLD)
    network = imported.network
    assert network.name == "net"
    assert network.source == "imported from net.prototxt (Caffe)"
    assert network.input_shape == (3, 20, 18)
    assert network.layers == (
        Conv("conv1", ("images",), 8, (3, 3), (2, 2), (1, 1)),
        ReLU("relu", ("conv1",)),
        LRN("norm", ("relu",), 3, 0.01, 0.5, 1.0),
        # 10x9: height is rounded up, so it says so.
        Pool("pool", ("norm",), "average", (3, 3), (2, 2), ceil_mode=True),
        Conv("left", ("pool",), 4, (1, 1), groups=2),
        ReLU("relu_2", ("left",)),
        Conv("right", ("pool",), 4, (3, 3), padding=(1, 1), bias=False),
        Concat("both", ("relu_2", "right")),
        Flatten("both_flat", ("both",)),
        Dense("fc", ("both_flat",), 10),
        Dropout("drop", ("fc",), 0.4),
        Dense("out", ("drop",), 5),
        SoftmaxCrossEntropy("loss", ("out",)),
    )
    assert imported.notes == ()


NEW = """\
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { mirror: true crop_size: 32 mean_value: 104 }
  data_param { source: "somewhere" batch_size: 8 backend: LMDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
  transform_param { crop_size: 64 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" param { lr_mult: 1 }
  convolution_param { num_output: 8 kernel_h: 3 kernel_w: 5 stride_h: 1 stride_w: 2 pad: 1 pad: 2
                      bias_term: false weight_filler { type: "msra" } } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv"
  batch_norm_param { moving_average_fraction: 0.95 eps: 0.001 } }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "twice" type: "Split" bottom: "conv" top: "one" top: "two" }
layer { name: "pool" type: "Pooling" bottom: "one" top: "one_pool"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 round_mode: FLOOR } }
layer { name: "branch" type: "Convolution" bottom: "two" top: "branch"
  convolution_param { num_output: 8 kernel_size: 2 stride: 2 } }
layer { name: "sum" type: "Eltwise" bottom: "one_pool" bottom: "branch" top: "sum" }
layer { name: "side_pool" type: "Pooling" bottom: "sum" top: "side"
  pooling_param { pool: MAX global_pooling: true } }
layer { name: "side_fc" type: "InnerProduct" bottom: "side" top: "side_fc"
  inner_product_param { num_output: 6 bias_term: false } }
layer { name: "side_loss" type: "SoftmaxWithLoss" bottom: "side_fc" bottom: "label"
  top: "side_loss" loss_weight: 0.3 }
layer { name: "flat" type: "Flatten" bottom: "sum" top: "flat" }
layer { name: "dead" type: "ReLU" bottom: "flat" top: "dead" }
layer { name: "quiet" type: "Silence" bottom: "dead" bottom: "label" }
layer { name: "fc" type: "InnerProduct" bottom: "flat" top: "fc"
  inner_product_param { num_output: 6 } }
layer { name: "top1" type: "Accuracy" bottom: "fc" bottom: "label" top: "top1" }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }
"""


def test_a_file_of_the_newer_generation_has_what_training_has() -> None:
    imported = read(NEW)
    assert imported.network.input_shape == (3, 32, 32)
    assert imported.network.layers == (
        Conv("conv", ("images",), 8, (3, 5), (1, 2), (1, 2), bias=False),
        BatchNorm("bn", ("conv",), 0.001, 0.05),
        ReLU("relu", ("bn",)),
        Pool("pool", ("relu",), "max", (2, 2), (2, 2)),
        Conv("branch", ("relu",), 8, (2, 2), (2, 2)),
        Add("sum", ("pool", "branch")),
        Pool("side_pool", ("sum",), "max", (16, 8), (1, 1)),
        Flatten("side_pool_flat", ("side_pool",)),
        Dense("side_fc", ("side_pool_flat",), 6, bias=False),
        SoftmaxCrossEntropy("side_loss", ("side_fc",), 0.3),
        Flatten("flat", ("sum",)),
        Dense("fc", ("flat",), 6),
        SoftmaxCrossEntropy("loss", ("fc",)),
    )
    assert imported.network.output == "fc"
    assert imported.notes == (
        "'top1' (Accuracy) was left out",
        "left out, since they lead to no loss: dead",
    )


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        ('input: "data" input_shape { dim: 2 dim: 1 dim: 28 dim: 30 }', (1, 28, 30)),
        (
            'input: "label" input: "data" input_shape { dim: 2 }'
            "input_shape { dim: 2 dim: 3 dim: 8 dim: 9 }",
            (3, 8, 9),
        ),
        (
            'layer { type: "Input" top: "data" input_param { shape: { dim: [2, 3, 8, 9] } } }',
            (3, 8, 9),
        ),
        (
            'layer { type: "DummyData" top: "data" top: "label" dummy_data_param {'
            " data_filler { } shape { dim: 1 dim: 3 dim: 8 dim: 9 } shape { dim: 1 } } }",
            (3, 8, 9),
        ),
        (
            'layer { type: "DummyData" top: "data" dummy_data_param {'
            " num: 1 channels: 4 height: 8 width: 9 } }",
            (4, 8, 9),
        ),
        (
            'layer { type: "MemoryData" top: "data" top: "label" memory_data_param {'
            " batch_size: 1 channels: 1 height: 8 width: 9 } }",
            (1, 8, 9),
        ),
        (
            'layer { type: "ImageData" top: "data" top: "label" image_data_param {'
            " new_height: 8 new_width: 9 is_color: false } }",
            (1, 8, 9),
        ),
        ('layer { type: "Data" top: "data" data_param { crop_size: 9 } }', (3, 9, 9)),
    ],
)
def test_where_the_input_size_comes_from(source: str, shape: tuple[int, ...]) -> None:
    classifier = CLASSIFIER.replace('"x"', '"data"')
    assert read(f"{source}\n{classifier}").network.input_shape == shape
    assert read(f"{source}\n{classifier}", (3, 5, 6)).network.input_shape == (3, 5, 6)


def test_a_size_that_only_the_images_have() -> None:
    text = 'layer { type: "Data" top: "data" top: "label" }\n' + CLASSIFIER.replace('"x"', '"data"')
    with pytest.raises(NetdynoError, match=r"net\.prototxt:1: .*--input-size 3,224,224"):
        read(text)
    assert read(text, (3, 7, 7)).network.parameter_shapes["fc.weight"] == (10, 147)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        # 9 in: windows of 3 with a step of 2 fit evenly, those of 2 do not.
        ("kernel_size: 3 stride: 2", Pool("it", ("images",), "max", (3, 3), (2, 2))),
        (
            "kernel_size: 2 stride: 2",
            Pool("it", ("images",), "max", (2, 2), (2, 2), ceil_mode=True),
        ),
        (
            "pool: AVE kernel_size: 3 stride: 3 pad: 1",
            Pool("it", ("images",), "average", (3, 3), (3, 3), (1, 1), ceil_mode=True),
        ),
        (
            # A sixth window would start in the right padding: there is none.
            "pool: AVE kernel_size: 2 stride: 2 pad: 1",
            Pool("it", ("images",), "average", (2, 2), (2, 2), (1, 1)),
        ),
        ("pool: 1 kernel_size: 9 stride: 4", Pool("it", ("images",), "average", (9, 9), (1, 1))),
        ("pool: AVE global_pooling: true", Pool("it", ("images",), "average", (9, 9), (1, 1))),
    ],
)
def test_pooling(pooling: str, expected: Pool) -> None:
    network = read(modern("Pooling", f"pooling_param {{ {pooling} }}")).network
    assert network.layers[0] == expected


@pytest.mark.parametrize(
    ("end", "logits", "note"),
    [
        ("", "fc", "a softmax cross-entropy on 'fc' was added: the file has no loss"),
        (
            'layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }',
            "fc",
            "'prob', a softmax, is part of the loss",
        ),
        (
            'layer { name: "last" type: "ReLU" bottom: "fc" top: "fc" }',
            "last",
            "a softmax cross-entropy on 'last' was added: the file has no loss",
        ),
        (
            'layer { name: "a" type: "SoftmaxWithLoss" bottom: "fc" loss_weight: 0 }',
            "fc",
            "'a' was left out, since its loss_weight is 0",
        ),
    ],
)
def test_a_file_without_a_loss_gets_one(end: str, logits: str, note: str) -> None:
    imported = read(modern("ReLU") + end)
    assert imported.network.layers[-1] == SoftmaxCrossEntropy("loss", (logits,))
    assert note in imported.notes


def test_a_file_that_ends_in_maps_gets_a_pooling_too() -> None:
    settings = "convolution_param { num_output: 4 kernel_size: 3 }"
    imported = read(modern("Convolution", settings).removesuffix(CLASSIFIER))
    assert [layer.kind for layer in imported.network.layers] == [
        "Conv",
        "Pool",
        "Flatten",
        "SoftmaxCrossEntropy",
    ]
    assert "a global average pooling was added: the file ends in the maps of 'it'" in imported.notes


def test_what_training_does_otherwise_is_said() -> None:
    frozen = read(modern("Convolution", CONV + "param { lr_mult: 0 }"))
    assert "'it' has a learning rate of 0 in the file: netdyno trains it" in frozen.notes
    stored = "batch_norm_param { use_global_stats: true }"
    scale = 'layer { name: "s" type: "Scale" bottom: "x" top: "x" scale_param { bias_term: true } }'
    text = modern("BatchNorm", stored).replace(CLASSIFIER, scale + CLASSIFIER)
    assert any("stored statistics" in note for note in read(text).notes)


@pytest.mark.parametrize(
    ("rules", "there"),
    [
        ("", True),
        ("include { phase: TRAIN }", True),
        ("include { phase: TEST }", False),
        ("include { phase: TEST } include { phase: TRAIN }", True),
        ("exclude { phase: TRAIN }", False),
        ("exclude { phase: TEST }", True),
        ("include { min_level: 1 }", False),
        ("include { max_level: 1 }", True),
        ('include { stage: "deploy" }', False),
        ('include { not_stage: "deploy" }', True),
    ],
)
def test_phases(rules: str, there: bool) -> None:
    layer = f'layer {{ name: "it" type: "ReLU" bottom: "x" top: "x" {rules} }}\n'
    text = modern("Convolution", CONV).replace(CLASSIFIER, layer + CLASSIFIER)
    kinds = [found.kind for found in read(text).network.layers]
    assert ("ReLU" in kinds) is there


def test_layers_of_one_name_stay_apart() -> None:
    text = modern("ReLU", bottoms='"data"') + "".join(
        f'layer {{ name: "{name}" type: "ReLU" bottom: "fc" top: "fc" }}\n'
        for name in ("it", "images", "it")
    )
    names = [layer.name for layer in read(text).network.layers if layer.kind == "ReLU"]
    assert names == ["it", "it_2", "images_2", "it_3"]


CONV = "convolution_param { num_output: 4 kernel_size: 3 }\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (modern("Deconvolution"), 3, "layer 'it' (Deconvolution): not supported; netdyno reads"),
        (modern("PReLU"), 3, "layer 'it' (PReLU): not supported"),
        (
            modern("ReLU", "relu_param { negative_slope: 0.1 }"),
            4,
            "negative_slope is not supported",
        ),
        (modern("ReLU", "relu_param { slope: 0.1 }"), 4, "relu_param.slope is not supported"),
        (modern("ReLU", "elu_param { }"), 4, "elu_param is not supported here"),
        (modern("ReLU", bottoms='"label"'), 3, "reads 'label', which nothing before it computes"),
        (modern("ReLU", bottoms='"data" "data"'), 3, "needs one bottom, has 2"),
        (modern("Concat", bottoms=""), 3, "has no bottom"),
        (modern("Convolution"), 3, "has no num_output"),
        (modern("Convolution", "convolution_param { num_output: 4 }"), 4, "has no kernel_size"),
        (modern("Convolution", CONV.replace("4", "0")), 3, "filters must be 1 or more, not 0"),
        (modern("Convolution", CONV.replace("3", "10")), 3, "a window of 10 does not fit"),
        (modern("Convolution", CONV.replace("3", "3 group: 2")), 3, "divide into 2 groups"),
        (modern("Convolution", CONV.replace("3", "3 dilation: 2")), 4, "dilation is not supported"),
        (modern("Convolution", CONV.replace("3", "3 axis: 2")), 4, "only axis: 1 is supported"),
        (
            modern("Convolution", CONV.replace("size", "h")),
            4,
            "give kernel_size, or both of kernel_h",
        ),
        (
            modern("Convolution", CONV.replace("3", "3 kernel_h: 3 kernel_w: 3")),
            4,
            "give kernel_size, or both",
        ),
        (
            modern("Convolution", CONV.replace("3", "3 pad: 1 pad: 1 pad: 1")),
            4,
            "pad is given more than twice",
        ),
        (modern("Convolution", CONV + "propagate_down: false"), 5, "propagate_down: false"),
        (modern("Convolution", CONV + "loss_weight: 1"), 5, "only SoftmaxWithLoss can be a loss"),
        (modern("Pooling", "pooling_param { pool: STOCHASTIC }"), 4, "pool: STOCHASTIC"),
        (modern("Pooling", "pooling_param { pool: MAX }"), 4, "has no kernel_size"),
        (
            modern("Pooling", "pooling_param { kernel_size: 2 pad: 2 }"),
            3,
            "padding must be smaller than the kernel",
        ),
        (
            modern("Pooling", "pooling_param { kernel_size: 2\nround_mode: UP }"),
            5,
            "no round_mode UP",
        ),
        (
            modern("LRN", "lrn_param { norm_region: WITHIN_CHANNEL }"),
            4,
            "WITHIN_CHANNEL is not supported",
        ),
        (modern("LRN", "lrn_param { local_size: 4 }"), 3, "must be an odd number"),
        (modern("BatchNorm"), 3, "needs a Scale { bias_term: true } right after it"),
        (modern("Scale", "scale_param { bias_term: true }"), 3, "only supported right after a"),
        (modern("Scale", bottoms='"data" "data"'), 3, "a Scale with two bottoms"),
        (
            modern("BatchNorm").replace(
                CLASSIFIER, 'layer { name: "s" type: "Scale" bottom: "x" top: "x" }\n' + CLASSIFIER
            ),
            5,
            "needs bias_term: true",
        ),
        (modern("Eltwise", "eltwise_param { operation: PROD }"), 4, "PROD is not supported"),
        (
            modern("Eltwise", "eltwise_param { coeff: 1 coeff: -1 }", '"data" "data"'),
            4,
            "a coeff other than 1",
        ),
        (modern("Concat", "concat_param { axis: 2 }"), 4, "only axis: 1 is supported"),
        (modern("InnerProduct"), 3, "has no num_output"),
        (modern("Dropout", "dropout_param { dropout_ratio: 1.5 }"), 3, "rate must be from 0"),
        (modern("Flatten", "flatten_param { axis: 2 }"), 4, "only axis: 1 is supported"),
        (modern("Softmax"), 3, "a softmax over maps of 3x9x9 is not supported"),
        (modern("SoftmaxWithLoss"), 3, "a softmax over maps of 3x9x9 is not supported"),
        (
            modern("ReLU")
            + 'layer { name: "p" type: "Softmax" bottom: "fc" top: "p" }\n'
            + 'layer { name: "r" type: "ReLU" bottom: "p" top: "r" }\n',
            8,
            "reads 'p', the output of a softmax: a softmax can only end a network",
        ),
        (
            modern("ReLU")
            + 'layer { name: "l" type: "SoftmaxWithLoss" bottom: "fc" loss_param {\n'
            + "normalization: NONE } }",
            8,
            "a sum over the batch: not a mean",
        ),
        (
            modern("Convolution", CONV + 'param { name: "w" }')
            + 'layer { name: "other" type: "InnerProduct" bottom: "fc" top: "other"\n'
            + 'param { name: "w" } inner_product_param { num_output: 2 } }',
            9,
            "shares its parameter 'w' with 'it': not supported",
        ),
        ("layers { layer { name: 'conv' type: 'conv' } bottom: 'data' }", 1, "format of 2013"),
        ('layer { name: "it" }', 1, "this layer has no type"),
        ('layer { type: "Data" }', 1, "has no top"),
        ("layer { type: 'ReLU' }\nlayers { type: RELU }", 2, "layer { … } and layers { … }"),
        ("net: 'x'\nbase_lr: 0.1", 1, "unknown field 'net': is this a network, or a solver?"),
        ("layer: 3", 1, "layer must be a block { … }, not '3'"),
        (INPUT.replace("9", "0") + CLASSIFIER, 1, "has a size of (3, 0, 0)"),
        (INPUT + "layer {", 3, "this block has no '}' at its end"),
    ],
)
def test_what_is_not_supported_is_named_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(NetdynoError) as error:
        read(text)
    assert re.match(rf"net\.prototxt:{line}: ", str(error.value)), error.value
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no layer in it"),
        ("# only a comment", "no layer in it"),
        (CLASSIFIER, "nothing to read images from"),
        (
            modern("ReLU") + 'layer { name: "other" type: "ReLU" bottom: "data" top: "y" }',
            "ends in fc, other: netdyno trains one classifier",
        ),
        (INPUT + 'layer { type: "Split" bottom: "data" top: "x" }', "has no layer that netdyno"),
    ],
)
def test_what_is_wrong_with_the_whole_file(text: str, words: str) -> None:
    with pytest.raises(NetdynoError) as error:
        read(text)
    assert str(error.value).startswith("net.prototxt: ")
    assert words in str(error.value)


def test_labels_are_no_images() -> None:
    text = 'input: "data" input: "label" input_shape { dim: 1 dim: 3 dim: 9 dim: 9 }\n' + (
        'layer { type: "ReLU" bottom: "label" top: "x" }\n' + CLASSIFIER
    )
    with pytest.raises(NetdynoError, match="reads 'label', which is no image"):
        read(text)
