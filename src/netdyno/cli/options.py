"""Option types that several commands share."""

from __future__ import annotations

import re
from typing import Any

import click

from netdyno.errors import NetdynoError
from netdyno.plan.request import duration

__all__ = [
    "Duration",
    "ImageShape",
    "Integers",
    "Names",
    "device_option",
    "frameworks_option",
    "layout_option",
    "modes_option",
    "networks_option",
    "precision_option",
    "python_option",
]


class Names(click.ParamType[tuple[str, ...]]):
    """Comma-separated names: ``mxnet,jax``."""

    name = "NAME,…"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(part.strip() for part in value.split(","))
        if not all(names):
            self.fail(f"'{value}' has an empty name in it", param, ctx)
        return names


class Integers(click.ParamType[tuple[int, ...]]):
    """Comma-separated whole numbers: ``8,32``."""

    name = "N,…"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"'{value}' is no whole number, nor a list of them", param, ctx)


class Duration(click.ParamType[float]):
    """``90s``, ``10m``, ``1.5h``, in seconds."""

    name = "TIME"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, float):
            return value
        try:
            return duration(value)
        except NetdynoError as error:
            self.fail(str(error), param, ctx)


class ImageShape(click.ParamType[tuple[int, ...]]):
    """Channels, height and width: ``3,224,224``."""

    name = "C,H,W"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        sizes = re.fullmatch(r"([1-9]\d{0,5}),([1-9]\d{0,5}),([1-9]\d{0,5})", value, re.ASCII)
        if not sizes:
            self.fail(f"'{value}' is not like 3,224,224: channels, height, width", param, ctx)
        return tuple(int(size) for size in sizes.groups())


# What several commands take, spelt and explained once.
frameworks_option = click.option(
    "--frameworks", type=Names(), help="Default: mxnet, tensorflow, pytorch, jax."
)
modes_option = click.option(
    "--modes", type=Names(), help="Default: the first mode of each; 'all' for all."
)
networks_option = click.option(
    "--networks",
    type=Names(),
    help="Names or files: see `netdyno networks`. Default: alexnet_owt,googlenet.",
)
device_option = click.option("--device", type=Names(), help="cpu or cuda:N. Default: cpu.")
precision_option = click.option("--precision", type=Names(), help="fp32 or fp64. Default: fp32.")
layout_option = click.option(
    "--layout", type=Names(), help="nchw or nhwc. Default: the framework's own."
)
python_option = click.option(
    "--python", multiple=True, metavar="FRAMEWORK=PATH", help="Use this interpreter."
)
