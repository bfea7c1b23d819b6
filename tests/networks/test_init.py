"""Specifications: ``NAME:option=value``, and what is wrong with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from netdyno.errors import NetdynoError
from netdyno.networks import build, file_of, names
from netdyno.networks.graph import ShapeError


def test_names() -> None:
    assert names() == [
        "alexnet",
        "alexnet_owt",
        "conv_l1",
        "conv_l2",
        "conv_l3",
        "conv_l4",
        "conv_l5",
        "googlenet",
        "inception_bn",
        "overfeat_fast",
        "resnet50",
        "vgg_a",
        "vgg_d",
    ]


def test_options_hold_every_value() -> None:
    network = build("googlenet:size=192:lrn")
    assert network.name == "googlenet"
    assert network.input_shape == (3, 192, 192)
    assert network.options == {
        "size": 192,
        "classes": 1000,
        "lrn": True,
        "aux_heads": False,
        "dropout": False,
    }


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", True),
        *((f"={word}", True) for word in ("on", "true", "yes", "1", "ON", "True")),
        *((f"={word}", False) for word in ("off", "false", "no", "0", "Off")),
    ],
)
def test_on_and_off(written: str, value: bool) -> None:
    assert build(f"alexnet:lrn{written}").options["lrn"] is value


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "unknown network ''; known: alexnet, "),
        ("alexnte", "unknown network 'alexnte'; did you mean alexnet"),
        ("vgg", "unknown network 'vgg'; did you mean vgg_"),
        ("alexnet:lnr", "unknown option of network 'alexnet': 'lnr'; did you mean lrn?"),
        ("vgg_a:lrn=on", "unknown option of network 'vgg_a': 'lrn'; known: classes, dropout, size"),
        ("conv_l1:classes=10", "unknown option of network 'conv_l1': 'classes'"),
        ("alexnet:", "an option has no name"),
        ("alexnet:=on", "an option has no name"),
        ("alexnet:lrn:lrn=off", "option 'lrn' is given twice"),
        ("alexnet:lrn=maybe", "'alexnet': option 'lrn' must be on or off; not 'maybe'"),
        ("alexnet:lrn=", "option 'lrn' must be on or off; not ''"),
        ("alexnet:size", "option 'size' must be a whole number from 1 to 4096; nothing was given"),
        ("alexnet:size=0", "from 1 to 4096; not '0'"),
        ("alexnet:size=4097", "from 1 to 4096; not '4097'"),
        ("alexnet:size=-227", "from 1 to 4096; not '-227'"),
        ("alexnet:size=2_2", "from 1 to 4096; not '2_2'"),
        ("alexnet:size=227.0", "from 1 to 4096; not '227.0'"),
        ("alexnet:size=" + "9" * 5000, "from 1 to 4096; not '999"),
        ("alexnet:classes=1", "option 'classes' must be a whole number from 2 to 1000000; not '1'"),
        ("resnet50:stride_in=2", "option 'stride_in' must be 3x3 or 1x1; not '2'"),
        ("resnet50:stride_in", "option 'stride_in' must be 3x3 or 1x1; nothing was given"),
    ],
)
def test_a_wrong_specification_says_what_is_accepted(spec: str, message: str) -> None:
    with pytest.raises(NetdynoError) as error:
        build(spec)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("alexnet:size=50", "Pool 'pool5': a window of 3 does not fit an input of 1"),
        ("vgg_a:size=31", "Pool 'pool5': a window of 2 does not fit an input of 1"),
        ("conv_l4:size=6", "use a larger input size"),
        ("inception_bn:size=200", "Concat 'in3c': heights and widths differ"),
    ],
)
def test_an_input_that_does_not_fit(spec: str, message: str) -> None:
    with pytest.raises(ShapeError) as error:
        build(spec)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["mine.json", "MINE.JSON", "a:b/mine.json", "./mine.json"])
def test_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**build("conv_l5").to_json(), "name": "mine"}))
    assert file_of(name) == Path(name)
    assert build(name).name == "mine"
    assert build(name).hash == build("conv_l5").hash


@pytest.mark.parametrize("spec", ["vgg_a", "vgg_a:dropout", "json", "a.txt", ".json", ""])
def test_what_names_no_file(spec: str) -> None:
    assert file_of(spec) is None


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("no.json", None, "there is no file '{}'"),
        ("no.prototxt", None, "there is no file '{}'"),
        ("bad.json", b"{", "{} is not valid JSON"),
        ("bad.json", b"\xff", "{} is not a text file in UTF-8"),
        ("bad.json", b"[" * 100_000, "{} is not valid JSON"),
        ("bad.json", b"[]", "{}: is no neutral network"),
        ("bad.prototxt", b"\xff", "{} is not a text file in UTF-8"),
        ("bad.prototxt", b"layer {", "{}:1: this block has no"),
    ],
)
def test_a_file_that_holds_no_network(
    name: str, content: bytes | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NetdynoError) as error:
        build(str(path))
    assert words.format(path) in str(error.value)


def test_a_name_that_cannot_stand_in_a_key(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**build("conv_l5").to_json(), "name": "a/b"}))
    with pytest.raises(NetdynoError, match="'a/b' cannot name a network: use letters, digits"):
        build(str(path))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").mkdir()
    with pytest.raises(NetdynoError, match=r"cannot read .*net\.onnx: Is a directory"):
        build(str(tmp_path / "net.onnx"))


def test_a_file_takes_no_options() -> None:
    with pytest.raises(NetdynoError, match="a file takes no options; `netdyno networks import`"):
        build("mine.prototxt:size=192")


def test_importing_the_package_is_cheap() -> None:
    code = (
        "import netdyno.networks, sys;"
        "print(sorted({'numpy', 'click', 'rich', 'netdyno.networks.zoo.vgg'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
