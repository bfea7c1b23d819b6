"""XLA's plan beside what a pass of JAX allocates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.memory.chain import activation_bytes, chain
from tests.integration.memory.trials import PHASES, memory_of

pytestmark = pytest.mark.integration

BATCH_SIZE = 4
KEPT_BYTES = 500_000  # beside gradients: what Python and XLA keep of a call


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return memory_of(tmp_path_factory.mktemp("jax"), "jax", "jit", chain(), BATCH_SIZE)


def test_the_plan_is_a_block_that_is_seen(found: dict[str, dict[str, Any]]) -> None:
    for phase in ("forward_backward", "train_step"):
        event = found[phase]
        assert event["kind"] == "static plan"
        # To the byte: it was allocated within the pass, and freed before the pass was over.
        assert event["internal_bytes"] in event["observed_largest"], phase
        assert event["observed_kept_bytes"] < KEPT_BYTES


def test_what_the_plan_leaves_out_is_seen(found: dict[str, dict[str, Any]]) -> None:
    for phase in PHASES:
        assert found[phase]["observed_bytes"] > found[phase]["internal_bytes"]
    # All layers are one kernel, which no longer needs whole activations. XLA plans next to nothing.
    forward, activation = found["forward"], activation_bytes(BATCH_SIZE)
    assert "YNNPACK" in forward["remark"]
    assert forward["internal_bytes"] < 0.1 * activation < forward["observed_bytes"]
    assert forward["observed_bytes"] < 3 * activation


def test_a_backward_pass_needs_what_was_kept_for_it(found: dict[str, dict[str, Any]]) -> None:
    # An activation of each of three convolutions, and the gradient of one.
    assert found["forward_backward"]["internal_bytes"] >= 4 * activation_bytes(BATCH_SIZE)
    assert found["forward"]["observed_bytes"] < found["forward_backward"]["observed_bytes"]
    # The gradients live within the step only.
    assert found["forward_backward"]["internal_bytes"] < found["train_step"]["internal_bytes"]


def test_a_larger_batch_needs_more(tmp_path: Path, found: dict[str, dict[str, Any]]) -> None:
    larger = memory_of(tmp_path, "jax", "jit", chain(), 2 * BATCH_SIZE)
    for phase in ("forward_backward", "train_step"):
        for figure in ("internal_bytes", "observed_bytes"):
            assert larger[phase][figure] == pytest.approx(2 * found[phase][figure], rel=0.1)
