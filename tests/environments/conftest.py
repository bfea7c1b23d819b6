"""A framework that needs no network, and a stand-in for pip and venv."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest

from netdyno.environments import accelerators, environment, managed
from netdyno.environments.interpreters import Interpreter
from netdyno.environments.processes import Outcome, Processes
from netdyno.frameworks import FrameworkSpec
from netdyno.settings import Settings

HERE = "{}.{}".format(*sys.version_info)
FULL = "{}.{}.{}".format(*sys.version_info)


class FakeProcesses(Processes):
    """Answers for `-m venv`, pip, uv and the import check, and remembers what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.constraints: list[str] = []
        self.without_dependencies = False
        self.install = Outcome(0)
        self.uv = Outcome(0)
        self.imports: list[Outcome] = []
        self.packages = {"toy": "1.0+cpu", "Helper": "2.0", "pip": "23.0"}

    def run(
        self,
        argv: Sequence[str | Path],
        environ: Mapping[str, str],
        *,
        log: IO[str] | None = None,
        on_line: Callable[[str], None] | None = None,
        timeout_seconds: float | None = None,
    ) -> Outcome:
        words = [str(word) for word in argv]
        if words[1:3] == ["-m", "venv"]:
            self.calls.append("venv")
            python = Path(words[3]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.symlink_to(Path(sys.executable).resolve())
            return Outcome(0)
        if words[1:4] == ["-m", "pip", "install"]:
            self.calls.append("pip install")
            lines = Path(words[words.index("--constraint") + 1]).read_text().split()
            self.constraints = lines
            self.without_dependencies = "--no-deps" in words
            return self.install
        if words[1:4] == ["-m", "pip", "list"]:
            entries = [{"name": n, "version": v} for n, v in self.packages.items()]
            return Outcome(0, (json.dumps(entries),))
        if words[1:4] == ["-m", "pip", "uninstall"]:
            return Outcome(0)
        if words[1:3] == ["pip", "install"]:
            self.calls.append("uv pip install")
            return self.uv
        self.calls.append("import")
        good = Outcome(0, ("noise", "netdyno-version " + json.dumps(["1.0", FULL])))
        return self.imports.pop(0) if self.imports else good


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def spec(tmp_path: Path) -> FrameworkSpec:
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "lock-cpu.txt").write_text(f"# Made with Python {HERE} by hand\nhelper==2.0\n")
    return FrameworkSpec(
        name="toy",
        folder=folder,
        title="Toy",
        import_name="toy",
        python_versions=(HERE,),
        devices=("cpu", "cuda"),
        precisions=("fp32",),
        startup_seconds=0.1,
        modes={},
        requirements={"cpu": ("toy==1.0",), "cuda": ("toy[cuda]==1.0",)},
        cpu_forbids=("nvidia-toy",),
        cpu_fallback="uv-torch-backend",
    )


@pytest.fixture(autouse=True)
def quick_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, this Python, enough disk: whatever the machine that runs the tests has."""
    monkeypatch.setattr(accelerators, "has_nvidia_gpu", lambda: False)
    monkeypatch.setattr(environment, "has_nvidia_gpu", lambda: False)
    monkeypatch.setattr(
        managed, "find_interpreter", lambda *_: Interpreter(Path(sys.executable), FULL)
    )
    monkeypatch.setattr(managed, "_FREE_BYTES_NEEDED", {"cpu": 0, "cuda": 0})
