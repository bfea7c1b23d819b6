"""One node of an ONNX graph: its attributes, and the window and padding that they describe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netdyno.errors import NetdynoError
from netdyno.networks.graph import Pair, Shape
from netdyno.networks.importers.assembly import shape_text
from netdyno.networks.importers.onnx_values import Padding

__all__ = ["Node", "padding_of", "window_of"]


@dataclass(frozen=True)
class Node:
    """One node; ``attributes`` are numbers, texts, lists of them, or ONNX's own tensors."""

    index: int
    name: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    @classmethod
    def read(cls, index: int, proto: Any) -> Node:
        from onnx.helper import get_attribute_value

        domain = proto.domain if proto.domain not in ("", "ai.onnx") else ""
        return cls(
            index,
            proto.name.strip("/") or next(filter(None, proto.output), ""),
            f"{domain}.{proto.op_type}" if domain else proto.op_type,
            tuple(proto.input),
            tuple(proto.output),
            {
                attribute.name: _plain(get_attribute_value(attribute))
                for attribute in proto.attribute
            },
        )

    @property
    def title(self) -> str:
        return f"node {self.index} ({self.type} '{self.name}')"

    def has(self, index: int) -> bool:
        """Whether there is an input of this index: one that is left out is empty."""
        return len(self.inputs) > index and bool(self.inputs[index])

    def only(self, *known: str) -> None:
        for name in self.attributes:
            if name not in known:
                raise NetdynoError(f"attribute {name} is not supported")

    def must(self, **values: Any) -> None:
        """Attributes that are supported with one value only."""
        for name, value in values.items():
            found = self.attributes.get(name, value)
            if found != value:
                raise NetdynoError(f"{name} {found} is not supported")

    def number(self, name: str, default: float) -> float:
        """ONNX holds single precision: 1e-05 comes as 9.99999974e-06."""
        return float(f"{self.attributes.get(name, default):.7g}")


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def window_of(node: Node, weight: Pair | None) -> tuple[Pair, Pair]:
    """Kernel and stride."""
    kernel = tuple(node.attributes.get("kernel_shape", weight or ()))
    stride = tuple(node.attributes.get("strides", (1, 1)))
    dilations = tuple(node.attributes.get("dilations", (1, 1)))
    if len(kernel) != 2 or len(stride) != 2:
        raise NetdynoError("only windows of height and width are supported")
    if weight and kernel != weight:
        raise NetdynoError(f"kernel_shape {kernel}, but its weights are {shape_text(weight)}")
    if any(step != 1 for step in dilations):
        raise NetdynoError(f"dilations {dilations} are not supported")
    return (kernel[0], kernel[1]), (stride[0], stride[1])


def padding_of(node: Node, shape: Shape, kernel: Pair, stride: Pair) -> Padding:
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto == "VALID":
        return Padding()
    if auto == "NOTSET":
        top, left, bottom, right = node.attributes.get("pads", (0, 0, 0, 0))
        return Padding("", top, left, bottom, right)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise NetdynoError(f"auto_pad {auto} is not supported")
    sides = []
    for size, window, step in zip(shape[1:], kernel, stride, strict=True):
        total = max((math.ceil(size / step) - 1) * step + window - size, 0)
        less, more = total // 2, total - total // 2
        sides.append((less, more) if auto == "SAME_UPPER" else (more, less))
    (top, bottom), (left, right) = sides
    return Padding("", top, left, bottom, right)
