"""What the builder wires by itself."""

from __future__ import annotations

from netdyno.networks.builder import Builder
from netdyno.networks.graph import Pool


def test_a_layer_reads_the_one_before_unless_told_otherwise() -> None:
    net = Builder((3, 8, 8))
    net.conv("a", 4, 1)
    relu = net.relu()
    net.conv("b", 4, 3, padding=1, reads="images")
    net.concat("both", [relu, "b"])
    assert [layer.inputs for layer in net.layers] == [
        ("images",),
        ("a",),
        ("images",),
        ("a_relu", "b"),
    ]


def test_last_can_be_set() -> None:
    net = Builder((3, 8, 8))
    net.conv("a", 4, 1)
    net.conv("aside", 4, 1)
    net.last = "a"
    net.flatten()
    assert net.layers[-1].inputs == ("a",)


def test_global_average_pool_covers_the_map() -> None:
    net = Builder((3, 9, 5))
    net.global_average_pool("pool")
    assert net.layers == [Pool("pool", ("images",), "average", (9, 5), (1, 1))]
