"""Smaller images for double precision: the same layers, the same remainders."""

from __future__ import annotations

import pytest

from netdyno.networks import build
from netdyno.networks.cost import count
from netdyno.networks.graph import Conv, Pool
from netdyno.parity.smaller import COSTLY_FLOP, smaller
from tests.small_network import small_network


@pytest.mark.parametrize(("name", "size"), [("vgg_a", 96), ("vgg_d", 96), ("overfeat_fast", 135)])
def test_costly_networks_shrink(name: str, size: int) -> None:
    network = build(name)
    found = smaller(network)
    assert found.input_shape == (3, size, size)
    assert found.name == f"{name} at {size}x{size}"
    assert found.layers == network.layers
    assert count(found).forward_flop < count(network).forward_flop / 3


@pytest.mark.parametrize("name", ["vgg_a", "overfeat_fast"])
def test_every_window_falls_on_the_same_remainder(name: str) -> None:
    network = build(name)
    found = smaller(network)
    for layer in network.layers:
        if isinstance(layer, Conv | Pool):
            for axis in (0, 1):
                remainders = {
                    (n.input_shapes(layer)[0][1 + axis] + 2 * layer.padding[axis])
                    % layer.stride[axis]
                    for n in (network, found)
                }
                assert len(remainders) == 1, layer.name


@pytest.mark.parametrize("name", ["alexnet_owt", "googlenet", "inception_bn", "conv_l5"])
def test_cheap_networks_stay_as_they_are(name: str) -> None:
    network = build(name)
    assert count(network).forward_flop <= COSTLY_FLOP
    assert smaller(network) is network


def test_a_network_whose_last_pool_allows_no_less_stays_as_it_is() -> None:
    network = build("resnet50")
    assert count(network).forward_flop > COSTLY_FLOP
    assert smaller(network) is network


def test_small_networks_of_the_tests_stay() -> None:
    network = small_network()
    assert smaller(network) is network
