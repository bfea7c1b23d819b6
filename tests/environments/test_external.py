"""What is no Python package is found, refused with a reason, and never installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from netdyno.cli import main as cli_main
from netdyno.environments import find, inspect
from netdyno.environments.builds import Wish, build_all
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.settings import load_settings
from tests.worker.frameworks.torch7.conftest import install

MEND = "set NETDYNO_TORCH7 to where Torch7 is installed (docs/torch7.md says how to get it"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration, an empty path, nothing named."""
    path = tmp_path / "config.toml"
    path.write_text("")
    monkeypatch.setenv("NETDYNO_CONFIG", str(path))
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("NETDYNO_TORCH7", raising=False)
    monkeypatch.delenv("FAKE_LUAJIT", raising=False)
    return path


def test_missing(config: Path) -> None:
    environment = inspect(framework("torch7"), load_settings())
    assert (environment.kind, environment.state) == ("external", "missing")
    with pytest.raises(NetdynoError) as caught:
        find(framework("torch7"), load_settings())
    assert str(caught.value).startswith("Torch7: neither th nor luajit is on the path; " + MEND)


def test_by_configuration_and_by_variable(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(config.parent / "one")
    install(config.parent / "two")
    config.write_text('[external]\ntorch7 = "one"\n')
    environment = find(framework("torch7"), load_settings())
    assert environment.root == config.parent / "one"
    assert environment.python == Path(sys.executable)
    assert environment.framework_version
    assert environment.packages["torch7"]
    # The worker is told the same.
    assert environment.environ()["NETDYNO_TORCH7"] == str(config.parent / "one")
    monkeypatch.setenv("NETDYNO_TORCH7", str(config.parent / "two"))
    assert find(framework("torch7"), load_settings()).root == config.parent / "two"


def test_named_but_incomplete_is_broken(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETDYNO_TORCH7", str(install(config.parent / "torch")))
    monkeypatch.setenv("FAKE_LUAJIT", "lacks cannot load optim: no such module")
    environment = inspect(framework("torch7"), load_settings())
    assert environment.state == "broken"
    with pytest.raises(NetdynoError, match="luajit cannot load optim: no such module; set"):
        find(framework("torch7"), load_settings())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("external = 'x'", ["line 1", "[external]", "torch7 = "]),
        ("[external]\ntorch7 = 3", ["line 2", "external.torch7", "in quotes"]),
        ("[external]\nmxnet = '/x'", ["line 2", "unknown external framework 'mxnet'", "torch7"]),
    ],
)
def test_wrong_file(config: Path, text: str, words: list[str]) -> None:
    config.write_text(text)
    with pytest.raises(NetdynoError) as caught:
        load_settings()
    for word in words:
        assert word in str(caught.value)


def test_it_has_no_python(config: Path) -> None:
    with pytest.raises(NetdynoError, match=r"--python torch7: .*NETDYNO_TORCH7 or external.torch7"):
        load_settings([f"torch7={sys.executable}"])


def test_setup_installs_nothing(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def setup(wish: Wish | None = None) -> str:
        said.clear()
        (built,) = build_all(
            [framework("torch7")],
            load_settings(),
            wish or Wish(),
            lambda name, message: said.append(message),
        )
        assert said
        return built.error

    assert "netdyno does not install it" in setup()
    assert not (config.parent / "home" / "environments" / "torch7").exists()
    monkeypatch.setenv("NETDYNO_TORCH7", str(install(config.parent / "torch")))
    assert setup() == ""
    assert said[0].startswith("ready (scm ")
    assert "used as it is" in setup(Wish(rebuild=True))


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["netdyno", *words])
    with pytest.raises(SystemExit) as caught:
        cli_main.main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.parametrize("command", ["run", "verify"])
def test_without_it_a_run_is_one_line_and_exit_code_2(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    words = [command, "--frameworks", "torch7", "--networks", "conv_l5"]
    assert run(monkeypatch, *words) == 2
    said = capsys.readouterr().err
    assert said.startswith("netdyno: error: Torch7: neither th nor luajit is on the path; ")
    assert said.count("\n") == 1


def test_doctor(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "doctor", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    (remedy,) = [r for r in data["remedies"] if r["problem"].startswith("Torch7")]
    assert remedy["optional"]
    assert remedy["mend"].startswith(MEND)
    monkeypatch.setenv("NETDYNO_TORCH7", str(install(config.parent / "torch")))
    assert run(monkeypatch, "doctor", "--deep", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    (entry,) = [e for e in data["frameworks"] if e["framework"] == "torch7"]
    assert (entry["kind"], entry["state"]) == ("external", "ready")
    assert entry["framework_version"].startswith("scm ")
    assert not [r for r in data["remedies"] if r["problem"].startswith("Torch7")]
