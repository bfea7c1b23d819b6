"""A chain of convolutions whose internal memory can be counted by hand."""

from __future__ import annotations

from netdyno.networks import Network
from netdyno.networks.builder import Builder

FLOAT_BYTES = 4
CHANNELS, SIZE, CONVOLUTIONS = 32, 64, 3


def chain() -> Network:
    """Three convolutions, each followed by ReLU; all outputs are of one size, the rest is small."""
    net = Builder((CHANNELS, SIZE, SIZE))
    for index in range(CONVOLUTIONS):
        net.conv(f"c{index}", CHANNELS, 3, padding=1)
        net.relu()
    net.pool("p", "average", SIZE, SIZE)
    net.flatten()
    net.dense("d", 10)
    net.loss()
    return net.network("chain", options={}, source="")


def activation_bytes(batch_size: int) -> int:
    """The output of one convolution."""
    return batch_size * CHANNELS * SIZE * SIZE * FLOAT_BYTES
