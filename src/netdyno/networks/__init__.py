"""Convnets, defined once for every framework.

``build("resnet50:stride_in=1x1:size=192")`` gives a :class:`~netdyno.networks.graph.Network`;
``names()`` and ``entries()`` tell what there is.
"""

from __future__ import annotations

from netdyno.errors import NetdynoError, unknown_name
from netdyno.networks.graph import Network
from netdyno.networks.zoo import Entry, entries

__all__ = ["Entry", "Network", "build", "entries", "names"]


def names() -> list[str]:
    """The names of all networks, in alphabetical order."""
    return list(entries())


def build(spec: str) -> Network:
    """The network that ``NAME`` or ``NAME:option=value:option=value`` describes.

    An option that is on or off takes ``on/off``, ``true/false``, ``yes/no`` or ``1/0``, and its
    bare name means on.

    Raises:
        NetdynoError: no such network or option, or a value that the option does not accept.
        ShapeError: the layers do not fit the input size.
    """
    name, *parts = spec.split(":")
    known = entries()
    if name not in known:
        raise unknown_name("network", name, known)
    written: dict[str, str | None] = {}
    for part in parts:
        option, equals, value = part.partition("=")
        if not option:
            raise NetdynoError(f"network '{spec}': an option has no name; write NAME:option=value")
        if option in written:
            raise NetdynoError(f"network '{spec}': option '{option}' is given twice")
        written[option] = value if equals else None
    return known[name].build(written)
