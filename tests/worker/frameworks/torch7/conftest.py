"""An installation of Torch7 that is not one: see tests/fake_luajit.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FAKE = Path(__file__).parents[3] / "fake_luajit.py"


def install(prefix: Path) -> Path:
    """A prefix as torch/distro leaves one behind."""
    luajit = prefix / "bin" / "luajit"
    luajit.parent.mkdir(parents=True)
    luajit.write_text(f"#!{sys.executable} -IS\n" + FAKE.read_text())
    luajit.chmod(0o755)
    for name in ("torch", "nn", "optim"):
        folder = prefix / "share" / "lua" / "5.1" / name
        folder.mkdir(parents=True)
        (folder / "init.lua").write_text(f"return '{name}'")
    (prefix / "lib").mkdir()
    (prefix / "lib" / "libTH.so.0").write_bytes(b"code")
    return prefix


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation that works; nothing else is on the path."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("NETDYNO_TORCH7", raising=False)
    monkeypatch.delenv("FAKE_LUAJIT", raising=False)
    return install(tmp_path / "torch")
