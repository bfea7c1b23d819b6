"""The tables of limits that a person reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from netdyno.device_limits import DeviceLimits, Figure
from netdyno.frameworks import frameworks
from netdyno.networks.roofline import Ceilings, LayerWork, NetworkWork, Work
from netdyno.plan.job import PHASES
from netdyno.report.progress import PHASE_NAMES

__all__ = [
    "NetworkLimit",
    "ceilings_line",
    "disturbed_lines",
    "limits_json",
    "print_limits",
    "title",
]

NAMES = {
    "product": "product of matrices",
    "copy": "copy, read and written",
    "launch": "smallest operation, waited for",
    "launch_back_to_back": "smallest operation, back to back",
}
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


@dataclass(frozen=True)
class NetworkLimit:
    """What a network must do in one iteration, on a device whose ceilings are known."""

    network: str
    batch_size: int
    precision: str
    device: str
    work: NetworkWork
    ceilings: Ceilings


def title(limits: DeviceLimits) -> str:
    """``cpu, 2 threads, with PyTorch 2.13.0``."""
    threads = f", {limits.threads} thread{'s' * (limits.threads != 1)}"
    if not limits.framework:
        return limits.device
    spec = frameworks().get(limits.framework)
    version = limits.versions.get(limits.framework)
    return (
        f"{limits.device}{threads if limits.device == 'cpu' else ''}, with "
        f"{spec.title if spec else limits.framework}{f' {version}' if version else ''}"
    )


def ceilings_line(limits: DeviceLimits, precisions: Sequence[str]) -> str:
    """``cpu, 2 threads, with PyTorch 2.13.0: fp32 131 GFLOP/s, copy 15.1 GB/s``."""
    found = [(p, limits.figure("product", p)) for p in precisions]
    parts = [f"{p} {_value(f)}" for p, f in found if f and f.value]
    copy = limits.figure("copy")
    return f"{title(limits)}: {', '.join([*parts, f'copy {_value(copy)}' if copy else ''])}"


def disturbed_lines(limits: DeviceLimits, precisions: Sequence[str]) -> list[str]:
    """Why the device may do better than was measured."""
    causes = dict.fromkeys(cause for p in precisions for cause in limits.disturbed(p))
    if not causes:
        return []
    return [f"‡ {limits.device} may do more than this, measured while {'; '.join(causes)}."]


def print_limits(
    devices: Sequence[DeviceLimits], networks: Sequence[NetworkLimit], console: Console
) -> None:
    """A table for each device, then one for each network."""
    for limits in devices:
        console.print(_device_table(limits))
        if limits.reason:
            console.print(
                f"{limits.device}: {limits.status.replace('_', ' ')}: {limits.reason}",
                style="red",
                markup=False,
                soft_wrap=True,
            )
        for line in disturbed_lines(limits, [f.precision or "" for f in limits.figures]):
            console.print(line, style="yellow", soft_wrap=True)
    for limit in networks:
        console.print(_network_table(limit), crop=False)
        times = (f"{PHASE_NAMES[p]} {_ms(limit.work.seconds(p, limit.ceilings))}" for p in PHASES)
        update = _ms(limit.work.update.seconds(limit.ceilings))
        console.print(f"At least, in ms: {', '.join(times)} (of which the update {update}).")
    if networks:
        console.print(
            "The least time of direct convolutions and dense layers, each pass on its own; all "
            "else counts nothing. ᵐ: bound by memory.",
            style="dim",
            soft_wrap=True,
        )


def _device_table(limits: DeviceLimits) -> Table:
    table = _table(title(limits))
    table.add_column("", no_wrap=True)
    table.add_column("precision", no_wrap=True)
    table.add_column("at most", justify="right", no_wrap=True)
    table.add_column("at", no_wrap=True)
    for figure in limits.figures:
        value = _value(figure) if figure.value else "-"
        where = _where(figure) if figure.value else f"[dim]{escape(figure.problem)}[/dim]"
        name = NAMES.get(figure.name, figure.name) + (" ‡" if figure.disturbed else "")
        table.add_row(escape(name), escape(figure.precision or ""), value, where)
    return table


def _network_table(limit: NetworkLimit) -> Table:
    heading = (
        f"{limit.network}, batch {limit.batch_size}  ({limit.device}, {limit.precision}: at most "
        f"{_prefixed(limit.ceilings.flop_per_second, 'FLOP/s')}, "
        f"{_prefixed(limit.ceilings.bytes_per_second, 'B/s')})"
    )
    table = _table(heading, show_footer=True)
    total = limit.work
    table.add_column("layer", "total", overflow="fold", min_width=8)
    table.add_column("kind", no_wrap=True)
    forward = [layer.forward for layer in total.layers]
    weights = [layer.weight_gradient for layer in total.layers]
    inputs = [layer.input_gradient for layer in total.layers if layer.input_gradient]
    for name, footer in (
        ("forward\nGFLOP", f"{sum(part.flop for part in forward) / 1e9:,.3f}"),
        ("forward\nMB", f"{sum(part.bytes for part in forward) / 1e6:,.1f}"),
        ("forward\nms", _sum(forward, limit.ceilings)),
        ("gradient of\nweights ms", _sum(weights, limit.ceilings)),
        ("gradient of\ninput ms", _sum(inputs, limit.ceilings)),
    ):
        table.add_column(name, footer, justify="right", no_wrap=True)
    for layer in total.layers:
        table.add_row(*_layer_row(layer, limit.ceilings))
    return table


def _layer_row(layer: LayerWork, ceilings: Ceilings) -> tuple[str, ...]:
    return (
        escape(layer.name),
        layer.kind,
        f"{layer.forward.flop / 1e9:,.3f}",
        f"{layer.forward.bytes / 1e6:,.1f}",
        _bound(layer.forward, ceilings),
        _bound(layer.weight_gradient, ceilings),
        _bound(layer.input_gradient, ceilings) if layer.input_gradient else "-",
    )


def _table(heading: str, **options: Any) -> Table:
    return Table(
        title=escape(heading),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        **options,
    )


def _bound(part: Work, ceilings: Ceilings) -> str:
    mark = "ᵐ" if part.is_bound_by_memory(ceilings) else " "
    return f"{_ms(part.seconds(ceilings))}{mark}"


def _sum(parts: Sequence[Work], ceilings: Ceilings) -> str:
    return f"{_ms(sum(part.seconds(ceilings) for part in parts))} "


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:#.3g}" if seconds < 1 else f"{seconds * 1e3:,.0f}"


def _value(figure: Figure | None) -> str:
    if figure is None or figure.value is None:
        return "-"
    if figure.unit == "s":
        return f"{figure.value * 1e6:.3g} µs"
    return _prefixed(figure.value, figure.unit)


def _where(figure: Figure) -> str:
    if figure.size is None:
        return ""
    return f"{figure.size / 1e6:,.0f} MB" if figure.name == "copy" else f"{figure.size:,} rows"


def _prefixed(value: float, unit: str) -> str:
    scale, prefix = next(entry for entry in PREFIXES if value >= entry[0] or entry[0] == 1.0)
    scaled = value / scale
    return f"{scaled:,.0f} {prefix}{unit}" if scaled >= 100 else f"{scaled:.3g} {prefix}{unit}"


def limits_json(
    devices: Sequence[DeviceLimits], networks: Sequence[NetworkLimit]
) -> dict[str, Any]:
    """What ``--json`` prints: units in the names or beside the values."""
    return {
        "schema": 1,
        "devices": [limits.to_json(samples=True) for limits in devices],
        "networks": [_network_json(limit) for limit in networks],
    }


def _network_json(limit: NetworkLimit) -> dict[str, Any]:
    ceilings = limit.ceilings
    return {
        "network": limit.network,
        "batch_size": limit.batch_size,
        "precision": limit.precision,
        "device": limit.device,
        "limit_seconds": {phase: limit.work.seconds(phase, ceilings) for phase in PHASES},
        "flop": {phase: limit.work.flop(phase) for phase in PHASES},
        "update": _work_json(limit.work.update, ceilings),
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "forward": _work_json(layer.forward, ceilings),
                "weight_gradient": _work_json(layer.weight_gradient, ceilings),
                "input_gradient": layer.input_gradient
                and _work_json(layer.input_gradient, ceilings),
            }
            for layer in limit.work.layers
        ],
    }


def _work_json(part: Work, ceilings: Ceilings) -> dict[str, Any]:
    return {
        "flop": part.flop,
        "bytes": part.bytes,
        "limit_seconds": part.seconds(ceilings),
        "bound_by": "memory" if part.is_bound_by_memory(ceilings) else "products",
    }
