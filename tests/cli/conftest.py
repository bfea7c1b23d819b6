"""Runs of the null framework inside the test's own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from netdyno.plan.sampling import Sampling


@pytest.fixture
def null_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to run in: with few samples, and without measuring this host's speed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("netdyno.plan.estimate._flop_per_second", lambda: 1e11)
    monkeypatch.setattr("netdyno.plan.job.SAMPLING", Sampling(2, 3, 0.05, 0.0005, 2))
    return tmp_path
