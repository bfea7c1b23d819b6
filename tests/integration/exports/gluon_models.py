"""Exports models of Gluon's zoo to ONNX: run in MXNet's environment, with onnx beside it.

Writes ``NAME.onnx`` into the folder that is named, and prints each model's own parameter count.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet.gluon.model_zoo import vision

# The zoo's classes, and a thin one: MXNet takes minutes to export tens of millions of weights.
MODELS = {
    "mobilenet": (32, vision.mobilenet0_25(classes=10)),
    # Maps of 2x2 at the end: over fewer, the statistics of two images are ill-conditioned.
    "resnet": (
        64,
        vision.ResNetV1(vision.BasicBlockV1, [1, 1, 1, 1], [8, 8, 16, 24, 32], classes=10),
    ),
    "squeezenet": (224, vision.squeezenet1_1(classes=10)),
}

counts = {}
folder = Path(sys.argv[1])
for name, (size, net) in MODELS.items():
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.zeros((2, 3, size, size)))
    net.export(str(folder / name))
    mx.onnx.export_model(
        str(folder / f"{name}-symbol.json"),
        str(folder / f"{name}-0000.params"),
        [(2, 3, size, size)],
        np.float32,
        str(folder / f"{name}.onnx"),
    )
    trained = [p for p in net.collect_params().values() if p.grad_req != "null"]
    counts[name] = sum(parameter.data().size for parameter in trained)
print(json.dumps(counts))
