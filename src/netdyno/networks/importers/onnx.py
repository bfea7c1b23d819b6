"""Reads ONNX files (``.onnx``) that hold a plain convnet.

The operators and their defaults are documented at https://onnx.ai/onnx/operators/. The file's
weights are not used, but their shapes are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from netdyno.errors import NetdynoError
from netdyno.networks.graph import Shape
from netdyno.networks.importers.assembly import SIZE_HELP, Assembly, Imported
from netdyno.networks.importers.onnx_node import Node
from netdyno.networks.importers.onnx_nodes import Translator

__all__ = ["read_onnx"]


def read_onnx(path: Path, data: bytes, name: str, input_shape: Shape | None) -> Imported:
    """The network that ``data``, the content of ``path``, defines.

    Args:
        input_shape: ``(channels, height, width)``, in place of what the file says.

    Raises:
        NetdynoError: with file and node, and what is wrong or not supported there; also where
            the package ``onnx`` is missing.
    """
    try:
        return _read(path, _parsed(data), name, input_shape)
    except NetdynoError as error:
        raise NetdynoError(f"{path}: {error}") from None
    except (AttributeError, TypeError, ValueError) as error:
        # Names that are no UTF-8 come as bytes: a damaged file can hold them anywhere.
        raise NetdynoError(f"{path}: is damaged: {error}") from error


def _parsed(data: bytes) -> Any:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise NetdynoError(
            "reading ONNX needs the package onnx: pip install 'netdyno[onnx]'"
        ) from None
    try:
        # Weights in files beside it are never read: only their shapes matter.
        model = onnx.load_model_from_string(data)
    except DecodeError:
        raise NetdynoError("is not an ONNX file, or is cut off") from None
    if not model.graph.node:
        raise NetdynoError("has no node: is it an ONNX file?")
    return model


def _read(path: Path, model: Any, name: str, input_shape: Shape | None) -> Imported:
    graph = model.graph
    value, written = _image_input(graph)
    assembly = Assembly(value, input_shape or _input_shape(value, written))
    weights = {tensor.name: tensor for tensor in graph.initializer}
    translator = Translator(assembly, weights, graph.node, written[0] if written else None)
    for index, proto in enumerate(graph.node):
        node = Node.read(index, proto)
        try:
            translator.translate(node)
        except NetdynoError as error:
            raise NetdynoError(f"{node.title}: {error}") from None
    try:
        assembly.end([assembly.logits(output.name) for output in graph.output])
    except NetdynoError as error:
        raise NetdynoError(f"the graph {error}") from None
    assembly.note("the weights in the file are not used: netdyno draws its own from a seed")
    return assembly.network(name, f"imported from {path.name} (ONNX)")


def _image_input(graph: Any) -> tuple[str, list[int | None]]:
    """Name and dimensions of the input that is no weight; None for a dimension without a value."""
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs) or "none"
        raise NetdynoError(f"needs one input, the images, but has {len(inputs)}: {names}")
    dimensions = inputs[0].type.tensor_type.shape.dim
    sizes = [
        d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else None for d in dimensions
    ]
    return inputs[0].name, sizes


def _input_shape(value: str, sizes: list[int | None]) -> Shape:
    if len(sizes) != 4:
        raise NetdynoError(
            f"input '{value}' has {len(sizes)} dimensions; images have 4: N, C, H, W"
        )
    channels, height, width = sizes[1:]
    if channels is None or height is None or width is None:
        raise NetdynoError(f"the size of input '{value}' is not in the file: {SIZE_HELP}")
    return channels, height, width
