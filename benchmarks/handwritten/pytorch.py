"""AlexNet (one weird trick) the way PyTorch's documentation and torchvision write it."""

import time

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch writes it
from torch import nn


class AlexNet(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.classifier = nn.Sequential(
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, classes),
        )

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(x, 1)
        return self.classifier(x)


def make(mode, images, labels, parameters):
    """``run(iterations) -> (seconds, loss)``, from NumPy arrays in the neutral layout."""
    model = AlexNet().train()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), parameters):
            parameter.copy_(torch.from_numpy(value))
    if mode == "compile":
        model = torch.compile(model)
    images, labels = torch.from_numpy(images), torch.from_numpy(labels).long()

    def run(iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            model.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
        return time.perf_counter() - start, loss.item()

    return run
