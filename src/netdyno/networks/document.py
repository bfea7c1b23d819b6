"""Reads what ``Network.to_json`` writes: a network as plain data, from this program or a person's.

What is derived (``hash``, ``output``, ``classes`` and the layers' ``output_shape`` and
``parameters``) may be left out; a ``hash`` that is there must be the one of the layers.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args, get_origin, get_type_hints

from netdyno.errors import NetdynoError, unknown_name
from netdyno.networks.graph import KINDS, Add, Concat, Layer, Network, Pair, Shape

__all__ = ["network_from_json"]

DERIVED = {"output", "classes"}
DERIVED_OF_LAYER = {"output_shape", "parameters"}
KEYS = {"schema", "name", "hash", "options", "source", "input_shape", "layers", *DERIVED}


def network_from_json(data: Any) -> Network:
    """The network that ``data`` describes.

    Raises:
        NetdynoError: a key is missing, unknown or of the wrong type, the schema is not known yet,
            the layers do not fit, or they are not those of the hash.
    """
    if not isinstance(data, dict) or not {"schema", "input_shape", "layers"} <= data.keys():
        raise NetdynoError("is no neutral network: it needs schema, name, input_shape and layers")
    schema = data["schema"]
    if type(schema) is not int or schema < 1:
        raise NetdynoError(f"schema must be a whole number, not {schema!r}")
    if schema > Network.SCHEMA:
        raise NetdynoError(
            f"has schema {schema}, this netdyno reads up to {Network.SCHEMA}: update netdyno"
        )
    for key in data:
        if key not in KEYS:
            raise unknown_name("key", key, KEYS)
    network = Network(
        _typed("name", data.get("name"), str),
        _input_shape(data["input_shape"]),
        tuple(_layer(index, item) for index, item in enumerate(_list("layers", data["layers"]))),
        _options(data.get("options", {})),
        _typed("source", data.get("source", ""), str),
    )
    if data.get("hash", network.hash) != network.hash:
        raise NetdynoError(
            f"says hash {data['hash']!r}, but its layers have {network.hash}: "
            "if they were changed on purpose, remove the hash"
        )
    return network


def _layer(index: int, data: Any) -> Layer:
    where = f"layer {index}"
    if not isinstance(data, dict):
        raise NetdynoError(f"{where} must be an object, not {data!r}")
    if isinstance(data.get("name"), str):
        where += f" ('{data['name']}')"
    if not isinstance(data.get("kind"), str):
        raise NetdynoError(f"{where} has no kind; known: {', '.join(sorted(KINDS))}")
    try:
        return _settings(data)
    except NetdynoError as error:
        raise NetdynoError(f"{where}: {error}") from None


def _settings(data: dict[str, Any]) -> Layer:
    if data["kind"] not in KINDS:
        raise unknown_name("kind of layer", data["kind"], KINDS)
    cls = KINDS[data["kind"]]
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in data:
        if key not in fields.keys() | DERIVED_OF_LAYER | {"kind"}:
            raise unknown_name(f"setting of {cls.__name__}", key, fields)
    hints = get_type_hints(cls)
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _typed(name, data[name], hints[name])
        elif field.default is dataclasses.MISSING:
            raise NetdynoError(f"{name} is missing")
    layer = cls(**values)
    several = isinstance(layer, Add | Concat)
    if not layer.inputs or (len(layer.inputs) > 1 and not several):
        raise NetdynoError(f"reads {len(layer.inputs)} layers, which {layer.kind} cannot")
    if not layer.name or not layer.name.isprintable():
        raise NetdynoError("its name is empty or has control characters")
    return layer


def _typed(name: str, value: Any, wanted: Any) -> Any:
    """``value`` as the graph has it: lists become tuples, whole numbers floats where need be."""
    if get_origin(wanted) is Literal:
        if value in get_args(wanted):
            return value
        raise NetdynoError(f"{name} must be {' or '.join(get_args(wanted))}, not {value!r}")
    if wanted is float and type(value) is int:
        return float(value)
    if wanted in (str, int, float, bool):
        # bool is an int to Python.
        if type(value) is wanted:
            return value
        raise NetdynoError(f"{name} must be {_WORDS[wanted]}, not {value!r}")
    if wanted == Pair:
        return _whole_numbers(name, value, 2)
    return tuple(_typed(name, item, str) for item in _list(name, value))  # what it reads


_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def _input_shape(value: Any) -> Shape:
    shape = _whole_numbers("input_shape", value, 3)
    if min(shape) < 1:
        raise NetdynoError(f"input_shape must be positive, not {value!r}")
    return shape


def _whole_numbers(name: str, value: Any, count: int) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != count:
        raise NetdynoError(f"{name} must be a list of {count} whole numbers, not {value!r}")
    return tuple(_typed(name, item, int) for item in value)


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise NetdynoError(f"{name} must be a list, not {value!r}")
    return value


def _options(value: Any) -> dict[str, bool | int | str]:
    if not isinstance(value, dict) or not all(type(v) in (bool, int, str) for v in value.values()):
        raise NetdynoError("options must be an object of texts, whole numbers, true and false")
    return value
