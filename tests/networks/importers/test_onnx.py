"""ONNX: every node that is read, and every error with its node."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from netdyno.networks.importers.onnx import read_onnx

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

IMAGES = ("N", 3, 9, 9)


class Graph:
    """Nodes in a row: each reads the one before unless told otherwise."""

    def __init__(self, shape: Sequence[Any] = IMAGES) -> None:
        self.shape = shape
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.last = "images"

    def weight(self, name: str, *shape: int, values: Sequence[float] | None = None) -> str:
        """Zeros unless there are values: only shapes matter."""
        size = 1
        for count in shape:
            size *= count
        kind = TensorProto.FLOAT if values is None else TensorProto.INT64
        tensor = helper.make_tensor(name, kind, shape, values if values is not None else [0] * size)
        self.weights.append(tensor)
        return name

    def integers(self, name: str, *values: int) -> str:
        return self.weight(name, len(values), values=values)

    def node(self, kind: str, *others: str, reads: str | None = None, **attributes: Any) -> str:
        name = attributes.pop("name", f"{kind.lower()}{len(self.nodes)}")
        inputs = [self.last if reads is None else reads, *others]
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"/{name}", **attributes))
        self.last = name
        return name

    def conv(self, filters: int = 4, channels: int = 3, kernel: int = 3, **attributes: Any) -> str:
        weight = self.weight(f"w{len(self.nodes)}", filters, channels, kernel, kernel)
        return self.node("Conv", weight, **attributes)

    def classifier(self, features: int) -> None:
        self.node("Flatten", name="flat")
        weight, bias = self.weight("fc.w", 10, features), self.weight("fc.b", 10)
        self.node("Gemm", weight, bias, name="fc", transB=1)

    def content(self, *outputs: str) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            "made for tests",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, self.shape)],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                for name in outputs or [self.last]
            ],
            self.weights,
        )
        data: bytes = helper.make_model(graph).SerializeToString()
        return data

    def read(self, *outputs: str, shape: tuple[int, ...] | None = None) -> Imported:
        return read_onnx(Path("net.onnx"), self.content(*outputs), "net", shape)


def test_layers_of_every_kind() -> None:
    graph = Graph()
    graph.conv(8, name="stem", pads=[1, 1, 1, 1], strides=[2, 2])
    norms = [graph.weight(f"bn.{name}", 8) for name in ("weight", "bias", "mean", "var")]
    graph.node("BatchNormalization", *norms, name="bn", epsilon=1e-3, momentum=0.95)
    trunk = graph.node("Relu", name="relu")
    graph.node("LRN", name="lrn", size=3, alpha=0.01, beta=0.5, bias=2.0)
    left = graph.node("MaxPool", name="max", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    pads = [1, 1, 1, 1]
    middle = graph.node(
        "AveragePool", reads=trunk, name="mean", kernel_shape=[3, 3], strides=[2, 2], pads=pads
    )
    graph.node("Conv", graph.weight("g", 8, 4, 1, 1), graph.weight("g.b", 8), reads=trunk,
               name="grouped", group=2, strides=[2, 2])  # fmt: skip
    right = graph.node("Identity")
    graph.node("Concat", middle, right, reads=left, name="concat", axis=1)
    graph.node("Sum", graph.last, name="double")
    graph.node("Dropout", name="drop")
    graph.node("GlobalMaxPool", name="pool")
    graph.node("Flatten", name="flat")
    graph.node("Gemm", graph.weight("fc1.w", 24, 10), graph.weight("fc1.b", 10), name="fc1")
    graph.node("Relu", name="relu2")
    graph.node("MatMul", graph.weight("fc2.w", 10, 7), name="fc2")
    graph.node("Add", graph.weight("fc2.b", 7), name="fc2.bias")
    graph.node("Softmax", name="prob", axis=-1)
    imported = graph.read()
    assert imported.network.input_shape == (3, 9, 9)
    assert imported.network.source == "imported from net.onnx (ONNX)"
    assert imported.network.layers == (
        Conv("stem", ("images",), 8, (3, 3), (2, 2), (1, 1), bias=False),
        BatchNorm("bn", ("stem",), 0.001, 0.05),
        ReLU("relu", ("bn",)),
        LRN("lrn", ("relu",), 3, 0.01, 0.5, 2.0),
        Pool("max", ("lrn",), "max", (2, 2), (2, 2), ceil_mode=True),
        Pool("mean", ("relu",), "average", (3, 3), (2, 2), (1, 1), count_padding=False),
        Conv("grouped", ("relu",), 8, (1, 1), (2, 2), groups=2),
        Concat("concat", ("max", "mean", "grouped")),
        Add("double", ("concat", "concat")),
        Dropout("drop", ("double",), 0.5),
        Pool("pool", ("drop",), "max", (3, 3), (1, 1)),
        Flatten("flat", ("pool",)),
        Dense("fc1", ("flat",), 10),
        ReLU("relu2", ("fc1",)),
        Dense("fc2", ("relu2",), 7),
        SoftmaxCrossEntropy("loss", ("fc2",)),
    )
    assert imported.notes == (
        "'prob' (Softmax) is part of the loss",
        "a softmax cross-entropy on 'fc2' was added: the file has no loss",
        "the weights in the file are not used: netdyno draws its own from a seed",
    )


def kinds(graph: Graph) -> list[str]:
    return [layer.kind for layer in graph.read().network.layers]


@pytest.mark.parametrize(
    ("attributes", "padding"),
    [
        ({}, (0, 0)),
        ({"auto_pad": "VALID"}, (0, 0)),
        ({"auto_pad": "SAME_UPPER"}, (1, 1)),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (1, 1)),
        ({"auto_pad": "NOTSET", "pads": [2, 1, 2, 1]}, (2, 1)),
    ],
)
def test_padding_of_a_convolution(attributes: dict[str, Any], padding: tuple[int, int]) -> None:
    graph = Graph()
    graph.conv(**attributes)
    layer = graph.read().network.layers[0]
    assert isinstance(layer, Conv)
    assert layer.padding == padding


def test_a_pad_becomes_padding() -> None:
    graph = Graph()
    # The convolution's own is unequal, and the sum is not.
    graph.node("Pad", graph.integers("pads", 0, 0, 2, 1, 0, 0, 1, 1))
    graph.conv(pads=[0, 0, 1, 0])
    graph.node("Pad", graph.integers("more", 0, 0, 1, 1, 0, 0, 1, 1))
    graph.node("AveragePool", kernel_shape=[3, 3], strides=[2, 2])
    conv, pool, *_ = graph.read().network.layers
    assert isinstance(conv, Conv)
    assert conv.padding == (2, 1)
    # The zeros that a Pad has put there are counted, as if they were image.
    assert isinstance(pool, Pool)
    assert (pool.padding, pool.count_padding) == ((1, 1), True)


@pytest.mark.parametrize("batch", [4, "N"])
@pytest.mark.parametrize("sizes", [(-1, 243), (0, -1), (4, -1), (4, 243)])
def test_a_reshape_to_a_row_for_each_image(batch: Any, sizes: tuple[int, int]) -> None:
    graph = Graph((batch, 3, 9, 9))
    graph.node("Reshape", graph.integers("sizes", *sizes))
    graph.node("Gemm", graph.weight("w", 243, 10))
    assert kinds(graph) == ["Flatten", "Dense", "SoftmaxCrossEntropy"]


def test_a_reshape_whose_shape_the_graph_computes() -> None:
    """What ``x.view(x.size(0), -1)`` becomes."""
    graph = Graph()
    graph.node("Shape", name="shape")
    graph.node("Gather", graph.weight("zero", values=[0]), name="batch")
    graph.node("Unsqueeze", graph.integers("first", 0), name="batch1")
    graph.node("Constant", name="rest", value_ints=[-1])
    graph.node("Concat", "rest", reads="batch1", name="sizes", axis=0)
    graph.node("Reshape", "sizes", reads="images")
    graph.node("Gemm", graph.weight("w", 243, 10))
    assert kinds(graph) == ["Flatten", "Dense", "SoftmaxCrossEntropy"]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("stored", [True, False])
def test_a_mean_over_height_and_width(keepdims: int, stored: bool) -> None:
    graph = Graph()
    if stored:
        graph.node("ReduceMean", graph.integers("axes", -1, -2), keepdims=keepdims)
    else:
        graph.node("ReduceMean", axes=[2, 3], keepdims=keepdims)
    if keepdims:
        graph.node("Squeeze", graph.integers("squeezed", 2, 3))
    graph.node("Gemm", graph.weight("w", 3, 10))
    pool, *rest = graph.read().network.layers
    assert isinstance(pool, Pool)
    assert (pool.reduction, pool.kernel) == ("average", (9, 9))
    assert [layer.kind for layer in rest] == ["Flatten", "Dense", "SoftmaxCrossEntropy"]


def test_weights_by_another_name() -> None:
    graph = Graph()
    graph.node("Identity", reads=graph.weight("stored", 4, 3, 3, 3), name="alias")
    graph.node("Conv", "alias", reads="images")
    value = helper.make_tensor("t", TensorProto.FLOAT, [6, 4, 1, 1], [0.0] * 24)
    convolved = graph.last
    graph.node("Constant", reads="", name="constant", value=value)
    graph.nodes[-1].ClearField("input")
    graph.node("Conv", "constant", reads=convolved)
    filters = [layer.filters for layer in graph.read().network.layers if isinstance(layer, Conv)]
    assert filters == [4, 6]


def test_what_training_wrote() -> None:
    """A graph exported in training mode has more outputs and inputs, which nobody reads."""
    graph = Graph()
    norms = [graph.weight(f"bn.{name}", 3) for name in ("weight", "bias", "mean", "var")]
    graph.nodes.append(
        helper.make_node("BatchNormalization", ["images", *norms], ["y", "m", "v"], training_mode=1)
    )
    ratio = helper.make_tensor("ratio", TensorProto.FLOAT, [], [0.3])
    graph.weights += [ratio, helper.make_tensor("mode", TensorProto.BOOL, [], [True])]
    graph.node("Dropout", "ratio", "mode", reads="y")
    graph.classifier(243)
    norm, drop, *_ = graph.read().network.layers
    assert norm == BatchNorm("y", ("images",), 1e-5, 0.1)
    assert drop.kind == "Dropout"
    assert drop.rate == 0.3  # type: ignore[attr-defined]


def test_a_pooling_that_changes_nothing_is_left_out() -> None:
    graph = Graph()
    graph.node("AveragePool", name="nothing", kernel_shape=[1, 1], strides=[1, 1])
    graph.classifier(243)
    imported = graph.read()
    assert imported.network.layers[0] == Flatten("flat", ("images",))
    assert "'nothing' was left out: a pooling of 1x1 changes nothing" in imported.notes


def test_the_input_size() -> None:
    graph = Graph(("N", 3, "H", "W"))
    graph.conv()
    graph.node("GlobalAveragePool")
    graph.classifier(4)
    with pytest.raises(NetdynoError, match="size of input 'images' is not in the file: give --inp"):
        graph.read()
    assert graph.read(shape=(3, 12, 11)).network.shapes["conv0"] == (4, 10, 9)
    graph.shape = (1, 3, 9, 9)
    assert graph.read(shape=(3, 12, 11)).network.input_shape == (3, 12, 11)
    with pytest.raises(NetdynoError, match=r"node 0 .* weights are for 3 channels, but it reads 1"):
        graph.read(shape=(1, 9, 9))


@pytest.mark.parametrize(
    ("kind", "attributes", "words"),
    [
        ("Clip", {}, "node 0 (Clip 'it'): not supported; netdyno reads Add, AveragePool"),
        ("Conv", {}, "its weights '' are computed, not stored"),
        ("MaxPool", {"kernel_shape": [3]}, "only windows of height and width"),
        ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 2]}, "dilations (2, 2) are not"),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}, "pads top 0, left 0, bottom 1"),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [0, 0]}, "is not as ONNX defines it"),
        ("MaxPool", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, "only equal padding on"),
        ("MaxPool", {"kernel_shape": [2, 2], "auto_pad": "OTHER"}, "auto_pad OTHER is not"),
        ("MaxPool", {"kernel_shape": [12, 12]}, "a window of 12 does not fit"),
        ("AveragePool", {"kernel_shape": [2, 2], "colour": 1}, "attribute colour is not supported"),
        ("LRN", {}, "has no size"),
        ("LRN", {"size": 2}, "must be an odd number"),
        ("ReduceMean", {"axes": [1]}, "a mean over other axes than height and width"),
        ("ReduceMean", {}, "a mean over other axes than height and width"),
        ("Flatten", {"axis": 2}, "axis 2 is not supported"),
        ("Reshape", {"shape": [-1, 81]}, "to (-1, 81) is not supported: only to one row"),
        ("Reshape", {"shape": [1, 3, 81]}, "to (1, 3, 81) is not supported"),
        ("Reshape", {}, "'' is computed in a way that is not supported"),
        ("Squeeze", {"axes": [2, 3]}, "only supported for maps of 1x1"),
        ("Softmax", {"axis": 2}, "axis 2 is not supported"),
        ("Softmax", {}, "a softmax over maps of 3x9x9 is not supported"),
        ("Pad", {"mode": "reflect"}, "mode reflect is not supported"),
        ("Pad", {"pads": [0, 1, 0, 0, 0, 0, 0, 0]}, "only height and width can be padded"),
        ("BatchNormalization", {"spatial": 0}, "spatial 0 is not supported"),
        ("Concat", {"axis": 2}, "axis 2 is not supported"),
        ("Gather", {}, "'images' is computed in a way that is not supported"),
        ("Constant", {"value_string": "a"}, "holds neither a tensor nor numbers"),
    ],
)
def test_a_node_that_is_not_supported(kind: str, attributes: dict[str, Any], words: str) -> None:
    graph = Graph()
    graph.node(kind, name="it", **attributes)
    with pytest.raises(NetdynoError) as error:
        graph.read()
    assert str(error.value).startswith(f"net.onnx: node 0 ({kind} 'it'): ")
    assert words in str(error.value)


def bad_gemm(graph: Graph) -> None:
    graph.node("Flatten")
    graph.node("Gemm", graph.weight("w", 243, 10), alpha=2.0)


def unflattened(graph: Graph) -> None:
    graph.node("MatMul", graph.weight("w", 9, 10))


def other_features(graph: Graph) -> None:
    graph.classifier(242)


def tied(graph: Graph) -> None:
    weight = graph.weight("tied", 3, 3, 1, 1)
    graph.node("Conv", weight, name="first")
    graph.node("Conv", weight, name="second")


def one_dimension(graph: Graph) -> None:
    graph.node("Conv", graph.weight("w", 4, 3, 3))


def kernel_of_its_own(graph: Graph) -> None:
    graph.conv(kernel_shape=[5, 5])


def constant_added(graph: Graph) -> None:
    graph.node("Add", graph.weight("w", 1, 3, 1, 1))


def softmax_within(graph: Graph) -> None:
    graph.classifier(243)
    graph.node("Softmax", name="prob")
    graph.node("Gemm", graph.weight("w", 10, 5))


def padded_maximum(graph: Graph) -> None:
    graph.node("Pad", pads=[0, 0, 1, 1, 0, 0, 1, 1], name="pad")
    graph.node("MaxPool", kernel_shape=[3, 3])


def padding_with_ones(graph: Graph) -> None:
    graph.node("Pad", graph.integers("pads", *[0] * 8), graph.weight("one", values=[1]))


def twice_padded(graph: Graph) -> None:
    graph.node("Pad", pads=[0, 0, 1, 1, 0, 0, 1, 1])
    graph.node("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def positions_of_maxima(graph: Graph) -> None:
    node = helper.make_node("MaxPool", ["images"], ["y", "where"], kernel_shape=[2, 2])
    graph.nodes.append(node)
    graph.node("Relu", reads="where")


def computed_weights(graph: Graph) -> None:
    graph.node("Relu", name="made")
    graph.node("Conv", "made", reads="images")


def unknown_value(graph: Graph) -> None:
    graph.node("Relu", reads="nothing")


def other_domain(graph: Graph) -> None:
    graph.node("Relu", domain="com.example", name="theirs")


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (bad_gemm, "node 1 (Gemm 'gemm1'): alpha 2.0 is not supported"),
        (unflattened, "reads 3x9x9: a Flatten must come before it"),
        (other_features, "weights are for 242 features, but it reads 243: use the input size that"),
        (tied, "node 1 (Conv 'second'): shares its weights 'tied' with 'first'"),
        (one_dimension, "its weights are 4x3x3; 2-D convolutions only"),
        (kernel_of_its_own, "kernel_shape (5, 5), but its weights are 3x3"),
        (constant_added, "adds the constant 'w': only supported right after a MatMul"),
        (softmax_within, "node 3 (Gemm 'gemm3'): reads 'prob', the output of a softmax"),
        (padded_maximum, "node 1 (MaxPool 'maxpool1'): reads 'pad', a Pad"),
        (padding_with_ones, "padding with another value than 0"),
        (twice_padded, "a Pad before this pooling is not supported"),
        (positions_of_maxima, "its second output 'where' is read"),
        (computed_weights, "its weights 'made' are computed, not stored"),
        (unknown_value, "reads 'nothing', which nothing before it computes"),
        (other_domain, "node 0 (com.example.Relu 'theirs'): not supported"),
    ],
)
def test_nodes_that_do_not_go_together(build: Any, words: str) -> None:
    graph = Graph()
    build(graph)
    with pytest.raises(NetdynoError) as error:
        graph.read()
    assert words in str(error.value)


def test_what_is_wrong_with_the_graph() -> None:
    graph = Graph((1, 3, 9))
    graph.node("Relu")
    with pytest.raises(NetdynoError, match="input 'images' has 3 dimensions; images have 4"):
        graph.read()
    graph = Graph()
    first = graph.node("Relu", name="first")
    second = graph.node("Relu", reads="images", name="second")
    with pytest.raises(NetdynoError, match="the graph ends in first, second: netdyno trains one"):
        graph.read(first, second)
    with pytest.raises(NetdynoError, match="the graph has no layer that netdyno could train"):
        graph.read("images")


def test_a_file_that_is_no_onnx() -> None:
    for content, words in ((b"\xff\xff\xff", "is not an ONNX file"), (b"", "has no node")):
        with pytest.raises(NetdynoError, match=f"net.onnx: {words}"):
            read_onnx(Path("net.onnx"), content, "net", None)


def test_a_damaged_file() -> None:
    """A name that is no UTF-8."""
    graph = Graph()
    graph.classifier(243)
    with pytest.raises(NetdynoError, match=r"net\.onnx: is damaged: "):
        read_onnx(Path("net.onnx"), graph.content().replace(b"flat", b"\xff" * 4), "net", None)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(NetdynoError, match=r"net.onnx: .*pip install 'netdyno\[onnx\]'"):
        read_onnx(Path("net.onnx"), b"", "net", None)
