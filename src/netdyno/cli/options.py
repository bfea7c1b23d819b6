"""Option types that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import click

from netdyno.errors import NetdynoError
from netdyno.plan.request import duration, share

__all__ = [
    "Bytes",
    "Duration",
    "ImageShape",
    "Integers",
    "Names",
    "Share",
    "device_option",
    "frameworks_option",
    "jobs_option",
    "layout_option",
    "matrix_options",
    "modes_option",
    "networks_option",
    "phase_option",
    "precision_option",
    "python_option",
    "strict_option",
    "wait_option",
]


# What a decorator of click's takes and gives.
Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]


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


class Share(click.ParamType[float]):
    """``2%`` or ``0.02``, as 0.02."""

    name = "PERCENT"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, float):
            return value
        try:
            return share(value)
        except NetdynoError as error:
            self.fail(str(error), param, ctx)


class Bytes(click.ParamType[int]):
    """``8GB``, ``500MB``, ``7.5GiB``, in bytes."""

    name = "SIZE"
    units: ClassVar = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?) ?([MG]i?B)", value.strip(), re.ASCII)
        size = int(float(found.group(1)) * self.units[found.group(2)]) if found else 0
        if not size:
            self.fail(f"'{value}' is no size of memory: write 8GB, 500MB or 7.5GiB", param, ctx)
        return size


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


def frameworks_option(default: str = "mxnet, tensorflow, pytorch, jax") -> Option:
    return click.option("--frameworks", type=Names(), help=f"Default: {default}.")


def networks_option(default: str = "alexnet_owt, googlenet") -> Option:
    return click.option(
        "--networks",
        type=Names(),
        help=f"Names or files: see `netdyno networks`. Default: {default}.",
    )


# What several commands take, spelt and explained once.
modes_option = click.option(
    "--modes",
    type=Names(),
    help="Default: the first mode of each; 'all' for all; with run, 'best' for the fastest.",
)
device_option = click.option("--device", type=Names(), help="cpu or cuda:N. Default: cpu.")
precision_option = click.option(
    "--precision", type=Names(), help="fp32, tf32, bf16, fp16, fp64. Default: fp32."
)
layout_option = click.option(
    "--layout", type=Names(), help="nchw or nhwc. Default: the framework's own."
)


threads_option = click.option(
    "--threads", type=Integers(), help="On CPU. Default: all usable cores."
)
host_allocator_option = click.option(
    "--host-allocator",
    type=Names(),
    help="system: the C library as it is; retain: freed memory stays. Default: system.",
)
autotune_option = click.option(
    "--autotune",
    type=Names(),
    help="on or off: may a framework try convolution algorithms on a GPU? Default: on.",
)
phase_option = click.option(
    "--phase",
    type=click.Choice(["forward_backward", "forward", "train_step"]),
    default="forward_backward",
    show_default=True,
    help="Which of the timed regions.",
)
strict_option = click.option(
    "--strict",
    is_flag=True,
    help="Rank only what is like for like; exit code 1 if some is not.",
)
python_option = click.option(
    "--python", multiple=True, metavar="FRAMEWORK=PATH", help="Use this interpreter."
)
wait_option = click.option(
    "--wait/--no-wait",
    default=True,
    help="What to do while another run measures on this machine. Default: wait for its end.",
)


jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Cells at once in what is not timed. Default: 1 on a processor, up to 8 on a GPU.",
)


def matrix_options(
    frameworks: Option, networks: Option, batch_size: int
) -> Callable[[Command], Command]:
    """All axes of the matrix; ``batch_size`` is the default that is told."""
    batch_size_option = click.option(
        "--batch-size", type=Integers(), help=f"Images in a batch. Default: {batch_size}."
    )
    options = (
        frameworks,
        modes_option,
        networks,
        batch_size_option,
        device_option,
        threads_option,
        precision_option,
        layout_option,
        host_allocator_option,
        autotune_option,
    )

    def add(command: Command) -> Command:
        for option in reversed(options):  # decorators are listed from the last
            command = option(command)
        return command

    return add
