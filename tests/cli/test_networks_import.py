"""``netdyno networks import``, and a file where the name of a network may stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from netdyno.cli.networks import command
from netdyno.errors import NetdynoError
from netdyno.networks import build

PROTOTXT = """\
layer { name: "data" type: "Data" top: "data" top: "label" }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "fc" type: "InnerProduct" bottom: "conv" top: "fc"
  inner_product_param { num_output: 10 } }
layer { name: "top1" type: "Accuracy" bottom: "fc" bottom: "label" top: "top1" }
"""
ADDED = "a softmax cross-entropy on 'fc' was added: the file has no loss"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my net.prototxt"
    path.write_text(PROTOTXT)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_the_layers_and_what_was_changed(file: Path) -> None:
    result = run("import", file, "--input-size", "3,12,10")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("my_net  ")
    assert "3x12x10" in result.stdout
    assert "Conv filters=8 kernel=3x3" in result.stdout
    assert f"note: {ADDED}" in result.stderr
    assert "note: 'top1' (Accuracy) was left out" in result.stderr


def test_json_has_the_notes(file: Path) -> None:
    result = run("import", file, "--input-size", "3,12,10", "--name", "mine", "--json")
    data = json.loads(result.stdout)
    assert data["name"] == "mine"
    assert data["input_shape"] == [3, 12, 10]
    assert data["notes"] == ["'top1' (Accuracy) was left out", ADDED]
    assert [layer["kind"] for layer in data["layers"]] == [
        "Conv",
        "ReLU",
        "Flatten",
        "Dense",
        "SoftmaxCrossEntropy",
    ]


def test_what_out_writes_can_be_named(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "written.json"
    options = ("--input-size", "3,12,10", "--name", "mine", "--out", out)
    imported = run("import", file, *options)
    assert imported.exit_code == 0, imported.output
    assert str(tmp_path) not in out.read_text()
    network = build(str(out))
    assert network.name == "mine"
    shown = run(out)
    assert shown.stdout == imported.stdout
    assert network.hash in shown.stdout
    # It is never overwritten.
    again = run("import", file, *options)
    assert isinstance(again.exception, NetdynoError)
    assert "there is such a file" in str(again.exception)


def test_a_file_in_place_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "small.prototxt"
    path.write_text('input: "data" input_dim: [1, 3, 12, 10]\n' + PROTOTXT.split("\n", 1)[1])
    text = path.read_text().replace('bottom: "label" ', "")
    path.write_text(text)
    result = run(path, "--batch-size", "4")
    assert result.exit_code == 0, result.output
    assert "for 4 images" in result.stdout
    assert f"note: {ADDED}" in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "the size of 'data' is not in the file: give --input-size C,H,W"),
        (
            ("--input-size", "3,1,1"),
            "my net.prototxt:2: layer 'conv' (Convolution): Conv 'conv': a",
        ),
        (("--input-size", "3,9,9", "--name", "a/b"), "'a/b' cannot name a network"),
        (("--input-size", "3,9,9", "--name", ""), "'' cannot name a network"),
        (("--input-size", "3,9,9", "--out", "a.yaml"), "--out a.yaml: name a .json file"),
        (("--input-size", "3,9,9", "--out", "no/a.json"), "cannot write no/a.json: No such file"),
    ],
)
def test_what_is_wrong_is_one_line(file: Path, options: tuple[str, ...], words: str) -> None:
    error = run("import", file, *options).exception
    assert isinstance(error, NetdynoError)
    assert words in str(error)
    assert "\n" not in str(error)


def test_files_that_are_none(tmp_path: Path) -> None:
    other = tmp_path / "net.caffemodel"
    other.write_bytes(b"")
    neutral = tmp_path / "net.json"
    neutral.write_text(json.dumps(build("conv_l5").to_json()))
    for arguments, words in (
        ((tmp_path / "no.onnx",), "there is no file"),
        ((other,), "a network comes from a .prototxt, .onnx or .json file"),
        ((neutral, "--input-size", "3,9,9"), "a neutral network has its input size"),
    ):
        error = run("import", *arguments).exception
        assert isinstance(error, NetdynoError)
        assert words in str(error)


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    text = 'input: "data" input_dim: [1, 3, 4, 4]\n' + (
        'layer { name: "[/x] \\x1b[2J" type: "InnerProduct" bottom: "data" top: "fc"\n'
        "inner_product_param { num_output: 2 } }"
    )
    path.write_text(text)
    result = run("import", path)
    assert result.exit_code == 0, result.output
    assert "[/x] \N{REPLACEMENT CHARACTER}[2J" in result.stdout
    path.write_text(text.replace('bottom: "data"', 'bottom: "\\x1b"'))
    error = run("import", path).exception
    assert isinstance(error, NetdynoError)
    assert str(error).isprintable()


@pytest.mark.parametrize("size", ["3", "3,9", "3x9x9", "3,0,9", "3,-9,9", "a,b,c", "3,9,9,9"])
def test_a_wrong_size(file: Path, size: str) -> None:
    result = run("import", file, "--input-size", size)
    assert result.exit_code == 2
    assert "is not like 3,224,224" in result.stderr


def test_usage() -> None:
    assert "networks import [OPTIONS] FILE" in run("import", "--help").output
    assert "networks [OPTIONS] [NAME" in run("--help").output
    missing = run("import")
    assert missing.exit_code == 2
    assert "Missing argument 'FILE'" in missing.output
