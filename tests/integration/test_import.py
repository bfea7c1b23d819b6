"""Networks that others have written: imported, and computed as the reference computes them."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from netdyno.networks import Network, build
from netdyno.parity.verify import Verifier
from tests.integration.conftest import cell, environment_of

pytestmark = pytest.mark.integration

EXPORTS = Path(__file__).parent / "exports"

# Every layer that is read, with rectangles, ragged edges and names that only differ in a sign.
PROTOTXT = """\
input: "data" input_shape { dim: 1 dim: 3 dim: 33 dim: 30 }
layer { name: "a/b" type: "Convolution" bottom: "data" top: "a/b"
  convolution_param { num_output: 16 kernel_h: 3 kernel_w: 5 stride: 2 pad_h: 1 pad_w: 2 } }
layer { name: "relu" type: "ReLU" bottom: "a/b" top: "a/b" }
layer { name: "norm" type: "LRN" bottom: "a/b" top: "norm" lrn_param { alpha: 0.01 } }
layer { name: "pool" type: "Pooling" bottom: "norm" top: "pool"
  pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "a_b" type: "Convolution" bottom: "pool" top: "left"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 group: 2 bias_term: false } }
layer { name: "bn" type: "BatchNorm" bottom: "left" top: "left" }
layer { name: "scale" type: "Scale" bottom: "left" top: "left" scale_param { bias_term: true } }
layer { name: "train" type: "ReLU" bottom: "left" top: "left" }
layer { name: "sum" type: "Eltwise" bottom: "left" bottom: "pool" top: "sum" }
layer { name: "both" type: "Concat" bottom: "sum" bottom: "pool" top: "both" }
layer { name: "mean" type: "Pooling" bottom: "both" top: "mean"
  pooling_param { pool: AVE kernel_size: 3 stride: 1 pad: 1 } }
layer { name: "drop" type: "Dropout" bottom: "mean" top: "mean" }
layer { name: "side" type: "InnerProduct" bottom: "mean" top: "side"
  inner_product_param { num_output: 10 bias_term: false } }
layer { name: "side_loss" type: "SoftmaxWithLoss" bottom: "side" bottom: "label" loss_weight: 0.3 }
layer { name: "fc" type: "InnerProduct" bottom: "mean" top: "fc"
  inner_product_param { num_output: 10 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }
"""

# MXNet's exporter wants an onnx that still has the names of 2021.
BESIDE = {
    "pytorch": ("torchvision==0.28.0", "onnx==1.23.2", "pillow", "protobuf", "ml_dtypes"),
    "mxnet": ("onnx==1.14.1", "protobuf==3.20.3", "typing_extensions"),
}


@dataclass(frozen=True)
class Exported:
    """Files in ``folder``; ``counts`` are the models' own counts of parameters."""

    folder: Path
    counts: dict[str, int]

    def network(self, name: str) -> Network:
        return build(str(self.folder / f"{name}.onnx"))


def export(framework: str, script: str, folder: Path) -> Exported:
    """Run a script in a framework's environment, with packages that it needs for this only."""
    environment = environment_of(framework)
    packages = folder / "packages"
    pip = [str(environment.python), "-m", "pip", "install", "--quiet", "--no-deps"]
    installed = subprocess.run(
        [*pip, "--only-binary", ":all:", "--target", str(packages), *BESIDE[framework]],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode:
        reason = (installed.stderr.strip().splitlines() or ["no output"])[-1]
        pytest.skip(f"what exports models of {framework} cannot be installed: {reason}")
    done = subprocess.run(
        [str(environment.python), str(EXPORTS / script), str(folder)],
        env={**environment.environ(), "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Exported(folder, json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def torchvision(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    pytest.importorskip("onnx")
    return export("pytorch", "torchvision_models.py", tmp_path_factory.mktemp("torchvision"))


@pytest.fixture(scope="module")
def gluon(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    pytest.importorskip("onnx")
    return export("mxnet", "gluon_models.py", tmp_path_factory.mktemp("gluon"))


def parameters(network: Network) -> int:
    return sum(math.prod(shape) for shape in network.parameter_shapes.values())


@pytest.mark.parametrize("name", ["alexnet", "googlenet", "resnet18", "squeezenet1_1"])
def test_torchvision_s_models_have_their_own_parameters(torchvision: Exported, name: str) -> None:
    assert parameters(torchvision.network(name)) == torchvision.counts[name]


@pytest.mark.parametrize("name", ["mobilenet", "resnet", "squeezenet"])
def test_gluon_s_models_have_their_own_parameters(gluon: Exported, name: str) -> None:
    assert parameters(gluon.network(name)) == gluon.counts[name]


def test_torchvision_s_alexnet_is_ours(torchvision: Exported) -> None:
    """But for the names of its layers."""
    ours, theirs = build("alexnet_owt:classes=10"), torchvision.network("alexnet")
    assert [layer.kind for layer in theirs.layers] == [layer.kind for layer in ours.layers]
    assert list(theirs.shapes.values()) == list(ours.shapes.values())
    assert list(theirs.parameter_shapes.values()) == list(ours.parameter_shapes.values())


def test_mxnet_computes_torchvision_s_squeezenet(verifier: Verifier, torchvision: Exported) -> None:
    verify(verifier, torchvision.network("squeezenet1_1"), "mxnet")


def test_pytorch_computes_gluon_s_resnet(verifier: Verifier, gluon: Exported) -> None:
    verify(verifier, gluon.network("resnet"), "pytorch")


@pytest.mark.parametrize("framework", ["numpy", "pytorch", "mxnet"])
def test_a_prototxt_passes_parity(verifier: Verifier, tmp_path: Path, framework: str) -> None:
    path = tmp_path / "mine.prototxt"
    path.write_text(PROTOTXT)
    verify(verifier, build(str(path)), framework)


def verify(verifier: Verifier, network: Network, framework: str) -> None:
    mode = {"numpy": "plain", "pytorch": "eager", "mxnet": "symbol"}[framework]
    found = verifier.verify(cell(framework, mode, network), environment_of(framework))
    assert found.passed, found.reason
