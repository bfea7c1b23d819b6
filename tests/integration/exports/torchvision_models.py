"""Exports torchvision's models to ONNX: run in PyTorch's environment, with torchvision beside it.

Writes ``NAME.onnx`` into the folder that is named, and prints each model's own parameter count.
"""

from __future__ import annotations

import json
import sys
import types
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
# torchvision's compiled operators (boxes, not classifiers) may be of another build than this
# PyTorch; this module of it insists on them.
sys.modules["torchvision._meta_registrations"] = types.ModuleType("not needed")

import torch  # noqa: E402
import torchvision  # noqa: E402

# In training mode batch norms stay what they are; else they are folded into convolutions.
MODELS = {
    "alexnet": (224, "EVAL", {}),
    "googlenet": (64, "TRAINING", {"aux_logits": False, "init_weights": False}),
    "resnet18": (32, "TRAINING", {}),
    "squeezenet1_1": (48, "EVAL", {}),
}

counts = {}
for name, (size, mode, options) in MODELS.items():
    model = torchvision.models.get_model(name, weights=None, num_classes=10, **options)
    torch.onnx.export(
        model.train(mode == "TRAINING"),
        (torch.zeros(2, 3, size, size),),
        str(Path(sys.argv[1]) / f"{name}.onnx"),
        dynamo=False,
        training=getattr(torch.onnx.TrainingMode, mode),
    )
    counts[name] = sum(parameter.numel() for parameter in model.parameters())
print(json.dumps(counts))
