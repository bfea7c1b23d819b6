"""`netdyno doctor` tells the states apart and names what mends each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from netdyno.cli import doctor
from netdyno.environments.marker import Marker, write_marker
from netdyno.environments.recipe import recipe
from netdyno.frameworks import framework
from netdyno.host.compiler import Compiler


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "cxx_compiler", lambda: Compiler("c++", "c++ 12"))
    monkeypatch.setattr(doctor, "has_nvidia_gpu", lambda: False)
    monkeypatch.setattr(doctor, "suitable_accelerator", lambda spec: ("cpu", ""))
    return tmp_path


def environment(home: Path, name: str, *, stale: bool = False) -> Path:
    """A folder that passes the cheap checks as the environment of ``name``."""
    version = "{}.{}.{}".format(*sys.version_info)
    digest = recipe(framework(name), "cpu", version.rpartition(".")[0]).digest
    folder = home / "environments" / name
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    marker = Marker(name, "9.9", "cpu", version, "old" if stale else digest, {}, "2026-01-01")
    write_marker(folder, marker)
    return folder


def output(*words: str) -> str:
    result = CliRunner().invoke(doctor.command, list(words), standalone_mode=False)
    if result.exception:
        raise result.exception
    assert not result.return_value
    return result.stdout


def report(*words: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Entries by framework, and remedies: problem -> what mends it."""
    data = json.loads(output("--json", *words))
    assert data["schema_version"] == 1
    return (
        {entry["framework"]: entry for entry in data["frameworks"]},
        {entry["problem"]: entry["mend"] for entry in data["remedies"]},
    )


def test_each_state_is_told_apart(home: Path) -> None:
    environment(home, "pytorch")
    environment(home, "tensorflow", stale=True)
    (environment(home, "jax") / "environment.json").unlink()
    entries, remedies = report()
    states = {name: entry["state"] for name, entry in entries.items()}
    assert states["pytorch"] == "ready"
    assert entries["pytorch"]["framework_version"] == "9.9"
    assert entries["pytorch"]["devices"] == ["cpu"]
    assert states["tensorflow"] == "stale"
    assert states["jax"] == "interrupted"
    assert states["mxnet"] == "missing"
    assert (states["numpy"], entries["numpy"]["kind"]) == ("ready", "controller")
    wanted = {f"netdyno setup {name}" for name in ("tensorflow", "jax", "mxnet")}
    assert wanted <= set(remedies.values())
    assert "netdyno setup pytorch" not in remedies.values()


def test_what_is_measured_on_request_only_is_optional(home: Path) -> None:
    entries, remedies = report()
    assert entries["caffe"]["state"] == "missing"
    lines = output().splitlines()
    (mend,) = [line for line in lines if "netdyno setup caffe" in line]
    assert mend.startswith("optional: Caffe")
    assert not any(line.startswith("optional: MXNet") for line in lines)
    (home / "environments" / "caffe").mkdir(parents=True)
    entries, remedies = report()
    assert entries["caffe"]["state"] == "interrupted"
    assert "netdyno setup caffe" in remedies.values()


def test_broken_interpreter(home: Path) -> None:
    python = environment(home, "pytorch") / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent")
    entries, _ = report()
    assert entries["pytorch"]["state"] == "broken"


def test_deep_imports_and_reports_the_last_line(home: Path) -> None:
    environment(home, "pytorch")  # holds no torch
    entries, remedies = report("--deep")
    assert entries["pytorch"]["state"] == "broken"
    assert entries["numpy"]["framework_version"]
    (problem,) = [text for text in remedies if text.startswith("PyTorch")]
    assert "No module named 'torch'" in problem


def test_existing_interpreter(home: Path) -> None:
    entries, _ = report("--python", f"mxnet={sys.executable}")
    assert (entries["mxnet"]["kind"], entries["mxnet"]["state"]) == ("existing", "ready")
    entries, remedies = report("--python", "mxnet=/bin/echo")
    assert entries["mxnet"]["state"] == "broken"
    assert any("--python mxnet=PATH" in mend for mend in remedies.values())


def test_missing_compiler_and_unused_gpu(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(home, "pytorch")
    monkeypatch.setattr(doctor, "cxx_compiler", lambda: None)
    monkeypatch.setattr(doctor, "suitable_accelerator", lambda spec: ("cuda", ""))
    entries, remedies = report()
    assert entries["pytorch"]["modes"] == ["eager"]
    assert "PyTorch: no C++ compiler, so no mode compile, graphs" in remedies
    assert "netdyno setup pytorch --accelerator cuda" in remedies.values()


def test_missing_clang(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(home, "tinygrad")
    monkeypatch.setattr(doctor, "clang_compiler", lambda: None)
    entries, remedies = report()
    assert entries["tinygrad"]["modes"] == []
    assert remedies["tinygrad: no clang, so no mode jit on the CPU"].startswith("install clang")
    monkeypatch.setattr(doctor, "clang_compiler", lambda: Compiler("clang", "clang 14"))
    entries, remedies = report()
    assert entries["tinygrad"]["modes"] == ["jit"]
    assert not any("clang" in problem for problem in remedies)


def test_table(home: Path) -> None:
    environment(home, "pytorch")
    text = output()
    for words in ("PyTorch", "ready", "9.9", "missing", "usable of", "C++ compiler", "GB free"):
        assert words in text
    assert "MXNet: the environment has not been made -> netdyno setup mxnet" in text
