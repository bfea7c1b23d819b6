"""The packaged figures are those that were published."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import netdyno.published
from netdyno.networks import build
from netdyno.published.times import PublishedTime, published_times, times_of

FILE = Path(netdyno.published.__file__).with_name("times.json")
# Each of three printed values is off by half a millisecond at most, so their sum by 1.5; whole
# numbers cannot differ by more than one.
ROUNDING_MS = 1.001
# As printed: 251 and 632 are 883.
DO_NOT_ADD_UP = {("Chainer", "vgg_a"): (885, 883)}


def total_ms(library: str, network: str, batch_size: int) -> float:
    (found,) = (time for time in times_of([(network, batch_size)]) if time.library == library)
    return found.total_seconds * 1e3


@pytest.mark.parametrize(
    ("library", "network", "batch_size", "expected"),
    [
        ("CuDNN[R4]-fp16 (Torch)", "alexnet_owt", 128, 71),
        ("Caffe", "alexnet_owt", 128, 324),
        ("Nervana-neon-fp32", "overfeat_fast", 128, 211),
        ("CuDNN[R2]", "vgg_a", 64, 1099),
        ("TensorFlow", "googlenet", 128, 445),
        ("TensorFlow", "alexnet_owt", 32, 216.5),
        ("Caffe", "googlenet", 32, 170),
        ("Torch7", "vgg_a", 32, 459),
        ("MXNet", "alexnet_owt", 32, 73.5),
    ],
)
def test_as_published(library: str, network: str, batch_size: int, expected: float) -> None:
    assert total_ms(library, network, batch_size) == pytest.approx(expected)


def test_all_are_there() -> None:
    counts = Counter((t.source.title, t.network, t.batch_size) for t in published_times())
    assert counts == {
        ("convnet-benchmarks", "alexnet_owt", 128): 13,
        ("convnet-benchmarks", "overfeat_fast", 128): 13,
        ("convnet-benchmarks", "vgg_a", 64): 13,
        ("convnet-benchmarks", "googlenet", 128): 9,
        ("MXNet paper, figure 6", "alexnet_owt", 32): 4,
        ("MXNet paper, figure 6", "googlenet", 32): 4,
        ("MXNet paper, figure 6", "vgg_a", 32): 4,
    }


def test_each_is_told_once() -> None:
    keys = [(t.source.title, t.library, t.network, t.batch_size) for t in published_times()]
    assert len(keys) == len(set(keys))


def test_networks_are_netdyno_s_with_the_published_images() -> None:
    inputs = {
        (entry["network"], tuple(entry["input"] or (3, 224, 224)))
        for source in json.loads(FILE.read_text(encoding="utf-8"))["sources"]
        for entry in source["times"]
    }
    assert inputs == {(network, build(network).input_shape) for network, _ in inputs}


def test_forward_and_backward_add_up_as_printed() -> None:
    odd = {}
    for time in published_times():
        if time.forward_seconds is None or time.backward_seconds is None:
            continue
        parts, total = (
            (time.forward_seconds + time.backward_seconds) * 1e3,
            time.total_seconds * 1e3,
        )
        if abs(total - parts) > ROUNDING_MS:
            odd[time.library, time.network] = (round(total), round(parts))
    assert odd == DO_NOT_ADD_UP


def test_only_what_is_read_off_a_figure_lacks_parts() -> None:
    lacking = {t.source.title for t in published_times() if t.forward_seconds is None}
    assert lacking == {"MXNet paper, figure 6"}
    read_off: set[PublishedTime] = {t for t in published_times() if "± 0.5 ms" in t.source.evidence}
    assert {t.source.title for t in read_off} == lacking


def test_none_for_another_batch_size() -> None:
    assert times_of([("vgg_a", 65), ("vgg_a:size=64", 64), ("resnet50", 256)]) == []


def test_as_plain_data() -> None:
    (first, *_) = times_of([("alexnet_owt", 128)])
    told = first.to_json()
    assert told["source"] == "convnet-benchmarks"
    assert told["hardware"].startswith("Titan X (Maxwell)")
    assert (told["forward_seconds"], told["backward_seconds"]) == (0.025, 0.046)
    assert told["total_seconds"] == 0.071
    assert json.dumps(told)
