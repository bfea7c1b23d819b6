"""Memory as it is read, and the arrays that stand beside it."""

from __future__ import annotations

from typing import Any

import pytest

from netdyno.memory.measured import arrays, phase_memory
from netdyno.networks import build

EVENT: dict[str, Any] = {
    "event": "memory",
    "phase": "forward",
    "internal_bytes": 90,
    "kind": "static plan",
    "source": "its own",
    "remark": "",
    "observed_bytes": 100,
    "observed_source": "memray",
    "observed_problem": "",
    "observed_largest": [60, 40],
    "process_bytes": 1000,
    "device_bytes": None,
}


def test_what_was_seen_counts() -> None:
    memory = phase_memory(EVENT)
    assert memory.internal_bytes == 100
    assert memory.reported_bytes == 90
    assert memory.disagreement == pytest.approx(-0.1)
    assert memory.agrees
    assert memory.total_bytes == 1000
    assert memory.observed_largest == (60, 40)


def test_else_what_the_framework_tells() -> None:
    memory = phase_memory({**EVENT, "observed_bytes": None, "device_bytes": 2000})
    assert memory.internal_bytes == 90
    assert memory.disagreement is None
    assert not memory.agrees
    assert memory.total_bytes == 2000


def test_further_than_a_tenth_apart() -> None:
    assert not phase_memory({**EVENT, "internal_bytes": 89}).agrees


@pytest.mark.parametrize("odd", ["many", True, float("nan"), [], {}])
def test_a_shared_folder_may_hold_anything(odd: Any) -> None:
    memory = phase_memory({**EVENT, "internal_bytes": odd, "observed_largest": odd})
    assert memory.reported_bytes is None
    assert memory.observed_largest == ()
    assert phase_memory({"event": "memory"}).internal_bytes is None


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert "\x1b" not in phase_memory({**EVENT, "remark": "\x1b[2J"}).remark


def test_arrays_of_alexnet() -> None:
    # 61.1 million parameters (published count of the one-weird-trick AlexNet).
    network = build("alexnet_owt")
    found = arrays(network, phase="train_step", batch_size=32)
    assert found.parameters == 4 * 61_100_840
    assert found.gradients == found.optimizer_state == found.parameters
    assert found.inputs == 32 * (4 * 3 * 224 * 224 + 4)
    assert found.outputs == 32 * 1000 * 4
    assert found.total == 3 * found.parameters + found.inputs + found.outputs


def test_forward_learns_nothing() -> None:
    found = arrays(build("alexnet_owt"), phase="forward", batch_size=1)
    assert found.gradients == found.optimizer_state == 0


def test_running_statistics_are_parameters_that_nobody_learns() -> None:
    # ResNet-50: 25,557,032 parameters, 53,120 running means and variances (torchvision).
    found = arrays(build("resnet50"), phase="forward_backward", batch_size=1)
    assert found.parameters == 4 * (25_557_032 + 53_120)
    assert found.gradients == 4 * 25_557_032


def test_half_precision() -> None:
    found = arrays(build("alexnet_owt"), phase="forward", batch_size=1, itemsize_bytes=2)
    assert found.parameters == 4 * 61_100_840  # mixed: they stay in single precision
    assert found.outputs == 2 * 1000
