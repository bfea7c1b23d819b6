"""What an ONNX graph computes with besides feature maps: weights, settings, padding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netdyno.errors import NetdynoError
from netdyno.networks.graph import Pair, Shape

__all__ = ["Constants", "Padding"]

# A shape, a list of axes: what is read as numbers is short.
MAX_NUMBERS = 64


class Constants:
    """Stored tensors, by every name they go by. Values are read of short ones only."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self._tensors = dict(tensors)
        self._aliases: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return self.stored(name) in self._tensors

    def stored(self, name: str) -> str:
        """The name under which it was stored first."""
        return self._aliases.get(name, name)

    def alias(self, name: str, of: str) -> None:
        self._aliases[name] = self.stored(of)

    def define(self, name: str, attributes: Mapping[str, Any]) -> None:
        """What a Constant node holds, a tensor or numbers."""
        from onnx import TensorProto
        from onnx.helper import make_tensor

        if "value" in attributes:
            self._tensors[name] = attributes["value"]
            return
        for key, kind in (("value_int", TensorProto.INT64), ("value_float", TensorProto.FLOAT)):
            if key in attributes:
                self._tensors[name] = make_tensor(name, kind, [], [attributes[key]])
                return
            if f"{key}s" in attributes:
                values = attributes[f"{key}s"]
                self._tensors[name] = make_tensor(name, kind, [len(values)], values)
                return
        raise NetdynoError("holds neither a tensor nor numbers: not supported")

    def shape(self, name: str) -> Shape | None:
        """None if it is not stored."""
        tensor = self._tensors.get(self.stored(name))
        return None if tensor is None else tuple(tensor.dims)

    def integers(self, name: str) -> list[int]:
        return [int(value) for value in self._numbers(name)]

    def number(self, name: str) -> float:
        values = self._numbers(name)
        if len(values) != 1:
            raise NetdynoError(f"'{name}' must be a single number")
        return float(f"{values[0]:.7g}")

    def _numbers(self, name: str) -> list[Any]:
        from onnx.numpy_helper import to_array

        tensor = self._tensors.get(self.stored(name))
        if tensor is None:
            raise NetdynoError(f"'{name}' is computed, not stored: not supported")
        if tensor.external_data or sum(tensor.dims) > MAX_NUMBERS:
            raise NetdynoError(f"'{name}' has too many numbers to be a setting")
        return list(to_array(tensor).reshape(-1))


@dataclass(frozen=True)
class Padding:
    """Zeros around the feature maps of ``layer``."""

    layer: str = ""
    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0

    @property
    def any(self) -> bool:
        return bool(self.top or self.left or self.bottom or self.right)

    def plus(self, other: Padding) -> Padding:
        return Padding(
            self.layer,
            self.top + other.top,
            self.left + other.left,
            self.bottom + other.bottom,
            self.right + other.right,
        )

    def symmetric(self) -> Pair:
        """Height's and width's.

        Raises:
            NetdynoError: two opposite sides differ.
        """
        if (self.top, self.left) != (self.bottom, self.right):
            raise NetdynoError(
                f"pads top {self.top}, left {self.left}, bottom {self.bottom}, right {self.right}: "
                "only equal padding on opposite sides is supported"
            )
        return self.top, self.left
