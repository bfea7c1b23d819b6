"""The networks the way PyTorch's documentation and torchvision write them."""

import contextlib
import time

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch writes it
from torch import nn


class AlexNet(nn.Module):
    """One weird trick."""

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
        self.classifier = classifier(256 * 6 * 6, classes)

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(x, 1)
        return self.classifier(x)


class VGG(nn.Module):
    """Configuration A."""

    def __init__(self, classes=1000):
        super().__init__()
        layers = []
        channels = 3
        for v in [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"]:
            if v == "M":
                layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
            else:
                layers += [nn.Conv2d(channels, v, kernel_size=3, padding=1), nn.ReLU(inplace=True)]
                channels = v
        self.features = nn.Sequential(*layers)
        self.classifier = classifier(512 * 7 * 7, classes)

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(x, 1)
        return self.classifier(x)


def classifier(features, classes):
    return nn.Sequential(
        nn.Linear(features, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, classes),
    )


MODELS = {"alexnet_owt": AlexNet, "vgg_a": VGG}


def make(job, images, labels, parameters):
    """``run(iterations) -> (seconds, loss)``, from NumPy arrays in the neutral layout."""
    device = torch.device(job.device)
    # netdyno's adapter has set the same: these are the process's.
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = job.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = job.precision == "tf32"
    memory_format = torch.channels_last if job.layout == "nhwc" else torch.contiguous_format
    model = MODELS[job.network.name]().train()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), parameters):
            parameter.copy_(torch.from_numpy(value))
    model = model.to(device, memory_format=memory_format)
    graphs = job.mode == "graphs"
    if graphs:
        model = torch.compile(model, mode="reduce-overhead")
    elif job.mode == "compile":
        model = torch.compile(model)
    images = torch.from_numpy(images).to(device, memory_format=memory_format)
    labels = torch.from_numpy(labels).long().to(device)

    def precision():
        if job.precision == "bf16":
            return torch.autocast(device.type, torch.bfloat16)
        return contextlib.nullcontext()

    def run(iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            if graphs:
                # Once somebody in a process marks steps, as netdyno's adapter does, all must.
                torch.compiler.cudagraph_mark_step_begin()
            model.zero_grad(set_to_none=True)
            with precision():
                loss = F.cross_entropy(model(images), labels)
            loss.backward()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start, loss.item()

    return run
