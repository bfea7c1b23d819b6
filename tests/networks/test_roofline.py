"""The least time of a network, by hand, on devices whose ceilings are round numbers."""

from __future__ import annotations

import pytest

from netdyno.networks import Network, build, names
from netdyno.networks.builder import Builder
from netdyno.networks.cost import count
from netdyno.networks.graph import Dense
from netdyno.networks.roofline import Ceilings, LayerWork, Work, work

# So slow a memory, or so slow a unit for products, that only it matters.
BY_MEMORY = Ceilings(1e30, 1.0)
BY_PRODUCTS = Ceilings(1.0, 1e30)


def ended(net: Builder) -> Network:
    if not isinstance(net.layers[-1], Dense):
        net.flatten()
    net.loss()
    return net.network("test", options={}, source="")


def small() -> Network:
    """Two convolutions and a dense layer, with layers between them that count nothing."""
    net = Builder((2, 5, 5))
    net.conv("conv1", 3, 3)  # 3x3x3
    net.batch_norm()
    net.relu()
    net.conv("conv2", 4, 3, bias=False)  # 4x1x1
    net.flatten()
    net.dropout(0.5)
    net.dense("fc", 5)
    return ended(net)


def only(net: Builder, **how: int) -> LayerWork:
    (layer,) = work(ended(net), batch_size=1, **how).layers
    return layer


def test_a_small_network_by_hand() -> None:
    conv1, conv2, fc = work(small(), batch_size=10, itemsize_bytes=2).layers
    assert [layer.kind for layer in (conv1, conv2, fc)] == ["Conv", "Conv", "Dense"]
    # Images 2x5x5, weight 3x2x3x3 and bias 3, output 3x3x3.
    flop, size = 10 * 2 * 54 * 9, 2 * (10 * 50 + 54 + 3 + 10 * 27)
    assert conv1.forward == conv1.weight_gradient == Work(flop, size)
    assert conv1.input_gradient is None
    # 3x3x3 to 4x1x1, without a bias.
    assert conv2.forward == Work(10 * 2 * 108, 2 * (10 * 27 + 108 + 10 * 4))
    assert conv2.input_gradient == conv2.weight_gradient == conv2.forward
    # 4 to 5, with one: which the gradient of the input does not read.
    assert fc.forward == fc.weight_gradient == Work(10 * 2 * 20, 2 * (10 * 4 + 25 + 10 * 5))
    assert fc.input_gradient == Work(10 * 2 * 20, 2 * (10 * 4 + 20 + 10 * 5))


def test_the_slower_of_products_and_memory_decides() -> None:
    part = Work(flop=600, bytes=100)
    assert part.seconds(Ceilings(100.0, 50.0)) == 6.0
    assert not part.is_bound_by_memory(Ceilings(100.0, 50.0))
    assert part.seconds(Ceilings(100.0, 10.0)) == 10.0
    assert part.is_bound_by_memory(Ceilings(100.0, 10.0))


def test_each_pass_has_its_own_bound_and_phases_add_them_up() -> None:
    found = work(small(), batch_size=10, itemsize_bytes=4)
    conv1, conv2, fc = found.layers
    forward = 10 * 2 * (54 * 9 + 108 + 20)
    # conv1 has no gradient by the images.
    both = 3 * forward - 10 * 2 * 54 * 9
    assert found.flop("forward") == found.seconds("forward", BY_PRODUCTS) == forward
    assert found.flop("forward_backward") == found.seconds("forward_backward", BY_PRODUCTS) == both
    assert found.flop("train_step") == both
    mixed = Ceilings(2.0, 1.0)
    parts = (conv1.forward, conv1.weight_gradient, *3 * (conv2.forward,), *2 * (fc.forward,))
    expected = sum(max(part.flop / 2, part.bytes) for part in parts)
    assert fc.input_gradient
    expected += max(fc.input_gradient.flop / 2, fc.input_gradient.bytes)
    assert found.seconds("forward_backward", mixed) == pytest.approx(expected)


def test_a_train_step_also_updates_every_parameter() -> None:
    network = small()
    parameters = 54 + 3 + 2 * 3 + 108 + 25
    found = work(network, batch_size=10, itemsize_bytes=2, parameter_itemsize_bytes=4)
    # Parameters, gradients and momenta are read; parameters and momenta written.
    assert found.update == Work(bytes=5 * 4 * parameters)
    assert found.seconds("train_step", BY_MEMORY) == pytest.approx(
        found.seconds("forward_backward", BY_MEMORY) + 20 * parameters
    )
    assert work(network, batch_size=99).update.bytes == 20 * parameters


def test_positions_that_no_window_sees_are_not_read() -> None:
    skipping = Builder((3, 5, 5))
    skipping.conv("conv", 2, 1, stride=2, bias=False)  # sees rows and columns 0, 2, 4
    assert only(skipping, itemsize_bytes=1).forward.bytes == 3 * 9 + 6 + 2 * 9
    # One that pads sees the edge; the last row and column are beyond its last window.
    padded = Builder((1, 6, 6))
    padded.conv("conv", 1, 3, stride=3, padding=1, bias=False)  # starts at -1 and 2
    assert only(padded, itemsize_bytes=1).forward.bytes == 25 + 9 + 4


def test_but_their_gradient_is_written() -> None:
    net = Builder((1, 5, 5))
    net.conv("first", 3, 1)
    net.conv("conv", 2, 1, stride=2, bias=False)
    layer = work(ended(net), batch_size=1, itemsize_bytes=1).layers[1]
    assert layer.weight_gradient.bytes == 3 * 9 + 6 + 2 * 9
    assert layer.input_gradient == Work(2 * 6 * 9, 3 * 25 + 6 + 2 * 9)


def test_groups_divide_the_work() -> None:
    whole, half = Builder((4, 4, 4)), Builder((4, 4, 4))
    whole.conv("conv", 4, 3)
    half.conv("conv", 4, 3, groups=2)
    assert only(whole).forward.flop == 2 * only(half).forward.flop


def test_a_gradient_that_no_parameter_needs_is_not_counted() -> None:
    """Nobody needs what a pool would hand on to the images."""
    net = Builder((3, 8, 8))
    net.pool("pool", "max", 2, 2)
    net.conv("conv", 4, 3)
    net.conv("next", 4, 1)
    first, second = work(ended(net), batch_size=1).layers
    assert first.input_gradient is None
    assert second.input_gradient is not None


@pytest.mark.parametrize("name", names())
def test_flop_are_those_that_the_costs_count(name: str) -> None:
    network = build(name)
    costs = [c for c in count(network, batch_size=3).layers if c.kind in ("Conv", "Dense")]
    found = work(network, batch_size=3)
    assert found.flop("forward") == sum(cost.forward_flop for cost in costs)
    assert found.flop("forward_backward") == sum(c.forward_flop + c.backward_flop for c in costs)
    ceilings = Ceilings(1e12, 1e11)
    times = [found.seconds(p, ceilings) for p in ("forward", "forward_backward", "train_step")]
    assert times == sorted(times)
    assert times[0] >= found.flop("forward") / 1e12
