"""What is read of MXNet's words on its memory, without an MXNet."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netdyno_worker.frameworks.mxnet import memory, plan


def test_the_plan_in_what_an_executor_says_of_itself() -> None:
    text = "Symbol Outputs:\n\toutput[0]=x\nTotal 9 MB allocated\nTotal 11 TempSpace requested\n"
    executor = SimpleNamespace(debug_str=lambda: text)
    assert plan.planned_bytes(executor) == 9 * 2**20


def test_an_executor_that_says_nothing_of_a_plan() -> None:
    with pytest.raises(ValueError, match="unpack"):
        plan.planned_bytes(SimpleNamespace(debug_str=lambda: "Symbol Outputs:\n"))


@pytest.fixture
def wheel(tmp_path: Path) -> Any:
    """An MXNet package with some library in it, which is not of an old compiler."""
    import _ctypes

    return SimpleNamespace(
        __file__=str(tmp_path / "mxnet" / "__init__.py"),
        libinfo=SimpleNamespace(find_lib_path=lambda: [_ctypes.__file__]),
    )


def compiler(tmp_path: Path, body: str) -> list[str]:
    path = tmp_path / "cxx"
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [str(path), "-pipe"]


def test_the_command_that_compiles(tmp_path: Path, wheel: Any) -> None:
    command = compiler(tmp_path, "open(sys.argv[-1], 'w').write(' '.join(sys.argv[1:]))")
    plan._compile(wheel, command, str(tmp_path / "out.so"))
    words = (tmp_path / "out.so").read_text().split()
    assert words[0] == "-pipe"
    assert f"-I{tmp_path / 'mxnet' / 'include'}" in words
    assert plan.SOURCE in words
    assert Path(plan.SOURCE).exists()
    assert "-D_GLIBCXX_USE_CXX11_ABI=1" in words


def test_what_a_compiler_said_first(tmp_path: Path, wheel: Any) -> None:
    said = "note: included from\\nop.h:1: error: no such file\\n1 error generated"
    command = compiler(tmp_path, f'sys.exit("{said}")')
    with pytest.raises(RuntimeError, match=r"cxx cannot compile .*: op.h:1: error: no such file"):
        plan._compile(wheel, command, str(tmp_path / "out.so"))


class Profiler:
    """Told what the tables hold each time that they are asked for."""

    def __init__(self, *levels: dict[str, float]) -> None:
        self.levels = list(levels)
        self.config: dict[str, Any] = {}

    def set_config(self, **config: Any) -> None:
        self.config = config

    def set_state(self, state: str) -> None:
        assert state == "run"

    def dumps(self, *, reset: bool, format: str) -> str:
        assert (reset, format) == (True, "json")
        level = self.levels.pop(0)
        tables = {"Device Storage": {"Memory: gpu/1": level}} if level else {}
        return json.dumps({"Memory": tables, "Unit": {"Memory": "kB"}})


def count(profiler: Profiler) -> memory._Count:
    nd = SimpleNamespace(waitall=lambda: None, zeros=lambda shape, device: None)
    device = SimpleNamespace(device_type="gpu", device_id=1)
    adapter: Any = SimpleNamespace(
        mx=SimpleNamespace(profiler=profiler, nd=nd),
        device=device,
        job=SimpleNamespace(scratch="/scratch"),
    )
    return memory._Count(adapter)


def test_the_count_is_of_the_device_and_in_bytes() -> None:
    profiler = Profiler({"Min": 0.004, "Max": 23140.0}, {})
    counted = count(profiler)
    assert profiler.config["profile_memory"] is True
    assert profiler.config["filename"].startswith("/scratch/")
    assert counted.since_last() == {"Min": 4, "Max": 23_140_000}
    assert counted.since_last() == {"Min": 0, "Max": 0}  # nothing was allocated


def test_what_is_left_is_told_by_a_change_of_its_own() -> None:
    counted = count(Profiler({"Min": 1.0, "Max": 9.0}, {"Min": 5.0, "Max": 5.0}))
    assert counted.now() == 5000
