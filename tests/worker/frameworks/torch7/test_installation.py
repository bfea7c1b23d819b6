"""Where Torch7 is looked for, and what is said of one that lacks something."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from netdyno_worker.external import Installation
from netdyno_worker.frameworks.torch7 import installation
from netdyno_worker.frameworks.torch7.installation import child_environ, locate, look_for
from tests.worker.frameworks.torch7.conftest import install


def found(named: Path | None = None, **environ: str) -> Installation:
    return look_for(os.fspath(named) if named else None, {**os.environ, **environ})


@pytest.mark.parametrize("named", ["", "bin/luajit", ".."])
def test_a_prefix_an_interpreter_or_the_checkout_around_it(tmp_path: Path, named: str) -> None:
    prefix = install(tmp_path / "install")  # as torch/distro calls it
    there = found(prefix / named)
    assert not there.problem
    assert Path(there.program).samefile(prefix / "bin" / "luajit")
    assert Path(there.root).samefile(prefix)
    assert there.parts["luajit"] == "LuaJIT 2.1.0-beta3"


def test_on_the_path(prefix: Path) -> None:
    bin_folder = prefix / "bin"
    assert found(PATH=str(bin_folder)).program == str(bin_folder / "luajit")
    th = bin_folder / "th"
    th.write_text("#!/bin/sh\nexit 1")
    th.chmod(0o755)
    # th is only a script around the luajit beside it, also where it is a link from elsewhere.
    (prefix / "elsewhere").mkdir()
    (prefix / "elsewhere" / "th").symlink_to(th)
    assert found(PATH=str(prefix / "elsewhere")).program == str(bin_folder / "luajit")


def test_modules_apart_from_the_interpreter(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "system").mkdir()
    (prefix / "bin" / "luajit").rename(tmp_path / "system" / "luajit")
    place = locate(str(prefix), {"PATH": str(tmp_path / "system")})
    assert place == (str(tmp_path / "system" / "luajit"), str(prefix))


def test_version_and_parts_change_with_the_code(prefix: Path) -> None:
    before = found(prefix)
    assert before.version.startswith("scm ")
    assert found(prefix) == before
    (prefix / "share" / "lua" / "5.1" / "optim" / "init.lua").write_text("return 'other'")
    assert found(prefix).version != before.version
    (prefix / "lib" / "libTH.so.0").write_bytes(b"other code")
    assert found(prefix).parts["libTH.so.0"] != before.parts["libTH.so.0"]


def test_nothing_at_all(prefix: Path) -> None:
    assert found() == Installation(problem="neither th nor luajit is on the path")


def test_a_luajit_without_torch_on_the_path_is_no_installation(prefix: Path) -> None:
    other = prefix.parent / "other"
    other.mkdir()
    (prefix / "bin" / "luajit").rename(other / "luajit")
    there = found(PATH=str(other), FAKE_LUAJIT="lacks cannot load torch: module not found")
    assert not there.program
    assert there.problem.endswith("luajit cannot load torch: module not found")


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("lacks is Lua 5.1 and not LuaJIT, whose ffi nn needs", "is Lua 5.1 and not LuaJIT"),
        ("lacks cannot load optim: no such module", "cannot load optim: no such module"),
        ("babble", "exit code 1; its last words: segmentation something"),
        ("hang", "did not load torch in 0.2 s"),
    ],
)
def test_what_is_missing(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, words: str
) -> None:
    if behaviour == "hang":
        monkeypatch.setattr(installation, "PROBE_SECONDS", 0.2)
    there = found(prefix, FAKE_LUAJIT=behaviour)
    assert words in there.problem
    assert there.program in there.problem
    assert not there.version


def test_named_but_not_there(prefix: Path) -> None:
    assert found(prefix / "nowhere").problem.endswith("nowhere does not exist")
    assert "holds neither bin/luajit nor bin/th" in found(prefix / "lib").problem
    luajit = prefix / "bin" / "luajit"
    luajit.chmod(stat.S_IRUSR)
    if not os.access(luajit, os.X_OK):
        assert "is not executable" in found(luajit).problem
    luajit.chmod(0o755)
    luajit.write_bytes(b"\x7fELF nothing")
    assert "does not run" in found(luajit).problem


def test_only_the_child_sees_its_folders(prefix: Path) -> None:
    environ = {"PATH": "", "LUA_PATH": "/mine/?.lua", "LD_LIBRARY_PATH": "/mine"}
    seen = child_environ(locate(str(prefix), environ), environ)
    share = f"{prefix}/share/lua/5.1"
    assert seen["LUA_PATH"] == f"{share}/?.lua;{share}/?/init.lua;/mine/?.lua"
    # Two semicolons stand for the interpreter's own path.
    assert seen["LUA_CPATH"] == f"{prefix}/lib/lua/5.1/?.so;{prefix}/lib/?.so;;"
    assert seen["LD_LIBRARY_PATH"] == f"{prefix}/lib:/mine"
    assert environ["LD_LIBRARY_PATH"] == "/mine"
