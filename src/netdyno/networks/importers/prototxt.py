"""Reads Caffe's network definitions (``.prototxt``), of 2014 and later.

A file may hold the layers of training and of testing: what training has is taken. Caffe's layers
and their defaults are documented at https://caffe.berkeleyvision.org/tutorial/layers.html and in
its caffe.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from netdyno.errors import NetdynoError
from netdyno.networks.graph import Shape
from netdyno.networks.importers.assembly import SIZE_HELP, Assembly, Imported
from netdyno.networks.importers.caffe_data import DATA_TYPES, data_shape
from netdyno.networks.importers.caffe_layers import CAFFE_TYPES, CaffeLayer, Translator
from netdyno.networks.importers.text_format import LineError, Message, parse

__all__ = ["read_prototxt"]

NET_FIELDS = {
    "name",
    "input",
    "input_dim",
    "input_shape",
    "force_backward",
    "debug_info",
    "state",
    "layer",
    "layers",
}


def read_prototxt(path: Path, text: str, name: str, input_shape: Shape | None) -> Imported:
    """The network that ``text``, the content of ``path``, defines.

    Args:
        input_shape: ``(channels, height, width)``, in place of what the file says.

    Raises:
        NetdynoError: with file and line, and what is wrong or not supported there.
    """
    try:
        return _read(path, parse(text), name, input_shape)
    except LineError as error:
        raise NetdynoError(f"{path}:{error.line}: {error}") from None
    except NetdynoError as error:
        raise NetdynoError(f"{path}: {error}") from None


def _read(path: Path, net: Message, name: str, input_shape: Shape | None) -> Imported:
    for field in net.fields:
        if field not in NET_FIELDS:
            raise LineError(
                net.line_of(field), f"unknown field '{field}': is this a network, or a solver?"
            )
    layers = [layer for layer in _layers(net) if _is_trained(layer.message)]
    if not layers:
        raise NetdynoError("no layer in it: a network has blocks layer { … } or layers { … }")
    sources = _sources(net, layers)
    image_value, found = sources.images, input_shape or sources.shape
    if found is None:
        raise LineError(
            sources.line, f"the size of '{image_value}' is not in the file: {SIZE_HELP}"
        )
    if min(found) < 1:
        raise LineError(sources.line, f"'{image_value}' has a size of {found}: {SIZE_HELP}")
    assembly = Assembly(image_value, found)
    for value in sources.others:
        assembly.define_other(value, "no image but what comes with it, such as labels")
    translator = Translator(assembly)
    for layer in layers:
        if layer.type not in DATA_TYPES:
            _translate(translator, layer)
    translator.finish()
    return assembly.network(name, f"imported from {path.name} (Caffe)")


def _translate(translator: Translator, layer: CaffeLayer) -> None:
    try:
        translator.translate(layer)
    except LineError as error:
        raise LineError(error.line, f"{layer.title}: {error}") from None
    except NetdynoError as error:
        raise LineError(layer.message.line, f"{layer.title}: {error}") from None


def _layers(net: Message) -> Iterator[CaffeLayer]:
    """Of either generation, in the order of the file."""
    if "layer" in net and "layers" in net:
        raise LineError(net.line_of("layers"), "layer { … } and layers { … } in one file")
    for message in [*net.messages("layer"), *net.messages("layers")]:
        if "layer" in message:
            raise LineError(
                message.line,
                "this is Caffe's format of 2013; convert it with its upgrade_net_proto_text first",
            )
        if not message.text("type", ""):
            raise LineError(message.line, "this layer has no type")
        written = message.text("type", "")
        tops, bottoms = message.texts("top"), message.texts("bottom")
        called = message.text("name", "") or (tops or [written])[0]
        kind = CAFFE_TYPES.get(written, written)
        yield CaffeLayer(called, kind, tuple(bottoms), tuple(tops), message)


def _is_trained(layer: Message) -> bool:
    """Whether the layer is there in phase TRAIN, at level 0 and in no stage."""
    includes, excludes = layer.messages("include"), layer.messages("exclude")
    if includes:
        return any(map(_is_met, includes))
    return not any(map(_is_met, excludes))


def _is_met(rule: Message) -> bool:
    return (
        rule.text("phase", "TRAIN") in ("TRAIN", "0")
        and rule.integer("min_level", 0) <= 0
        and rule.integer("max_level", 0) >= 0
        and "stage" not in rule
    )


@dataclass(frozen=True)
class _Sources:
    """Where images come from, and what else comes from outside; ``shape`` may be unknown."""

    images: str
    shape: Shape | None
    others: tuple[str, ...]
    line: int


def _sources(net: Message, layers: list[CaffeLayer]) -> _Sources:
    found = list(_input_fields(net))
    for layer in layers:
        if layer.type in DATA_TYPES:
            if not layer.tops:
                raise LineError(layer.message.line, f"{layer.title}: has no top")
            top, *others = layer.tops
            found.append(
                _Sources(top, data_shape(layer.message), tuple(others), layer.message.line)
            )
    if not found:
        raise NetdynoError(
            'nothing to read images from: add input: "data" and input_shape { dim: 1 dim: 3 … }'
        )
    images = next((source for source in found if source.shape is not None), found[0])
    rest = [source for source in found if source is not images]
    others = [name for source in rest for name in (source.images, *source.others)]
    return _Sources(images.images, images.shape, (*images.others, *others), images.line)


def _input_fields(net: Message) -> Iterator[_Sources]:
    """``input: "data"`` with four ``input_dim`` or an ``input_shape`` each."""
    names = net.scalars("input")
    shapes = [tuple(message.integers("dim")) for message in net.messages("input_shape")]
    dims = net.integers("input_dim")
    shapes += [tuple(dims[start : start + 4]) for start in range(0, len(dims), 4)]
    if len(shapes) > len(names):
        raise LineError(net.line, f"{len(names)} input names for {len(shapes)} shapes")
    for index, scalar in enumerate(names):
        shape = shapes[index] if index < len(shapes) else ()
        # Labels have fewer dimensions, or four with 1x1 maps of one channel.
        image = shape[1:] if len(shape) == 4 and shape[1:] != (1, 1, 1) else None
        yield _Sources(scalar.text, image, (), scalar.line)
