"""TensorFlow's allocator and XLA's plan beside what a pass allocates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netdyno.memory import plan
from tests.integration.memory.chain import activation_bytes, chain
from tests.integration.memory.trials import PHASES, memory_of

pytestmark = pytest.mark.integration

BATCH_SIZE = 4
# Parameters, their gradients and what else is smaller than an activation.
SMALL_BYTES = 600_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return memory_of(tmp_path_factory.mktemp("tf"), "tensorflow", "graph", chain(), BATCH_SIZE)


@pytest.fixture(scope="module")
def xla(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return memory_of(tmp_path_factory.mktemp("tf"), "tensorflow", "xla", chain(), BATCH_SIZE)


def test_the_allocator_hands_out_whole_activations(graph: dict[str, dict[str, Any]]) -> None:
    activation = activation_bytes(BATCH_SIZE)
    assert graph["forward"]["kind"] == "allocator peak"
    # ReLU works in place: one convolution's input and its output.
    assert graph["forward"]["internal_bytes"] == 2 * activation
    assert graph["forward"]["internal_bytes"] == pytest.approx(
        plan(chain(), batch_size=BATCH_SIZE, training=False, strategy="both").internal_bytes,
        abs=SMALL_BYTES,
    )
    # Three that were kept and a gradient; one more gradient if a later operation ran first.
    for phase in ("forward_backward", "train_step"):
        assert graph[phase]["internal_bytes"] in (4 * activation, 5 * activation), phase


def test_the_allocator_and_what_is_seen_agree(graph: dict[str, dict[str, Any]]) -> None:
    forward = graph["forward"]
    assert forward["observed_bytes"] == pytest.approx(forward["internal_bytes"], abs=SMALL_BYTES)
    for phase in ("forward_backward", "train_step"):
        over = graph[phase]["observed_bytes"] - 4 * activation_bytes(BATCH_SIZE)
        assert 0 <= over <= activation_bytes(BATCH_SIZE) + SMALL_BYTES, phase


def test_xlas_plan_is_a_block_that_is_seen(xla: dict[str, dict[str, Any]]) -> None:
    for phase in PHASES:
        assert xla[phase]["kind"] == "static plan"
        # To the byte; Eigen's packed operands of a convolution are beside it.
        assert xla[phase]["internal_bytes"] in xla[phase]["observed_largest"], phase
        assert xla[phase]["observed_bytes"] > xla[phase]["internal_bytes"]
    assert xla["forward"]["internal_bytes"] == pytest.approx(
        2 * activation_bytes(BATCH_SIZE), abs=SMALL_BYTES
    )
    planned = [xla[phase]["internal_bytes"] for phase in PHASES]
    assert planned == sorted(set(planned))


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_a_larger_batch_needs_more(
    tmp_path: Path, mode: str, request: pytest.FixtureRequest
) -> None:
    smaller = request.getfixturevalue(mode)["forward"]
    larger = memory_of(tmp_path, "tensorflow", mode, chain(), 2 * BATCH_SIZE)["forward"]
    assert larger["internal_bytes"] == pytest.approx(2 * smaller["internal_bytes"], rel=0.01)
    assert larger["observed_bytes"] == pytest.approx(2 * smaller["observed_bytes"], rel=0.1)
