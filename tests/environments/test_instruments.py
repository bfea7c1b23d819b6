"""memray in a folder of its own for each Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from netdyno.environments import Environment
from netdyno.environments.instruments import MEMRAY, find_or_install
from netdyno.environments.processes import Outcome, Processes
from netdyno.errors import NetdynoError
from netdyno.settings import Settings


class Pip(Processes):
    """Stands for pip: makes the folder, or fails as told."""

    def __init__(self, fails: str = "") -> None:
        super().__init__()
        self.fails = fails
        self.calls: list[list[str]] = []

    def run(self, argv: Sequence[str | Path], environ: Mapping[str, str], **rest: Any) -> Outcome:
        words = [str(word) for word in argv]
        self.calls.append(words)
        if self.fails:
            return Outcome(1, (self.fails,))
        target = Path(words[words.index("--target") + 1])
        target.mkdir()
        (target / "memray").touch()
        return Outcome(0, ())


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "home")


def environment(version: str | None = "3.9.18") -> Environment:
    return Environment("caffe", Path("/p"), "existing", "cpu", "ready", python_version=version)


def test_installed_once_for_a_python(settings: Settings) -> None:
    pip = Pip()
    folder = find_or_install(environment(), settings, pip)
    assert folder == settings.home / "instruments" / f"memray-{MEMRAY}-cp39"
    assert (folder / "memray").exists()
    assert find_or_install(environment("3.9.2"), settings, pip) == folder
    assert len(pip.calls) == 1
    assert pip.calls[0][pip.calls[0].index("--python-version") + 1] == "3.9"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_another_python_has_its_own(settings: Settings) -> None:
    pip = Pip()
    first = find_or_install(environment("3.9.18"), settings, pip)
    assert find_or_install(environment("3.11.7"), settings, pip) != first


def test_no_network(settings: Settings) -> None:
    with pytest.raises(NetdynoError, match=r"for Python 3\.9: the package index"):
        find_or_install(environment(), settings, Pip("Could not fetch URL"))
    assert list((settings.home / "instruments").iterdir()) == []


def test_a_python_that_does_not_tell(settings: Settings) -> None:
    with pytest.raises(NetdynoError, match="does not tell its version"):
        find_or_install(environment(None), settings, Pip())


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(NetdynoError, match="cannot write to"):
        find_or_install(environment(), Settings(tmp_path / "home"), Pip())
