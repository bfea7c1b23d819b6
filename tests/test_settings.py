"""Where settings come from, and what is said of wrong ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from netdyno.errors import NetdynoError
from netdyno.settings import load_settings


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    path.write_text("")
    monkeypatch.setenv("NETDYNO_CONFIG", str(path))
    monkeypatch.delenv("NETDYNO_HOME", raising=False)
    return path


def test_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NETDYNO_CONFIG", "NETDYNO_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings = load_settings()
    assert settings.home.is_absolute()
    assert settings.home.name == "netdyno"
    assert not settings.python


def test_variable_beats_file_beats_default(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('home = "sub/../data"\n')
    assert load_settings().home == config.parent / "data"
    monkeypatch.setenv("NETDYNO_HOME", "/elsewhere")
    assert load_settings().home == Path("/elsewhere")


@pytest.mark.usefixtures("config")
def test_the_lock_is_one_for_all_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NETDYNO_LOCK", f"{tmp_path}/sub/../own.lock")
    assert load_settings().lock == tmp_path / "own.lock"
    monkeypatch.delenv("NETDYNO_LOCK")
    found = load_settings().lock
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # as batch systems give each job its own
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path))
    assert load_settings().lock == found
    assert found.name == "netdyno.lock"


def test_option_beats_file_and_links_are_kept(config: Path) -> None:
    link = config.parent / "python"
    link.symlink_to(sys.executable)
    config.write_text(f'[python]\nmxnet = "{sys.executable}"\njax = "{sys.executable}"\n')
    settings = load_settings([f"mxnet={link}"])
    assert settings.python["mxnet"] == link
    assert settings.python["jax"] == Path(sys.executable)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("home = \n", ["config.toml", "not valid TOML", "line 1"]),
        ('\nhoem = "/x"', ["line 2", "unknown key 'hoem'", "home"]),
        ("home = 3", ["line 1", 'home = "/path"']),
        ("python = 'x'", ["line 1", "[python]"]),
        ("[python]\nmxnet = 3", ["line 2", "python.mxnet", "in quotes"]),
        ("[python]\nmxnte = '/bin/sh'", ["line 2", "unknown framework 'mxnte'", "mxnet"]),
        ("[python]\nmxnet = '/nonexistent'", ["line 2", "/nonexistent does not exist"]),
        ("[python]\nmxnet = '/bin'", ["line 2", "is a folder", "/bin/bin/python"]),
        ("[python]\nmxnet = 'config.toml'", ["line 2", "is not executable"]),
    ],
)
def test_wrong_file(config: Path, text: str, words: list[str]) -> None:
    config.write_text(text)
    with pytest.raises(NetdynoError) as caught:
        load_settings()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("word", ["mxnet", "=x", "mxnet=", "nope=/bin/sh", "mxnet=/nonexistent"])
def test_wrong_option(config: Path, word: str) -> None:
    with pytest.raises(NetdynoError, match="--python"):
        load_settings([word])


def test_named_file_must_exist(config: Path) -> None:
    config.unlink()
    with pytest.raises(NetdynoError, match="NETDYNO_CONFIG"):
        load_settings()


def test_file_that_is_not_text(config: Path) -> None:
    config.write_bytes(b"\xff\xfe")
    with pytest.raises(NetdynoError, match="cannot read"):
        load_settings()
