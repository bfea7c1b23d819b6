"""This machine's paths do not leave it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from netdyno.frameworks import WORKER_ROOT
from netdyno.redact import Redactor


@pytest.fixture(autouse=True)
def somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody's home, with the working folder in it."""
    home = tmp_path / "home" / "quixote"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return home


def test_known_folders_are_named_by_what_they_are(somebody: Path) -> None:
    redact = Redactor({somebody / ".cache" / "netdyno": "<netdyno-home>"})
    assert redact(f"no {somebody}/.cache/netdyno/environments") == "no <netdyno-home>/environments"
    assert redact(f"in {somebody}/work/runs/1") == "in ./runs/1"
    assert redact(f'File "{somebody}/other.py", line 3') == 'File "~/other.py", line 3'
    assert redact(f"{tempfile.gettempdir()}/netdyno-x/job.json") == "<tmp>/netdyno-x/job.json"
    assert redact(f"{WORKER_ROOT}/trial.py") == "<netdyno_worker>/trial.py"


def test_the_longest_wins_whatever_the_order(somebody: Path) -> None:
    inner, outer = somebody / "a" / "b", somebody / "a"
    for folders in ({inner: "<in>", outer: "<out>"}, {outer: "<out>", inner: "<in>"}):
        assert Redactor(folders)(f"{inner}/x {outer}/y {somebody}/z") == "<in>/x <out>/y ~/z"


def test_every_occurrence(somebody: Path) -> None:
    assert Redactor({})(f"{somebody}:{somebody}") == "~:~"


def test_what_is_no_path_stays() -> None:
    text = "RuntimeError: 1/2 of ./x and /usr/lib/libm.so.6, ~/x"
    assert Redactor({})(text) == text


def test_a_root_folder_ruins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("HOME", "/")
    assert Redactor({Path("/"): "<root>"})("/usr/bin/env") == "/usr/bin/env"


def test_a_longer_name_that_begins_alike_is_another_folder(somebody: Path) -> None:
    other = f"{somebody}-de-la-mancha/x"
    assert Redactor({})(other) == other


def test_a_home_behind_a_link_is_known_by_both_names(
    tmp_path: Path, somebody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(somebody)
    monkeypatch.setenv("HOME", str(link))
    assert Redactor({})(f"{link}/x {somebody}/y") == "~/x ~/y"
