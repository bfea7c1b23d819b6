"""The command line of `netdyno setup`; what it does is tested in tests/environments."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from netdyno.cli import main as cli_main
from netdyno.cli import setup
from netdyno.environments import Environment
from netdyno.environments.builds import Built, Wish
from netdyno.errors import NetdynoError
from netdyno.frameworks import FrameworkSpec
from netdyno.settings import Settings


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Wish]]:
    """Calls of ``build_all``, which here makes nothing; JAX fails, the others are ready."""
    calls: list[tuple[list[str], Wish]] = []

    def build_all(
        specs: Sequence[FrameworkSpec], settings: Settings, wish: Wish, report: object
    ) -> list[Built]:
        calls.append(([spec.name for spec in specs], wish))
        built = []
        for spec in specs:
            failed = spec.name == "jax"
            state = "interrupted" if failed else "ready"
            environment = Environment(spec.name, tmp_path / "python", "managed", "cpu", state)
            error = "no such wheel" if failed else ""
            built.append(
                Built(environment, "failed" if failed else "made", 1.5, None, error, tmp_path)
            )
        return built

    monkeypatch.setattr(setup, "build_all", build_all)
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path))
    return calls


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(setup.command, list(words), standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.stdout


def test_default_is_what_is_measured_by_default(asked: list[tuple[list[str], Wish]]) -> None:
    code, out = run()
    assert code == 1  # JAX failed
    assert out == ""
    assert {"mxnet", "tensorflow", "pytorch", "jax"} <= set(asked[0][0])
    assert not {"null", "numpy"} & set(asked[0][0])


def test_options_and_json(asked: list[tuple[list[str], Wish]]) -> None:
    words = "mxnet mxnet pytorch --accelerator cpu --rebuild --jobs 3 --update-lock --json"
    code, out = run(*words.split())
    assert code == 0
    assert asked == [(["mxnet", "pytorch"], Wish("cpu", True, True, 3))]
    data = json.loads(out)
    assert data["schema_version"] == 1
    first = data["environments"][0]
    assert (first["framework"], first["state"], first["action"]) == ("mxnet", "ready", "made")
    assert (first["seconds"], first["error"]) == (1.5, None)


def test_wrong_names(asked: list[tuple[list[str], Wish]]) -> None:
    with pytest.raises(NetdynoError, match="did you mean mxnet"):
        run("mxnte")
    with pytest.raises(NetdynoError, match="--python"):
        run("--python", "mxnet")
    assert asked == []


def test_unwritable_home_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(sys, "argv", ["netdyno", "setup", "numpy"])
    with pytest.raises(SystemExit) as caught:
        cli_main.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("netdyno: error: cannot write to ")


def test_numpy_needs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path))
    code, out = run("numpy", "--json")
    assert code == 0
    assert json.loads(out)["environments"][0]["action"] == "checked"
