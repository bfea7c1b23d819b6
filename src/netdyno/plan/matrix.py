"""From a request to the cells it names, every axis checked against what exists."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import TypeVar

from netdyno.errors import NetdynoError, unknown_name
from netdyno.frameworks import FrameworkSpec, ModeSpec, framework, frameworks
from netdyno.host.cpu import cpu
from netdyno.host.devices import gpus
from netdyno.networks import Network, build, file_of
from netdyno.plan.cell import ALLOCATORS, AUTOTUNE, PRECISIONS, Cell
from netdyno.plan.request import Request

__all__ = ["cells", "device_name"]

T = TypeVar("T")

ALL_MODES = "all"
LAYOUTS = ("nchw", "nhwc")


def cells(request: Request) -> list[Cell]:
    """Every combination, in the order in which the axes were given, part by part, each once.

    Raises:
        NetdynoError: an axis has a name that does not exist (with the nearest that do), a
            framework lacks what was asked of it, or two networks have one name.
    """
    found: dict[str, Cell] = {}
    hashes: dict[str, str] = {}
    for part in request.parts():
        for cell in _cells(part):
            found.setdefault(cell.key, cell)
            if hashes.setdefault(cell.network_spec, cell.network.hash) != cell.network.hash:
                raise NetdynoError(
                    f"two parts of the matrix name different networks '{cell.network_spec}': "
                    "rename one of the files"
                )
    return list(found.values())


def _cells(request: Request) -> list[Cell]:
    _check_names("precision", request.precision, PRECISIONS)
    _check_names("layout", request.layout, LAYOUTS)
    _check_names("host allocator", request.host_allocator, ALLOCATORS)
    _check_names("autotune", request.autotune, AUTOTUNE)
    devices = _unique(device_name(name) for name in request.device)
    networks = _networks(request)
    specs = _frameworks(request)
    if ALL_MODES not in request.modes:
        known = {mode for spec in specs for mode in spec.modes}
        for name in request.modes:
            if name not in known:
                raise unknown_name(
                    f"mode of {', '.join(s.name for s in specs)}", name, known | {ALL_MODES}
                )
    found: list[Cell] = []
    for (text, network), batch_size in itertools.product(
        networks.items(), _unique(request.batch_size)
    ):
        for spec in specs:
            found += _cells_of(spec, text, network, batch_size, request, devices)
    return found


def _cells_of(
    spec: FrameworkSpec,
    text: str,
    network: Network,
    batch_size: int,
    request: Request,
    devices: list[str],
) -> list[Cell]:
    for precision in request.precision:
        _must_have(spec, "precision", precision, spec.precisions)
    for device in devices:
        _must_have(spec, "device", device.split(":")[0], spec.devices)
    _check_gpu_axes(request, devices)
    return [
        Cell(
            spec.name,
            mode.name,
            text,
            network,
            batch_size,
            precision,
            layout,
            device,
            threads,
            allocator,  # type: ignore[arg-type]  # checked by name above
            autotune,
        )
        for mode in _modes(spec, request, devices)
        for precision, layout, device, threads, allocator, autotune in itertools.product(
            _unique(request.precision),
            _layouts(spec, mode, request),
            devices,
            _threads(request),
            _unique(request.host_allocator),
            _unique(request.autotune),
        )
    ]


def _check_gpu_axes(request: Request, devices: list[str]) -> None:
    """What a processor has not is refused: it would be another name for the same cell."""
    if "cpu" not in devices:
        return
    if "tf32" in request.precision:
        raise NetdynoError("precision 'tf32' is one of GPUs: name one with --device cuda:0")
    if "off" in request.autotune:
        raise NetdynoError("autotune 'off' is for GPUs: name one with --device cuda:0")


def _networks(request: Request) -> dict[str, Network]:
    """By what they are called in results: a specification, or the name of a file's network.

    Raises:
        NetdynoError: two different networks have one name.
    """
    found: dict[str, Network] = {}
    origins: dict[str, str] = {}
    for spec in _unique(request.networks):
        network = build(spec)
        text = network.name if file_of(spec) else spec
        if text in found and found[text].hash != network.hash:
            raise NetdynoError(
                f"'{origins[text]}' and '{spec}' are different networks of one name, '{text}': "
                "rename one of the files"
            )
        found.setdefault(text, network)
        origins.setdefault(text, spec)
    return found


def _frameworks(request: Request) -> list[FrameworkSpec]:
    if request.frameworks:
        return [framework(name) for name in _unique(request.frameworks)]
    return [spec for spec in frameworks().values() if not spec.on_request_only]


def _modes(spec: FrameworkSpec, request: Request, devices: list[str]) -> list[ModeSpec]:
    kinds = {device.split(":")[0] for device in devices}
    if ALL_MODES in request.modes:
        return [m for m in spec.modes.values() if kinds <= set(m.devices or spec.devices)]
    if not request.modes:
        return [spec.modes[spec.default_mode]]
    chosen = [spec.modes[name] for name in _unique(request.modes) if name in spec.modes]
    if not chosen:
        raise NetdynoError(
            f"{spec.name} has none of the modes {', '.join(request.modes)}; it has "
            f"{', '.join(spec.modes)}: add one of them to --modes, or leave {spec.name} out"
        )
    for mode in chosen:
        for kind in sorted(kinds):
            _must_have(spec, f"device in mode {mode.name}", kind, mode.devices or spec.devices)
    return chosen


def _layouts(spec: FrameworkSpec, mode: ModeSpec, request: Request) -> list[str]:
    if not request.layout:
        return [mode.layouts[0]]
    for layout in request.layout:
        _must_have(spec, f"layout in mode {mode.name}", layout, mode.layouts)
    return _unique(request.layout)


def _threads(request: Request) -> list[int]:
    cores = cpu().usable_cores
    for count in request.threads:
        if count > cores:
            raise NetdynoError(
                f"--threads {count}: only {cores} cores can be used here; more threads than "
                "cores measure the scheduler, not the framework"
            )
    return _unique(request.threads) or [cores]


def device_name(name: str) -> str:
    """``cpu`` or ``cuda:N``, if it is there."""
    if name == "cpu":
        return name
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if not match:
        raise unknown_name("device", name, ("cpu", "cuda", "cuda:0"))
    index = int(match.group(1) or 0)
    count = len(gpus())
    if index >= count:
        here = f"{count} NVIDIA GPUs are" if count else "no NVIDIA GPU is"
        raise NetdynoError(f"device '{name}': {here} visible on this host; see `netdyno doctor`")
    return f"cuda:{index}"


def _check_names(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown_name(what, name, known)


def _must_have(spec: FrameworkSpec, what: str, name: str, has: tuple[str, ...]) -> None:
    if name not in has:
        raise NetdynoError(f"{spec.name} has no {what} '{name}'; it has {', '.join(has)}")


def _unique(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))
