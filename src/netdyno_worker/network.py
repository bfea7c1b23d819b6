"""The neutral network as the worker sees it: plain attributes, shapes already resolved."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

INPUT = "images"


class Layer:
    """One layer of a job file. ``layer.kernel``, ``layer.stride`` … are what graph.py defines.

    Attributes:
        kind: ``"Conv"``, ``"Pool"``, …
        inputs: names of the layers it reads, or ``images``.
        output_shape: for one image, channels first.
        parameters: shape by short name, ``{"weight": …, "bias": …}``.
    """

    kind: str
    name: str
    inputs: Tuple[str, ...]
    output_shape: Tuple[int, ...]
    parameters: Dict[str, Tuple[int, ...]]

    def __init__(self, data: Dict[str, Any]) -> None:
        for key, value in data.items():
            setattr(self, key, tuple(value) if isinstance(value, list) else value)
        self.parameters = {short: tuple(shape) for short, shape in data["parameters"].items()}

    def __getattr__(self, name: str) -> Any:  # only for type checkers: what a kind defines
        raise AttributeError("{} layer has no '{}'".format(self.__dict__.get("kind"), name))


class Network:
    def __init__(self, data: Dict[str, Any]) -> None:
        self.name: str = data["name"]
        self.hash: str = data["hash"]
        self.options: Dict[str, Any] = data["options"]
        self.source: str = data["source"]
        self.input_shape: Tuple[int, ...] = tuple(data["input_shape"])
        self.classes: int = data["classes"]
        self.output: str = data["output"]
        self.layers: List[Layer] = [Layer(layer) for layer in data["layers"]]

    def shape(self, name: str) -> Tuple[int, ...]:
        """Output shape of a layer, or of ``images``, for one image."""
        if name == INPUT:
            return self.input_shape
        return next(layer.output_shape for layer in self.layers if layer.name == name)

    def parameter_shapes(self) -> Dict[str, Tuple[int, ...]]:
        """``{"conv1.weight": (64, 3, 11, 11), …}`` in layer order."""
        return {
            layer.name + "." + short: shape
            for layer in self.layers
            for short, shape in layer.parameters.items()
        }

    def batch_norms(self) -> List[Layer]:
        """The layers that keep running statistics."""
        return [layer for layer in self.layers if layer.kind == "BatchNorm"]

    def readers(self) -> Dict[str, int]:
        """How many layers read each layer."""
        counts: Dict[str, int] = {}
        for layer in self.layers:
            for name in layer.inputs:
                counts[name] = counts.get(name, 0) + 1
        return counts
