"""Single layers side by side."""

from __future__ import annotations

import pytest

from netdyno.networks import build, names
from netdyno.networks.builder import Builder
from netdyno.networks.graph import BatchNorm, Conv, Layer, Pool
from netdyno.parity.sheet import CHANNELS, network_sheet, random_sheets


@pytest.mark.parametrize("name", names())
def test_every_kind_and_geometry_of_a_network_is_on_its_sheet(name: str) -> None:
    network = build(name)
    sheet = network_sheet(network)
    tested = [layer for layer in sheet.layers if " on " in layer.name.split(" input")[0]]
    for kind in (Conv, Pool):
        wanted = {_geometry(layer, network.input_shapes(layer)[0]) for layer in _of(network, kind)}
        there = {
            _geometry(layer, sheet.input_shapes(layer)[0])
            for layer in tested
            if isinstance(layer, kind)
        }
        assert wanted <= there
    assert {type(layer) for layer in network.layers} & {BatchNorm} <= {type(t) for t in tested}


def _of(network: object, kind: type[Layer]) -> list[Layer]:
    return [layer for layer in network.layers if isinstance(layer, kind)]  # type: ignore[attr-defined]


def _geometry(layer: Layer, shape: tuple[int, ...]) -> tuple[object, ...]:
    """What makes a layer another one: its window, and how ragged its edge is."""
    if isinstance(layer, Pool) and layer.kernel == shape[1:]:
        return ("global", layer.reduction)
    ragged = tuple(
        (size + 2 * p - k) % s
        for size, p, k, s in zip(shape[1:], layer.padding, layer.kernel, layer.stride, strict=True)  # type: ignore[attr-defined]
    )
    rest = (
        (layer.groups, layer.bias)
        if isinstance(layer, Conv)
        else (layer.reduction, layer.ceil_mode, layer.count_padding)  # type: ignore[attr-defined]
    )
    return (layer.kernel, layer.stride, layer.padding, ragged, *rest)  # type: ignore[attr-defined]


def test_channels_fill_a_block_of_a_blocked_layout() -> None:
    assert CHANNELS % 16 == 0
    sheet = network_sheet(build("alexnet"))
    (norm,) = [layer for layer in sheet.layers if layer.kind == "LRN"]
    assert sheet.shapes[norm.name][0] == CHANNELS


def test_a_batch_norm_over_single_values_is_checked_over_more() -> None:
    """Of two images' single values each becomes +1 or -1: any rounding error is all there is."""
    net = Builder((3, 5, 5))
    net.conv("c", 8, 5, bias=False)
    net.batch_norm()
    net.flatten()
    net.loss()
    sheet = network_sheet(net.network("tip", options={}, source=""))
    (norm,) = [layer for layer in sheet.layers if isinstance(layer, BatchNorm)]
    assert min(sheet.input_shapes(norm)[0][1:]) > 1


def test_random_sheets_depend_on_their_seed_only() -> None:
    first, again, other = ([s.hash for s in random_sheets(seed)] for seed in (3, 3, 4))
    assert first == again
    assert not set(first) & set(other)


@pytest.mark.parametrize("reduction", ["max", "average"])
def test_random_sheets_have_ragged_pools_that_round_up(reduction: str) -> None:
    (sheet,) = [s for s in random_sheets() if s.name == f"random {reduction} pools that round up"]
    pools = [layer for layer in sheet.layers if isinstance(layer, Pool)]
    assert all(pool.ceil_mode and pool.reduction == reduction for pool in pools)
    assert any(max(_geometry(pool, sheet.input_shapes(pool)[0])[3]) for pool in pools)  # type: ignore[call-overload]
