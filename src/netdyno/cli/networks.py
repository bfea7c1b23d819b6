"""``netdyno networks``: the zoo, the layers and costs of one network, and networks from files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from netdyno import networks
from netdyno.cli.options import ImageShape
from netdyno.cli.terminal import console, print_json, progress_console
from netdyno.errors import NetdynoError
from netdyno.networks.cost import LayerCost, NetworkCost, count
from netdyno.networks.graph import Layer, Network, Shape
from netdyno.networks.importers import Imported, read
from netdyno.networks.options import show_value

__all__ = ["command"]

TOTALS = (
    "parameters",
    "parameter_bytes",
    "forward_flop",
    "backward_flop",
    "activation_elements",
    "activation_bytes",
)


class _WithImport(click.Command):
    """``networks import …`` is a command of its own; any other word names a network."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if args[:1] == ["import"]:
            name = f"{info_name} import"
            return import_command.make_context(name, args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@click.command("networks", cls=_WithImport)
@click.argument("spec", metavar="[NAME[:OPTION=VALUE]... | FILE]", required=False)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="With NAME: FLOP and activations for a batch of N images.  [default: 1]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--prototxt", is_flag=True, help="With NAME: print the network as Caffe reads it.")
def command(spec: str | None, batch_size: int | None, as_json: bool, prototxt: bool) -> None:
    """List the networks, or print the layers and costs of one.

    \b
    netdyno networks
    netdyno networks googlenet:lrn:aux_heads=on
    netdyno networks resnet50:stride_in=1x1:size=192 --batch-size 32
    netdyno networks import --help
    netdyno networks alexnet --prototxt --batch-size 64
    """
    if prototxt and (spec is None or as_json):
        raise click.UsageError("--prototxt needs the NAME of a network, and no --json")
    if spec is None:
        if batch_size is not None:
            raise click.UsageError("--batch-size needs the NAME of a network")
        _show_zoo(as_json)
    elif prototxt:
        from netdyno.networks.prototxt import to_prototxt  # it imports NumPy

        click.echo(to_prototxt(networks.build(spec), batch_size or 1), nl=False)
    else:
        path = networks.file_of(spec)
        imported = read(path) if path else Imported(networks.build(spec))
        _show_network(imported.network, batch_size or 1, as_json)
        _show_notes(imported)


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="What to call it.  [default: the file's name]")
@click.option("--input-size", type=ImageShape(), help="Of one image, in place of the file's.")
@click.option("--out", type=click.Path(path_type=Path), help="Write it as a neutral .json file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def import_command(
    file: Path,
    name: str | None,
    input_size: tuple[int, ...] | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Read a network from FILE and print its layers and costs.

    FILE is Caffe's .prototxt, an ONNX .onnx, or a .json that --out has written. Each can be named
    wherever a network is.

    \b
    netdyno networks import mine.prototxt
    netdyno networks import mine.onnx --input-size 3,224,224 --out mine.json
    netdyno run --networks mine.json
    """
    imported = read(file, name=name, input_shape=input_size)
    if out:
        _write(imported.network, out)
    if as_json:
        cost = count(imported.network)
        print_json({**_network_json(imported.network, cost), "notes": imported.notes})
        return
    _show_network(imported.network, 1, as_json)
    _show_notes(imported)


def _show_notes(imported: Imported) -> None:
    for note in imported.notes:
        progress_console().print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)


def _write(network: Network, path: Path) -> None:
    if path.suffix != ".json":
        raise NetdynoError(f"--out {path}: name a .json file")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(network.to_json(), indent=1, allow_nan=False) + "\n")
    except FileExistsError:
        raise NetdynoError(f"--out {path}: there is such a file; name another") from None
    except OSError as error:
        raise NetdynoError(f"cannot write {path}: {error.strerror}") from None


def _show_zoo(as_json: bool) -> None:
    zoo = networks.entries().values()
    costs = {entry.name: count(networks.build(entry.name)) for entry in zoo}
    if as_json:
        print_json({"networks": [_entry_json(entry, costs[entry.name]) for entry in zoo]})
        return
    table = Table(box=SIMPLE_HEAD)
    table.add_column("network", no_wrap=True)
    for heading in ("parameters", "forward\nGFLOP/image"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("input", no_wrap=True)
    table.add_column("options and source")
    for entry in zoo:
        cost = costs[entry.name]
        options = " ".join(
            f"{option.name}={show_value(option.default)}" for option in entry.options
        )
        table.add_row(
            entry.name,
            f"{cost.parameters:,}",
            f"{cost.forward_flop / 1e9:.3f}",
            _shape(networks.build(entry.name).input_shape),
            f"{options}\n[dim]{escape(entry.source)}[/dim]",
        )
    console().print(table)


def _entry_json(entry: networks.Entry, cost: NetworkCost) -> dict[str, Any]:
    return {
        "name": entry.name,
        "source": entry.source,
        "input_shape": networks.build(entry.name).input_shape,
        "parameters": cost.parameters,
        "forward_flop": cost.forward_flop,
        "backward_flop": cost.backward_flop,
        "options": [
            {"name": option.name, "default": option.default, "accepts": option.accepted}
            for option in entry.options
        ],
    }


def _show_network(network: Network, batch_size: int, as_json: bool) -> None:
    cost = count(network, batch_size=batch_size)
    if as_json:
        print_json(_network_json(network, cost))
        return
    options = " ".join(f"{name}={show_value(value)}" for name, value in network.options.items())
    images = "1 image" if batch_size == 1 else f"{batch_size} images"
    out = console()
    out.print(f"[bold]{network.name}[/bold]  {network.hash}  {options}")
    out.print(escape(network.source))
    # Too narrow a terminal breaks the lines: better than numbers cut off.
    out.print(_layer_table(network, cost), crop=False)
    out.print(f"FLOP and outputs for {images}; {cost.itemsize_bytes} bytes a number.")


def _network_json(network: Network, cost: NetworkCost) -> dict[str, Any]:
    return {
        "name": network.name,
        "hash": network.hash,
        "options": dict(network.options),
        "source": network.source,
        "input_shape": network.input_shape,
        "classes": network.classes,
        "batch_size": cost.batch_size,
        "itemsize_bytes": cost.itemsize_bytes,
        "total": {name: getattr(cost, name) for name in TOTALS},
        "layers": [
            {"inputs": layer.inputs, **dataclasses.asdict(layer_cost)}
            for layer, layer_cost in zip(network.layers, cost.layers, strict=True)
        ],
    }


def _layer_table(network: Network, cost: NetworkCost) -> Table:
    table = Table(box=SIMPLE_HEAD, show_footer=True, collapse_padding=True, pad_edge=False)
    table.add_column("layer", "total", overflow="fold", min_width=8)
    table.add_column("kind and settings", overflow="fold", min_width=8)
    table.add_column("output", no_wrap=True)
    for heading, total in (
        ("parameters", f"{cost.parameters:,}"),
        ("parameter\nMB", _millions(cost.parameter_bytes)),
        ("forward\nMFLOP", _millions(cost.forward_flop)),
        ("backward\nMFLOP", _millions(cost.backward_flop)),
        ("output\nMB", _millions(cost.activation_bytes)),
    ):
        table.add_column(heading, total, justify="right", no_wrap=True)
    table.add_row("images", "", _shape(network.input_shape))
    for layer, layer_cost in zip(network.layers, cost.layers, strict=True):
        table.add_row(*_layer_row(layer, layer_cost))
    return table


def _layer_row(layer: Layer, cost: LayerCost) -> tuple[str, ...]:
    return (
        escape(layer.name),
        f"{layer.kind} {_settings(layer)}",
        _shape(cost.output_shape),
        f"{cost.parameters:,}" if cost.parameters else "",
        _millions(cost.parameter_bytes) if cost.parameters else "",
        _millions(cost.forward_flop),
        _millions(cost.backward_flop),
        _millions(cost.activation_bytes),
    )


def _settings(layer: Layer) -> str:
    """What the layer was given beyond its defaults: ``filters=96 kernel=11x11 stride=4x4``."""
    return " ".join(
        f"{field.name}={_setting(getattr(layer, field.name))}"
        for field in dataclasses.fields(layer)
        if field.name not in ("name", "inputs") and getattr(layer, field.name) != field.default
    )


def _setting(value: Any) -> str:
    return _shape(value) if isinstance(value, tuple) else show_value(value)


def _shape(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "1"


def _millions(value: int) -> str:
    return f"{value / 1e6:,.2f}"
