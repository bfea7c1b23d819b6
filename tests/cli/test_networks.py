"""``netdyno networks``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from netdyno.cli.networks import command
from netdyno.errors import NetdynoError
from netdyno.networks import build, names
from netdyno.networks.builder import Builder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_the_list_has_every_network_and_its_options() -> None:
    result = run()
    assert result.exit_code == 0
    for name in names():
        assert name in result.output
    assert "60,965,224" in result.output
    assert "size=224 classes=1000 stride_in=3x3" in result.output
    assert "arXiv:1512.03385" in result.output


def test_the_list_as_json() -> None:
    data = json.loads(run("--json").stdout)
    assert [entry["name"] for entry in data["networks"]] == names()
    resnet = next(entry for entry in data["networks"] if entry["name"] == "resnet50")
    assert resnet["parameters"] == 25_557_032
    assert resnet["input_shape"] == [3, 224, 224]
    assert resnet["options"][2] == {
        "name": "stride_in",
        "default": "3x3",
        "accepts": "3x3 or 1x1",
    }


def test_one_network() -> None:
    result = run("alexnet:dropout=off")
    assert result.exit_code == 0
    for text in (
        build("alexnet:dropout=off").hash,
        "lrn=on dropout=off",
        "filters=96 kernel=11x11 stride=4x4",
        "96x55x55",
        "60,965,224",
        "for 1 image;",
    ):
        assert text in result.output
    assert "Dropout" not in result.output


def test_one_network_as_json() -> None:
    data = json.loads(run("alexnet_owt", "--json").stdout)
    assert data["hash"] == build("alexnet_owt").hash
    assert data["options"] == {"size": 224, "classes": 1000, "dropout": False}
    assert data["total"]["parameters"] == 61_100_840
    assert data["layers"][0] == {
        "inputs": ["images"],
        "name": "conv1",
        "kind": "Conv",
        "output_shape": [64, 55, 55],
        "parameters": 23_296,
        "parameter_bytes": 93_184,
        "forward_flop": 2 * 363 * 64 * 55 * 55,
        "backward_flop": 2 * 363 * 64 * 55 * 55,
        "activation_elements": 64 * 55 * 55,
        "activation_bytes": 4 * 64 * 55 * 55,
    }
    for name, total in data["total"].items():
        assert total == sum(layer[name] for layer in data["layers"])


def test_the_batch_scales_work_and_activations_but_not_parameters() -> None:
    one = json.loads(run("vgg_a", "--json").stdout)["total"]
    many = json.loads(run("vgg_a", "--json", "--batch-size", "32").stdout)["total"]
    for name in ("forward_flop", "backward_flop", "activation_elements", "activation_bytes"):
        assert many[name] == 32 * one[name]
    for name in ("parameters", "parameter_bytes"):
        assert many[name] == one[name]
    assert "for 32 images;" in run("vgg_a", "--batch-size", "32").output


def test_as_prototxt() -> None:
    text = run("alexnet_owt", "--prototxt", "--batch-size", "16").stdout
    assert text.startswith("# alexnet_owt size=224 classes=1000 dropout=off\n")
    assert 'name: "alexnet_owt"' in text
    assert "shape { dim: 16 dim: 3 dim: 224 dim: 224 }" in text
    assert 'weight_filler { type: "msra" }' in text
    assert "shape { dim: 1 dim: 3 " in run("vgg_a", "--prototxt").stdout


@pytest.mark.parametrize("arguments", [("--prototxt",), ("vgg_a", "--prototxt", "--json")])
def test_prototxt_is_of_one_network_and_no_json(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "--prototxt needs the NAME of a network, and no --json" in result.output


def test_a_network_that_caffe_cannot_express(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder((3, 8, 8))
    builder.lrn("even", size=4)
    builder.flatten()
    builder.loss()
    network = builder.network("mine", options={}, source="")
    monkeypatch.setattr("netdyno.networks.build", lambda spec: network)
    error = run("mine", "--prototxt").exception
    assert isinstance(error, NetdynoError)
    assert str(error) == "network 'mine': Caffe's LRN needs an odd size; layer 'even' has 4"


@pytest.mark.parametrize("spec", ["alexnte", "alexnet:lnr", "alexnet:size=0", "alexnet:size=50"])
def test_a_wrong_name_reaches_the_entry_point(spec: str) -> None:
    assert isinstance(run(spec).exception, NetdynoError)


@pytest.mark.parametrize("arguments", [("--batch-size", "2"), ("vgg_a", "--batch-size", "0")])
def test_a_wrong_batch_size(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "batch-size" in result.output
