"""The entry point: finding the command, help, errors and exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from netdyno import __version__
from netdyno.cli import main as cli_main
from netdyno.errors import NetdynoError


def called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``netdyno WORDS``."""
    monkeypatch.setattr(sys, "argv", ["netdyno", *words])
    with pytest.raises(SystemExit) as caught:
        cli_main.main()
    out, err = capsys.readouterr()
    assert isinstance(caught.value.code, int)
    return caught.value.code, out, err


@pytest.mark.parametrize(("word", "near"), [("rnu", "run"), ("netwroks", "networks")])
def test_unknown_command_with_a_near_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, near: str
) -> None:
    code, out, err = called(monkeypatch, capsys, word)
    assert (code, out) == (2, "")
    assert f"no such command '{word}'; did you mean '{near}'?" in err


def test_unknown_command_without_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = called(monkeypatch, capsys, "xyzzy")
    assert code == 2
    assert "no such command 'xyzzy'" in err
    assert "did you mean" not in err


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_names_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    code, out, err = called(monkeypatch, capsys, word)
    assert (code, err) == (0, "")
    for name in cli_main.COMMANDS:
        assert f"  {name} " in out


@pytest.mark.parametrize("name", cli_main.COMMANDS)
def test_help_of_each_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, out, _ = called(monkeypatch, capsys, name, "--help")
    assert code == 0
    assert f"Usage: netdyno {name}" in out


def test_commands_are_the_modules_that_define_one() -> None:
    folder = Path(cli_main.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "\ndef command(" in path.read_text()}
    assert modules == set(cli_main.COMMANDS)


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(monkeypatch, capsys, "--version")[:2] == (0, f"netdyno, version {__version__}\n")


def test_no_command_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(monkeypatch, capsys)[0] == 2


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (NetdynoError("the cause; the way out"), 2, "netdyno: error: the cause; the way out\n"),
        (KeyboardInterrupt(), 130, "netdyno: interrupted\n"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: BaseException,
    code: int,
    words: str,
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise raised

    monkeypatch.setattr(cli_main.cli, "main", fail)
    found, out, err = called(monkeypatch, capsys, "run")
    assert (found, out) == (code, "")
    assert err.strip() == words.strip()


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_imports_nothing_heavy() -> None:
    done = python(
        "import sys\n"
        "from netdyno.cli.main import main\n"
        "sys.argv = ['netdyno', '--help']\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = {'numpy', 'rich', 'psutil', 'uv', 'platformdirs'} & sys.modules.keys()\n"
        "    assert not heavy, heavy\n"
    )
    assert done.returncode == 0, done.stderr
    assert "Commands" in done.stdout


def test_no_command_imports_a_framework() -> None:
    """Not even if it could: asking for one is an error here."""
    done = python(
        "import importlib, sys\n"
        "from netdyno.cli.main import COMMANDS\n"
        "banned = 'torch', 'tensorflow', 'mxnet', 'jax'\n"
        "sys.modules.update(dict.fromkeys(banned))\n"
        "for name in COMMANDS:\n"
        "    importlib.import_module('netdyno.cli.' + name)\n"
        "assert not any('netdyno_worker.frameworks' in name for name in sys.modules)\n"
    )
    assert done.returncode == 0, done.stderr
