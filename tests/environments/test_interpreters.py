"""The search for a Python: order, candidates that do not run, and what the error tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netdyno.environments import interpreters
from netdyno.environments.interpreters import find_interpreter, running_version
from netdyno.environments.processes import Outcome, Processes
from netdyno.errors import NetdynoError


class NoDownload(Processes):
    """uv that cannot reach its server; remembers that it was asked."""

    asked = 0

    def run(self, *args: object, **kwargs: object) -> Outcome:  # type: ignore[override]
        self.asked += 1
        return Outcome(2, ("error: Failed to install cpython", "  cause: dns error"))


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing installed: an empty PATH and pyenv, no uv, this Python of no wanted version."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(interpreters, "uv_executable", lambda: None)


def python(path: Path, version: str, missing: tuple[str, ...] = ()) -> Path:
    """A script that answers the probe as a Python of ``version`` would."""
    answer = json.dumps([[int(n) for n in version.split(".")], "CPython", False, missing])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return path


def broken_shim(path: Path) -> None:
    path.write_text("#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n")
    path.chmod(0o755)


def test_path_comes_before_pyenv(tmp_path: Path) -> None:
    on_path = python(tmp_path / "bin/python3.77", "3.77.1")
    python(tmp_path / "pyenv/versions/3.77.9/bin/python3.77", "3.77.9")
    assert find_interpreter(["3.77"], Processes()).path == on_path


def test_failing_shim_is_skipped_for_the_newest_of_pyenv(tmp_path: Path) -> None:
    broken_shim(tmp_path / "bin/python3.77")
    python(tmp_path / "pyenv/versions/3.77.9/bin/python3.77", "3.77.9")
    python(tmp_path / "pyenv/versions/3.77.10/bin/python3.77", "3.77.10")
    python(tmp_path / "pyenv/versions/3.77.11-dev/bin/python3.77", "3.77.11")
    assert find_interpreter(["3.77"], Processes()).version == "3.77.10"


def test_installed_less_wanted_is_preferred_to_a_download(tmp_path: Path) -> None:
    python(tmp_path / "bin/python3.76", "3.76.0")
    processes = NoDownload()
    assert find_interpreter(["3.77", "3.76"], processes).version == "3.76.0"
    assert processes.asked == 0


def test_running_interpreter_is_first(tmp_path: Path) -> None:
    import sys

    here = "{}.{}".format(*sys.version_info)
    python(tmp_path / f"bin/python{here}", f"{here}.99")
    assert find_interpreter([here], Processes()).path == Path(sys.executable)


def test_error_tells_all_that_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python(tmp_path / "bin/python3.77", "3.77.1", missing=("ensurepip",))
    python(tmp_path / "bin/python3.76", "3.75.1")
    broken_shim(tmp_path / "bin/python3.74")
    uv = tmp_path / "uv"
    broken_shim(uv)
    monkeypatch.setattr(interpreters, "uv_executable", lambda: uv)
    said: list[str] = []
    with pytest.raises(NetdynoError) as caught:
        find_interpreter(["3.77", "3.76", "3.74"], NoDownload(), said.append)
    text = str(caught.value)
    assert "no Python 3.77 or 3.76 or 3.74 was found" in text
    assert "lacks the standard module ensurepip" in text
    assert "is Python 3.75.1" in text
    assert "pyenv: command not found" in text
    assert "could not download Python 3.77: error: Failed to install cpython (cause: dns" in text
    assert "--python FRAMEWORK=PATH" in text
    assert said == ["no Python 3.77 here: downloading one with uv"]


def test_without_uv_it_is_said() -> None:
    with pytest.raises(NetdynoError, match="no Python can be downloaded"):
        find_interpreter(["3.77"], Processes())


def test_running_version(tmp_path: Path) -> None:
    import sys

    assert running_version(Path(sys.executable)) == "{}.{}.{}".format(*sys.version_info)
    assert running_version(tmp_path / "nothing") is None
    assert running_version(Path("/bin/echo")) is None
