"""Convnets, defined once for every framework.

``build("resnet50:stride_in=1x1:size=192")`` gives a :class:`~netdyno.networks.graph.Network`, and
so does ``build("mine.onnx")``; ``names()`` and ``entries()`` tell what comes with netdyno.
"""

from __future__ import annotations

import re
from pathlib import Path

from netdyno.errors import NetdynoError, unknown_name
from netdyno.networks.graph import Network
from netdyno.networks.zoo import Entry, entries

__all__ = ["Entry", "Network", "build", "entries", "file_of", "names"]

_FILE = re.compile(r"(.+\.(?:json|onnx|prototxt))(:.*)?", re.IGNORECASE | re.DOTALL)


def names() -> list[str]:
    """The names of all networks, in alphabetical order."""
    return list(entries())


def build(spec: str) -> Network:
    """The network that ``NAME``, ``NAME:option=value:option=value`` or a file describes.

    An option that is on or off takes ``on/off``, ``true/false``, ``yes/no`` or ``1/0``, and its
    bare name means on.

    Raises:
        NetdynoError: no such network, file or option, a value that the option does not accept,
            or a file that holds what is not supported.
        ShapeError: the layers do not fit the input size.
    """
    path = file_of(spec)
    if path:
        # Readers of files are imported where there is one.
        from netdyno.networks.importers import read

        return read(path).network
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


def file_of(spec: str) -> Path | None:
    """The file that ``spec`` names; None for a network that comes with netdyno.

    Raises:
        NetdynoError: a file with options.
    """
    match = _FILE.fullmatch(spec)
    if not match:
        return None
    if match.group(2):
        raise NetdynoError(
            f"'{spec}': a file takes no options; `netdyno networks import` has --input-size"
        )
    return Path(match.group(1))
