"""The five single convolutions that convnet-benchmarks times, L1 to L5.

A network needs a loss, so that there is something to differentiate: each filter's map is
averaged and taken as the logit of one class, so ``classes`` is no option here. That head has no
parameters and takes at most 0.14% of the network's forward FLOP (L1; ``netdyno networks conv_l1``
prints it layer by layer).

convnet-benchmarks adds the time of the input gradient to the backward time. Here, as in every
network, the gradient of ``images`` is not computed: forward times can be compared with the
published ones, backward times cannot.
"""

from __future__ import annotations

from netdyno.networks.builder import Builder
from netdyno.networks.options import Size
from netdyno.networks.zoo import network

__all__ = ["conv_l1", "conv_l2", "conv_l3", "conv_l4", "conv_l5"]

SOURCE = "soumith/convnet-benchmarks, layer-wise benchmarks"


@network("conv_l1", source=f"{SOURCE}, L1")
def conv_l1(*, size: Size = 128) -> Builder:
    """96 filters of 11x11 on 3 channels."""
    return _layer(3, size, 96, 11)


@network("conv_l2", source=f"{SOURCE}, L2")
def conv_l2(*, size: Size = 64) -> Builder:
    """128 filters of 9x9 on 64 channels."""
    return _layer(64, size, 128, 9)


@network("conv_l3", source=f"{SOURCE}, L3")
def conv_l3(*, size: Size = 32) -> Builder:
    """128 filters of 9x9 on 128 channels."""
    return _layer(128, size, 128, 9)


@network("conv_l4", source=f"{SOURCE}, L4")
def conv_l4(*, size: Size = 16) -> Builder:
    """128 filters of 7x7 on 128 channels."""
    return _layer(128, size, 128, 7)


@network("conv_l5", source=f"{SOURCE}, L5")
def conv_l5(*, size: Size = 13) -> Builder:
    """384 filters of 3x3 on 384 channels."""
    return _layer(384, size, 384, 3)


def _layer(channels: int, size: int, filters: int, kernel: int) -> Builder:
    net = Builder((channels, size, size))
    net.conv("conv", filters, kernel)
    net.global_average_pool("pool")
    net.flatten()
    net.loss()
    return net
