"""What every importer does: from values with a file's names to layers with unique ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from netdyno.errors import NetdynoError
from netdyno.networks.builder import Builder
from netdyno.networks.graph import (
    INPUT,
    LRN,
    Flatten,
    Layer,
    Network,
    Pool,
    Shape,
    SoftmaxCrossEntropy,
)

__all__ = ["SIZE_HELP", "Assembly", "Imported", "printable", "shape_text"]

# Of what the file does not tell.
SIZE_HELP = "give --input-size C,H,W, as in --input-size 3,224,224"


@dataclass(frozen=True)
class Imported:
    """A network from a file, and what of the file is not as it stood there."""

    network: Network
    notes: tuple[str, ...] = ()


class Assembly:
    """Grows a network while a file is read.

    A *value* is what the file calls an array (Caffe's blob, ONNX's tensor); several values may be
    one layer's output, and one value may be rewritten on the way.
    """

    def __init__(self, image_value: str, input_shape: Shape) -> None:
        self._net = Builder(input_shape)
        self._layer_of = {image_value: INPUT}
        self._logits_of: dict[str, str] = {}
        self._not_images: dict[str, str] = {}
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """For the person: once, however often it is said."""
        if text not in self.notes:
            self.notes.append(text)

    def unique(self, name: str) -> str:
        """``name``, or ``name_2``, ``name_3`` … where layers have it already."""
        name = printable(name)
        taken = {INPUT, *(layer.name for layer in self._net.layers)}
        candidate, count = name, 1
        while candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        return candidate

    def add(self, layer: Layer, *values: str) -> str:
        """Add a layer under a unique name; ``values`` are what the file calls its output."""
        if isinstance(layer, LRN) and layer.size % 2 == 0:
            # Which neighbour an even window leaves out, frameworks do not agree on.
            raise NetdynoError(f"normalizes over {layer.size} channels: must be an odd number")
        if isinstance(layer, Pool):
            layer = _simplest(layer, self.shape(layer.inputs[0]))
        layer = dataclasses.replace(layer, name=self.unique(layer.name))
        self._net.add(layer)
        for value in values:
            self.define(value, layer.name)
        return layer.name

    def define(self, value: str, layer: str) -> None:
        """From here on ``value`` is the output of ``layer``."""
        for known in (self._logits_of, self._not_images):
            known.pop(value, None)
        self._layer_of[value] = layer

    def define_softmax(self, value: str, logits: str) -> None:
        """``value`` are the probabilities of what layer ``logits`` puts out."""
        self._check_logits(logits)
        self.define(value, logits)
        self._logits_of[value] = logits

    def define_other(self, value: str, what: str) -> None:
        """``value`` is there, but no layer may read it: labels, say."""
        self.define(value, "")
        self._not_images[value] = what

    def is_other(self, value: str) -> bool:
        return value in self._not_images

    def layer(self, value: str) -> str:
        """The layer whose output ``value`` is, for another layer to read.

        Raises:
            NetdynoError: there is none.
        """
        if value in self._logits_of:
            raise NetdynoError(
                f"reads '{value}', the output of a softmax: a softmax can only end a network"
            )
        return self.logits(value)

    def logits(self, value: str) -> str:
        """As ``layer``, but of a softmax what it reads."""
        if value in self._not_images:
            raise NetdynoError(f"reads '{value}', which is {self._not_images[value]}")
        if value not in self._layer_of:
            raise NetdynoError(f"reads '{value}', which nothing before it computes")
        return self._layer_of[value]

    def shape(self, layer: str) -> Shape:
        """Of one image of a layer's output."""
        return self._net.shape(layer)

    def flat(self, layer: str) -> str:
        """``layer``, or a Flatten of it where it puts out feature maps."""
        if len(self.shape(layer)) == 1:
            return layer
        for found in self._net.layers:
            if isinstance(found, Flatten) and found.inputs == (layer,):
                return found.name
        return self.add(Flatten(f"{layer}_flat", (layer,)))

    def global_pool(self, layer: str, name: str, reduction: str, *values: str) -> str:
        """One window over everything."""
        shape = self.shape(layer)
        if len(shape) != 3:
            raise NetdynoError(f"pools over height and width, but reads {shape_text(shape)}")
        kernel = (shape[1], shape[2])
        pool = Pool(name, (layer,), reduction, kernel, (1, 1))  # type: ignore[arg-type]
        return self.add(pool, *values)

    def loss(self, logits: str, name: str, weight: float = 1.0) -> None:
        """Softmax cross-entropy on a layer, which puts out a number for each class."""
        self._check_logits(logits)
        self.add(SoftmaxCrossEntropy(name, (self.flat(logits),), weight))

    def _check_logits(self, layer: str) -> None:
        if self._has_maps(layer):
            raise NetdynoError(
                f"a softmax over maps of {shape_text(self.shape(layer))} is not supported: "
                "a network ends in one number for each class"
            )

    def _has_maps(self, layer: str) -> bool:
        """Whether it puts out more than one number for each channel."""
        return len(self.shape(layer)) == 3 and self.shape(layer)[1:] != (1, 1)

    def ends(self) -> list[str]:
        """The layers that no other reads, but for losses."""
        read = {name for layer in self._net.layers for name in layer.inputs}
        return [
            layer.name
            for layer in self._net.layers
            if layer.name not in read and not isinstance(layer, SoftmaxCrossEntropy)
        ]

    def end(self, layers: Sequence[str]) -> None:
        """Put a loss on the one of ``layers`` that a network without one ends in."""
        ends = sorted({layer for layer in layers if layer != INPUT})
        if not ends:
            raise NetdynoError("has no layer that netdyno could train")
        if len(ends) > 1:
            raise NetdynoError(
                f"ends in {', '.join(ends)}: netdyno trains one classifier; keep one of these, "
                "or give each a loss"
            )
        (end,) = ends
        if self._has_maps(end):
            end = self.global_pool(end, "global_pool", "average")
            self.note(
                f"a global average pooling was added: the file ends in the maps of '{ends[0]}'"
            )
        self.loss(end, "loss")
        self.note(f"a softmax cross-entropy on '{end}' was added: the file has no loss")

    def network(self, name: str, source: str) -> Imported:
        """What was read, without the layers that lead to no loss."""
        layers = self._net.layers
        needed = {layer.name for layer in layers if isinstance(layer, SoftmaxCrossEntropy)}
        for layer in reversed(layers):
            if layer.name in needed:
                needed.update(layer.inputs)
        left_out = [layer.name for layer in layers if layer.name not in needed]
        if left_out:
            self.note(f"left out, since they lead to no loss: {', '.join(left_out)}")
        kept = tuple(layer for layer in layers if layer.name in needed)
        network = Network(name, self._net.input_shape, kept, {}, source)
        return Imported(network, tuple(self.notes))


def _simplest(pool: Pool, shape: Shape) -> Pool:
    """The same function without settings that change nothing: equal functions, equal layers."""
    down = dataclasses.replace(pool, ceil_mode=False)
    if down.output_shape([shape]) == pool.output_shape([shape]):
        pool = down
    if pool.padding == (0, 0):
        pool = dataclasses.replace(pool, count_padding=True)
        if pool.kernel == shape[1:]:  # one window over everything
            pool = dataclasses.replace(pool, stride=(1, 1))
    return pool


def printable(text: str) -> str:
    """Without control characters: what others wrote reaches a person's terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def shape_text(shape: Shape) -> str:
    """``3x224x224``."""
    return "x".join(map(str, shape))
