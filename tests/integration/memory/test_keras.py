"""What Keras' backends tell of their memory, beside what the allocations show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.memory.test_pytorch import convolutions
from tests.integration.memory.trials import PHASES, memory_of

pytestmark = pytest.mark.integration


def test_over_pytorch_both_figures_agree(tmp_path: Path) -> None:
    events = memory_of(tmp_path, "keras", "torch", convolutions(), 64)
    for phase in PHASES:
        told = events[phase]["internal_bytes"]
        assert events[phase]["kind"] == "allocator peak"
        assert 0.99 * told < events[phase]["observed_bytes"] < 1.1 * told, phase


def test_over_jax_it_is_the_plan_of_xla(tmp_path: Path) -> None:
    events = memory_of(tmp_path, "keras", "jax", convolutions(), 64)
    for phase in PHASES:
        told = events[phase]["internal_bytes"]
        assert events[phase]["kind"] == "static plan"
        # Beyond it there are the buffers of the processor's own kernels.
        assert 0 < told < 1.01 * events[phase]["observed_bytes"], phase
