"""From axes to cells, and what is said of names that do not exist."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netdyno.errors import NetdynoError
from netdyno.host.devices import Gpu
from netdyno.networks import build
from netdyno.plan import matrix
from netdyno.plan.cell import Cell
from netdyno.plan.request import Request


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores and no GPU, whatever the tests run on."""
    monkeypatch.setattr(matrix, "cpu", lambda: SimpleNamespace(usable_cores=4))
    monkeypatch.setattr(matrix, "gpus", lambda: ())


def cells(**axes: Any) -> list[Cell]:
    return matrix.cells(Request(**{"networks": ("conv_l5",), **axes}))


def test_each_framework_in_its_first_mode_and_layout_on_all_cores() -> None:
    found = cells()
    assert [(c.framework, c.mode, c.layout) for c in found] == [
        ("jax", "jit", "nhwc"),
        ("mxnet", "symbol", "nchw"),
        ("pytorch", "eager", "nchw"),
        ("tensorflow", "graph", "nhwc"),
    ]
    assert {(c.threads, c.batch_size, c.host_allocator) for c in found} == {(4, 32, "system")}


def test_every_combination_once_in_the_order_asked() -> None:
    found = cells(
        frameworks=("pytorch", "mxnet"),
        modes=("all",),
        networks=("conv_l5", "conv_l4"),
        batch_size=(8, 2),
        threads=(1, 2),
        host_allocator=("system", "retain"),
    )
    assert len(found) == len({cell.key for cell in found}) == 2 * 2 * 4 * 2 * 2
    assert list(dict.fromkeys(cell.network_spec for cell in found)) == ["conv_l5", "conv_l4"]
    assert list(dict.fromkeys(cell.batch_size for cell in found)) == [8, 2]
    assert list(dict.fromkeys(cell.framework for cell in found)) == ["pytorch", "mxnet"]


def test_parts_follow_each_other_and_share_what_they_leave_out() -> None:
    found = cells(
        frameworks=("null",),
        batch_size=(1,),
        matrix=(
            {"batch_size": (2, 4)},
            {"networks": ("conv_l4",)},
            {"networks": ("conv_l4", "conv_l5"), "batch_size": (1, 2)},
        ),
    )
    assert [(cell.network_spec, cell.batch_size) for cell in found] == [
        ("conv_l5", 2),
        ("conv_l5", 4),
        ("conv_l4", 1),
        ("conv_l4", 2),
        ("conv_l5", 1),
    ]


def test_parts_with_two_networks_of_one_name(tmp_path: Path) -> None:
    for folder, size in (("a", 4), ("b", 8)):
        network = build(f"conv_l5:size={size}")
        (tmp_path / folder).mkdir()
        named = dataclasses.replace(network, name="mine")
        (tmp_path / folder / "mine.json").write_text(json.dumps(named.to_json()))
    parts = tuple({"networks": (str(tmp_path / name / "mine.json"),)} for name in ("a", "b"))
    with pytest.raises(NetdynoError, match="different networks 'mine'"):
        cells(frameworks=("null",), matrix=parts)


def test_what_is_named_twice_is_measured_once() -> None:
    twice = cells(
        frameworks=("null", "null"),
        modes=("steady", "steady"),
        networks=("conv_l5", "conv_l5"),
        batch_size=(8, 8),
        device=("cpu", "cpu"),
        threads=(1, 1),
        precision=("fp32", "fp32"),
        layout=("nchw", "nchw"),
        host_allocator=("system", "system"),
    )
    assert len(twice) == 1


@pytest.mark.parametrize(
    "axis",
    [
        "frameworks",
        "modes",
        "threads",
        "layout",
    ],
)
def test_an_empty_axis_means_its_default(axis: str) -> None:
    assert cells(**{axis: ()}) == cells()


@pytest.mark.parametrize(
    "axis", ["networks", "batch_size", "device", "precision", "host_allocator"]
)
def test_an_axis_that_may_not_be_empty(axis: str) -> None:
    """A plan of no cells would end as a success that measured nothing."""
    with pytest.raises(NetdynoError, match=f"--{axis.replace('_', '-')} is empty"):
        cells(**{axis: ()})


def test_modes_go_to_the_frameworks_that_have_them() -> None:
    found = cells(frameworks=("pytorch", "mxnet"), modes=("compile", "symbol"))
    assert [(c.framework, c.mode) for c in found] == [("pytorch", "compile"), ("mxnet", "symbol")]


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"frameworks": ("mxnte",)}, ["unknown framework 'mxnte'", "did you mean mxnet"]),
        ({"frameworks": ("PyTorch2",)}, ["unknown framework 'PyTorch2'", "pytorch"]),
        ({"networks": ("alexnt_owt",)}, ["unknown network 'alexnt_owt'", "alexnet_owt"]),
        ({"networks": ("googlenet:lnr=on",)}, ["lnr", "lrn"]),
        ({"precision": ("fp23",)}, ["unknown precision 'fp23'", "fp32"]),
        ({"layout": ("ncwh",)}, ["unknown layout 'ncwh'", "nchw"]),
        ({"host_allocator": ("retian",)}, ["unknown host allocator 'retian'", "retain"]),
        (
            {"frameworks": ("pytorch",), "modes": ("eagre",)},
            ["unknown mode of pytorch 'eagre'", "eager"],
        ),
        (
            {"frameworks": ("pytorch", "mxnet"), "modes": ("eager",)},
            ["mxnet has none of the modes eager", "symbol, hybrid", "leave mxnet out"],
        ),
        (
            {"frameworks": ("null",), "precision": ("fp64",)},
            ["null has no precision 'fp64'", "it has fp32"],
        ),
        (
            {"frameworks": ("mxnet",), "layout": ("nhwc",)},
            ["mxnet has no layout in mode symbol 'nhwc'", "it has nchw"],
        ),
        ({"device": ("gpu",)}, ["unknown device 'gpu'", "cpu"]),
        ({"device": ("cuda:x",)}, ["unknown device 'cuda:x'", "cuda"]),
        ({"device": ("cuda:-1",)}, ["unknown device 'cuda:-1'"]),
        ({"device": ("cuda",)}, ["'cuda'", "no NVIDIA GPU is visible", "netdyno doctor"]),
        ({"threads": (2, 5)}, ["--threads 5", "only 4 cores"]),
    ],
)
def test_wrong_axes(axes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(NetdynoError) as caught:
        cells(**axes)
    for word in words:
        assert word in str(caught.value)


class TestNetworksFromFiles:
    """A file is called by its network's name, wherever it lies."""

    def write(self, path: Path, spec: str) -> str:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**build(spec).to_json(), "name": path.stem}))
        return str(path)

    def test_the_cell_has_the_name_and_no_path(self, tmp_path: Path) -> None:
        file = self.write(tmp_path / "mine.json", "conv_l5")
        (cell,) = cells(frameworks=("null",), networks=(file,))
        assert cell.network_spec == cell.network.name == "mine"
        assert cell.network.hash == build("conv_l5").hash
        assert str(tmp_path) not in json.dumps([cell.to_json(), cell.network.to_json()])

    def test_two_networks_of_one_name(self, tmp_path: Path) -> None:
        one = self.write(tmp_path / "a" / "mine.json", "conv_l5")
        other = self.write(tmp_path / "b" / "mine.json", "conv_l4")
        with pytest.raises(NetdynoError, match="are different networks of one name, 'mine'"):
            cells(networks=(one, other))

    def test_a_file_with_a_name_of_the_zoo(self, tmp_path: Path) -> None:
        same = self.write(tmp_path / "a" / "conv_l5.json", "conv_l5")
        other = self.write(tmp_path / "b" / "conv_l5.json", "conv_l4")
        assert len(cells(frameworks=("null",), networks=("conv_l5", same))) == 1
        with pytest.raises(NetdynoError, match="are different networks of one name, 'conv_l5'"):
            cells(networks=("conv_l5", other))

    def test_a_file_that_is_not_there(self) -> None:
        with pytest.raises(NetdynoError, match=r"there is no file 'nowhere/mine\.onnx'"):
            cells(networks=("nowhere/mine.onnx",))


class TestGpus:
    @pytest.fixture(autouse=True)
    def two_gpus(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(matrix, "gpus", lambda: (Gpu("one"), Gpu("two")))

    def test_cuda_is_the_first(self) -> None:
        found = cells(frameworks=("pytorch",), device=("cuda", "cpu", "cuda:1"))
        assert [cell.device for cell in found] == ["cuda:0", "cpu", "cuda:1"]

    def test_two_names_of_one_gpu_are_one_cell(self) -> None:
        found = cells(frameworks=("pytorch",), device=("cuda", "cuda:0"))
        assert [cell.device for cell in found] == ["cuda:0"]

    def test_one_too_many(self) -> None:
        with pytest.raises(NetdynoError, match="device 'cuda:2': 2 NVIDIA GPUs are visible"):
            cells(frameworks=("pytorch",), device=("cuda:2",))

    def test_a_framework_without_cuda(self) -> None:
        with pytest.raises(NetdynoError, match="null has no device 'cuda'; it has cpu"):
            cells(frameworks=("null",), device=("cuda",))


def test_each_axis_is_in_the_key() -> None:
    (cell,) = cells(frameworks=("null",))
    others = {
        "framework": "numpy",
        "mode": "drift",
        "network_spec": "conv_l4",
        "batch_size": 9,
        "precision": "fp64",
        "layout": "nhwc",
        "device": "cuda:0",
        "threads": 3,
        "host_allocator": "retain",
        "autotune": "off",
    }
    keys = {dataclasses.replace(cell, **{axis: value}).key for axis, value in others.items()}
    assert len(keys | {cell.key}) == len(others) + 1
    assert {field.name for field in dataclasses.fields(Cell)} == {*others, "network"}
    assert cell.to_json()["network_hash"] == cell.network.hash
