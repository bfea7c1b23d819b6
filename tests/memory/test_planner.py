from __future__ import annotations

import pytest

from netdyno.errors import NetdynoError
from netdyno.memory import (
    MXNET_1_9,
    MXNET_2015,
    PLAIN,
    STRATEGIES,
    RuleSet,
    Strategy,
    lower_bound,
    plan,
)
from netdyno.memory.figure7 import BATCH_SIZE, PUBLISHED_GIB, READING_ERROR_GIB, networks
from netdyno.networks import Network, build
from netdyno.networks.builder import Builder
from netdyno.networks.graph import KINDS, Conv, Pool
from tests.small_network import small_network

RULE_SETS = (PLAIN, MXNET_2015, MXNET_1_9)


def internal(
    network: Network,
    training: bool,
    strategy: Strategy,
    *,
    rules: RuleSet = PLAIN,
    batch_size: int = 1,
    itemsize_bytes: int = 4,
) -> int:
    return plan(
        network,
        batch_size=batch_size,
        itemsize_bytes=itemsize_bytes,
        training=training,
        strategy=strategy,
        rules=rules,
    ).internal_bytes


def chain() -> Network:
    """In bytes: conv 2x4x4 = 128, relu 128, pool 2x2x2 = 32, flat 32; the logits are an output."""
    net = Builder((1, 4, 4))
    net.conv("conv", 2, 3, padding=1)
    net.relu()
    net.pool("pool", "max", 2, 2)
    net.flatten()
    net.dense("dense", 3)
    net.loss()
    return net.network("chain", options={}, source="")


@pytest.mark.parametrize(
    ("strategy", "internal_bytes"),
    [
        # The loss keeps 3 probabilities: 12.
        ("naive", 128 + 128 + 32 + 32 + 12),
        # ReLU in conv's buffer; flat is a view of pool.
        ("inplace", 128 + 32 + 12),
        # conv A, relu B; pool in A, flat in B, probabilities in A.
        ("coshare", 128 + 128),
        # conv and relu A, pool and flat B, probabilities in B, the smaller of the two.
        ("both", 128 + 32),
    ],
)
def test_forward_by_hand(strategy: Strategy, internal_bytes: int) -> None:
    assert internal(chain(), False, strategy) == internal_bytes


@pytest.mark.parametrize(
    ("strategy", "internal_bytes"),
    [
        # Gradients of the logits, of flat, pool, relu and conv; images get none.
        ("naive", 332 + 12 + 32 + 32 + 128 + 128),
        # conv = relu; pool = flat; probabilities = gradient of the logits; the gradient of flat,
        # which cannot take flat's buffer since pooling still reads it, = that of pool; the
        # gradient of relu = that of conv.
        ("inplace", 128 + 32 + 12 + 32 + 128),
        # conv A, relu B; pool in A; flat C, probabilities D, gradient of the logits E; that of
        # flat in D, which grows to 32; of pool in C; of relu in D, which grows to 128; of conv
        # in A.
        ("coshare", 128 + 128 + 32 + 128 + 12),
        # conv A, pool B, probabilities C, gradient of flat D; the gradient of relu in C, which
        # grows from 12 to 128.
        ("both", 128 + 32 + 128 + 32),
    ],
)
def test_forward_and_backward_by_hand(strategy: Strategy, internal_bytes: int) -> None:
    assert internal(chain(), True, strategy) == internal_bytes


def test_lower_bound_by_hand() -> None:
    # Pooling reads 128 and writes 32.
    assert lower_bound(chain(), batch_size=1, training=False) == 128 + 32
    # Its backward pass reads relu 128, pool 32 and a gradient of 32, and writes 128.
    assert lower_bound(chain(), batch_size=1, training=True) == 128 + 32 + 32 + 128


def test_relu_cannot_work_in_place_where_its_backward_pass_reads_its_input() -> None:
    network = networks()["vgg_a"]
    rules = {**MXNET_2015.rules, "ReLU": PLAIN.rules["ReLU"]}
    without = RuleSet("without cuDNN's ReLU", rules, unused_gradients=True, largest_first=False)
    planned = internal(network, True, "inplace", rules=without, batch_size=BATCH_SIZE)
    assert round(planned / 2**30, 3) == 4.313  # docs/memory.md


def test_gradients_nobody_asked_for_are_kept_by_mxnet() -> None:
    plain = internal(chain(), True, "naive")
    assert internal(chain(), True, "naive", rules=MXNET_2015) == plain + 4 * 4 * 4


def test_a_second_reader_adds_a_sum() -> None:
    net = Builder((1, 4, 4))
    stem = net.conv("stem", 1, 1)
    ends = [net.conv("left", 1, 1), net.conv("right", 1, 1, reads=stem)]
    net.concat("all", ends)
    net.flatten()
    net.loss()
    network = net.network("branches", options={}, source="")
    # Forward: stem, left and right 64 each, all 128; flat is the output; probabilities 128.
    assert internal(network, False, "naive") == 3 * 64 + 2 * 128
    # Backward: gradients of flat and all, 128 each; of left, right; of stem twice, and their sum.
    assert internal(network, True, "naive") == 448 + 2 * 128 + 2 * 64 + 3 * 64


def test_layers_below_every_parameter_have_no_backward_pass() -> None:
    net = Builder((1, 4, 4))
    net.pool("pool", "average", 2, 2)
    net.conv("conv", 2, 1)
    net.flatten()
    net.loss()
    network = net.network("pooled first", options={}, source="")
    # pool 16, conv 32, probabilities 32; gradients of flat and conv 32 each.
    assert internal(network, True, "naive") == 16 + 32 + 32 + 32 + 32


def test_layers_that_no_loss_needs_are_left_out() -> None:
    net = Builder((1, 4, 4))
    net.conv("conv", 2, 1)
    net.pool("unused", "max", 2, 2)
    net.last = "conv"
    net.flatten()
    net.loss()
    assert internal(net.network("dead end", options={}, source=""), False, "naive") == 128 + 128


@pytest.mark.parametrize("rules", RULE_SETS, ids=lambda rules: rules.name)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "network",
    [small_network(), build("alexnet"), build("googlenet:aux_heads:dropout"), build("resnet50")],
    ids=lambda network: network.name,
)
def test_order_of_the_strategies(network: Network, training: bool, rules: RuleSet) -> None:
    totals = {
        strategy: internal(network, training, strategy, rules=rules) for strategy in STRATEGIES
    }
    bound = lower_bound(network, batch_size=1, training=training, rules=rules)
    assert totals["naive"] > totals["inplace"] >= totals["both"] >= bound > 0
    assert totals["naive"] > totals["coshare"] >= bound


@pytest.mark.parametrize("rules", RULE_SETS, ids=lambda rules: rules.name)
@pytest.mark.parametrize("training", [False, True])
def test_internal_memory_is_proportional_to_the_batch(training: bool, rules: RuleSet) -> None:
    network = small_network(batch_norm=False)
    for strategy in STRATEGIES:
        one = internal(network, training, strategy, rules=rules)
        assert internal(network, training, strategy, rules=rules, batch_size=7) == 7 * one
    one = lower_bound(network, batch_size=1, training=training, rules=rules)
    assert lower_bound(network, batch_size=7, training=training, rules=rules) == 7 * one


def test_batch_statistics_do_not_grow_with_the_batch() -> None:
    network = small_network()
    one, two, nine = (internal(network, True, "naive", batch_size=size) for size in (1, 2, 9))
    # Mean and variance of 12 channels.
    assert one - (two - one) == 2 * 12 * 4
    assert nine == one + 8 * (two - one)


def test_half_precision_halves_what_is_not_a_workspace() -> None:
    network = build("googlenet")
    assert internal(network, True, "both", itemsize_bytes=2) * 2 == internal(network, True, "both")
    double, single = (
        internal(network, False, "naive", itemsize_bytes=size, rules=MXNET_1_9) for size in (8, 4)
    )
    # oneDNN's workspace has four bytes an element, whatever the precision.
    pooled = [
        layer.name
        for layer in network.layers
        if isinstance(layer, Pool) and layer.reduction == "max"
    ]
    workspace = sum(4 * _elements(network, name) for name in pooled)
    assert workspace > 0
    assert double - workspace == 2 * (single - workspace)


def _elements(network: Network, name: str) -> int:
    channels, height, width = network.shapes[name]
    return channels * height * width


@pytest.mark.parametrize("rules", RULE_SETS, ids=lambda rules: rules.name)
def test_every_kind_of_layer_has_a_rule_and_a_source(rules: RuleSet) -> None:
    kinds = {*KINDS, "Pool max", "Pool average"} - {"Pool"}
    assert set(rules.rules) == kinds
    assert all(rule.source for rule in rules.rules.values())
    for kind, rule in rules.rules.items():
        # What is taken over must be read: else nothing says that it is still there.
        assert rule.backward_takes is None or rule.backward_takes in rule.reads, kind


def test_a_layer_without_a_rule_is_an_error() -> None:
    rules = RuleSet("partial", {"Conv": PLAIN.rules["Conv"]})
    assert rules.rule(Conv("conv", ("images",), 1, (1, 1))) is PLAIN.rules["Conv"]
    with pytest.raises(NetdynoError, match=r"layer 'conv_relu'.*'partial' have none for ReLU"):
        plan(chain(), batch_size=1, training=True, strategy="both", rules=rules)


def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(NetdynoError, match="'best' does not exist; there are naive, inplace"):
        plan(chain(), batch_size=1, training=True, strategy="best")  # type: ignore[arg-type]
    with pytest.raises(NetdynoError, match="batch size must be 1 or more, not 0"):
        lower_bound(chain(), batch_size=0, training=True)
    with pytest.raises(NetdynoError, match="itemsize must be 1 or more, not -4"):
        plan(chain(), batch_size=1, itemsize_bytes=-4, training=True, strategy="both")


def test_a_plan_says_what_it_is_of() -> None:
    made = plan(chain(), batch_size=3, training=True, strategy="both", rules=MXNET_1_9)
    assert (made.network, made.rules, made.strategy) == ("chain", "mxnet-1.9", "both")
    assert (made.training, made.batch_size, made.itemsize_bytes) == (True, 3, 4)


@pytest.mark.parametrize("training", PUBLISHED_GIB)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_figure_7_of_the_paper(training: bool, strategy: Strategy) -> None:
    for name, network in networks().items():
        planned = internal(network, training, strategy, rules=MXNET_2015, batch_size=BATCH_SIZE)
        published = PUBLISHED_GIB[training][strategy][name]
        assert abs(planned / 2**30 - published) < READING_ERROR_GIB, name


# What MXNet 1.9.1's `debug_str` says for batch 128, in whole MiB; naive, inplace, coshare, both.
MXNET_1_9_MIB = {
    (False, "alexnet_owt"): (573, 327, 216, 145),
    (False, "googlenet"): (5140, 3563, 1142, 816),
    (False, "inception_bn"): (6954, 5129, 1022, 1052),
    (False, "vgg_a"): (8767, 5124, 3602, 2425),
    (True, "alexnet_owt"): (1219, 728, 582, 427),
    (True, "googlenet"): (12172, 8110, 4628, 4018),
    (True, "inception_bn"): (16303, 12003, 6441, 5754),
    (True, "vgg_a"): (17608, 10323, 8961, 6715),
}


@pytest.mark.parametrize(("training", "name"), MXNET_1_9_MIB)
def test_plans_of_mxnet_1_9(training: bool, name: str) -> None:
    network = build(name)
    for strategy, mib in zip(STRATEGIES, MXNET_1_9_MIB[training, name], strict=True):
        planned = internal(network, training, strategy, rules=MXNET_1_9, batch_size=128)
        # MXNet counts its output as well, the probabilities, which may share a buffer; and it
        # rounds down.
        output = 128 * 1000 * 4
        assert planned // 2**20 <= mib <= (planned + output) // 2**20, strategy
