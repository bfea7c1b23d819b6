"""Networks from files: netdyno's own (``.json``), Caffe's (``.prototxt``) and ONNX (``.onnx``)."""

from __future__ import annotations

import json
import re
from pathlib import Path

from netdyno.errors import NetdynoError
from netdyno.networks.document import network_from_json
from netdyno.networks.graph import Shape
from netdyno.networks.importers.assembly import Imported, printable

__all__ = ["Imported", "check_name", "read"]

NAME = re.compile(r"[\w.+-]+")


def read(path: Path, *, name: str | None = None, input_shape: Shape | None = None) -> Imported:
    """The network in a file, whose ending says in which format it is.

    Args:
        name: of the network; by default the one in a JSON file, else the file's own.
        input_shape: ``(channels, height, width)`` in place of what a prototxt or ONNX file says.

    Raises:
        NetdynoError: the file cannot be read, or holds what is not supported; with file and place.
    """
    if name is not None:
        check_name(name)
    try:
        return _read(path, name, input_shape)
    except NetdynoError as error:
        raise NetdynoError(printable(str(error))) from None


def _read(path: Path, name: str | None, input_shape: Shape | None) -> Imported:
    ending = path.suffix.lower()
    data = _content(path)
    stem = re.sub(r"[^\w.+-]+", "_", path.stem)
    if ending == ".json":
        if input_shape:
            raise NetdynoError(f"{path}: a neutral network has its input size: change it there")
        return _read_json(path, data, name, stem)
    if ending == ".onnx":
        from netdyno.networks.importers.onnx import read_onnx

        return read_onnx(path, data, name or stem, input_shape)
    if ending == ".prototxt":
        from netdyno.networks.importers.prototxt import read_prototxt

        return read_prototxt(path, _text(path, data), name or stem, input_shape)
    raise NetdynoError(f"{path}: a network comes from a .prototxt, .onnx or .json file")


def check_name(name: str) -> None:
    """Raises NetdynoError where ``name`` cannot stand in tables, keys and file names."""
    if not NAME.fullmatch(name):
        raise NetdynoError(f"'{name}' cannot name a network: use letters, digits and _ . + - only")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise NetdynoError(f"there is no file '{path}'") from None
    except OSError as error:
        raise NetdynoError(f"cannot read {path}: {error.strerror}") from None


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NetdynoError(f"{path} is not a text file in UTF-8") from None


def _read_json(path: Path, data: bytes, name: str | None, stem: str) -> Imported:
    try:
        document = json.loads(_text(path, data))
    except RecursionError:
        raise NetdynoError(f"{path} is not valid JSON: too deep") from None
    except ValueError as error:
        raise NetdynoError(f"{path} is not valid JSON: {error}") from None
    try:
        if isinstance(document, dict):
            document["name"] = name or document.get("name", stem)
        network = network_from_json(document)
        check_name(network.name)
        return Imported(network)
    except NetdynoError as error:
        raise NetdynoError(f"{path}: {error}") from None
