import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import netdyno

model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(8, 10),
)
images = torch.randn(72, 3, 16, 16)
labels = torch.randint(10, (72,))
loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)

result = netdyno.evaluate_framework(model, loader, device="cpu", batch_size=32)
print(json.dumps(result))
