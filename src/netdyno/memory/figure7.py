"""Figure 7 of the MXNet paper: its three networks, and the values that were read off it.

The paper names alexnet, googlenet and vgg. The networks are those of MXNet's own examples of the
time (apache/mxnet at c56a673 of 2015-12-02, ``example/image-classification/symbol_*.py``).
"""

from __future__ import annotations

from netdyno.memory.planner import Strategy
from netdyno.networks import Network, build
from netdyno.networks.builder import Builder

__all__ = ["BATCH_SIZE", "PUBLISHED_GIB", "READING_ERROR_GIB", "networks"]

BATCH_SIZE = 64

READING_ERROR_GIB = 0.002

# Internal memory, outputs excluded, by training or forward alone; read off the vector paths of
# the workshop PDF.
PUBLISHED_GIB: dict[bool, dict[Strategy, dict[str, float]]] = {
    False: {
        "naive": {"alexnet": 0.371, "googlenet": 2.171, "vgg_a": 3.919},
        "inplace": {"alexnet": 0.212, "googlenet": 1.401, "vgg_a": 2.139},
        "coshare": {"alexnet": 0.139, "googlenet": 0.503, "vgg_a": 1.582},
        "both": {"alexnet": 0.114, "googlenet": 0.494, "vgg_a": 0.982},
    },
    True: {
        "naive": {"alexnet": 0.776, "googlenet": 5.268, "vgg_a": 7.873},
        "inplace": {"alexnet": 0.613, "googlenet": 4.275, "vgg_a": 6.085},
        "coshare": {"alexnet": 0.503, "googlenet": 2.504, "vgg_a": 5.444},
        "both": {"alexnet": 0.437, "googlenet": 2.407, "vgg_a": 4.685},
    },
}


def networks() -> dict[str, Network]:
    """The three networks, by the name that the table has for them."""
    return {
        "alexnet": _alexnet(),
        "googlenet": build("googlenet"),
        "vgg_a": build("vgg_a:dropout"),
    }


def _alexnet() -> Network:
    """MXNet's alexnet, not netdyno's: 224x224, no groups, pooling up and before LRN."""
    net = Builder((3, 224, 224))
    net.conv("conv1", 96, 11, stride=4)
    net.relu()
    net.pool("pool1", "max", 3, 2, ceil_mode=True)
    net.lrn("norm1")
    net.conv("conv2", 256, 5, padding=2)
    net.relu()
    net.pool("pool2", "max", 3, 2, ceil_mode=True)
    net.lrn("norm2")
    for name, filters in (("conv3", 384), ("conv4", 384), ("conv5", 256)):
        net.conv(name, filters, 3, padding=1)
        net.relu()
    net.pool("pool5", "max", 3, 2, ceil_mode=True)
    net.flatten()
    for name in ("fc6", "fc7"):
        net.dense(name, 4096)
        net.relu()
        net.dropout()
    net.dense("fc8", 1000)
    net.loss()
    return net.network("alexnet", options={}, source="apache/mxnet, symbol_alexnet.py, 2015")
