"""A network that is quick to compute and has every kind of layer but dropout."""

from __future__ import annotations

from netdyno.networks import Network
from netdyno.networks.builder import Builder

__all__ = ["small_network"]


def small_network(
    *,
    lrn: bool = True,
    batch_norm: bool = True,
    alpha: float = 5e-4,
    k: float = 2.0,
    ceil_mode: bool = True,
) -> Network:
    """Ragged edges, ceil pooling, groups, padding, branches, a second loss.

    LRN's constants are AlexNet's unless others are given.
    """
    net = Builder((3, 33, 31))
    net.conv("c1", 16, 5, stride=2, padding=2)
    net.relu()
    if lrn:
        net.lrn("norm", k=k, alpha=alpha)
    pooled = net.pool("p1", "max", 3, 2, ceil_mode=ceil_mode)
    net.conv("a", 8, 1)
    left = net.relu()
    net.conv("b/1", 12, 3, padding=1, groups=4, bias=False, reads=pooled)
    if batch_norm:
        net.batch_norm()
    middle = net.relu()
    net.pool("b/pool", "average", 3, 1, padding=1, reads=pooled)
    right = net.conv("b/2", 12, 1)
    net.add_together("sum", [middle, right])
    total = net.relu()
    net.concat("all", [left, total])
    net.pool("p2", "average", 3, 2)
    net.flatten()
    net.dense("d1", 32)
    hidden = net.relu()
    net.dense("d2", 10)
    net.loss("side", weight=0.3)
    net.last = hidden
    net.dense("d3", 10)
    net.loss()
    return net.network("small", options={}, source="")
