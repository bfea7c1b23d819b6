"""Where Torch7 is, what it consists of, or exactly what it lacks. Standard library only."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional

from netdyno_worker.external import Installation

__all__ = ["Place", "child_environ", "locate", "look_for"]

PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.lua")
PROBE_SECONDS = 60
# Torch's own compiled code: a version of Torch7 is what is in these and in its Lua files.
OWN_LIBRARIES = ("libtorch.", "libTH.", "libTHNN.", "libpaths.")
# Prefixes that hold much else besides: no folder of Torch7's.
SYSTEM = ("/", "/usr", "/usr/local")


class Place(NamedTuple):
    """``interpreter`` is a LuaJIT, ``prefix`` the folder of Torch7's modules, if it is known."""

    interpreter: str
    prefix: str


class NotFoundError(Exception):
    """What is missing, in one line."""


def look_for(named: Optional[str], environ: Mapping[str, str]) -> Installation:
    """Find Torch7 and ask it what it is; never raises."""
    try:
        place = locate(named, environ)
    except NotFoundError as error:
        return Installation(problem=str(error))
    root = "" if place.prefix in SYSTEM else place.prefix
    found = Installation(program=place.interpreter, root=root)
    try:
        answer = _probe(place, environ)
        digest = _digest(answer)
        # Which BLAS it is bound to decides what it computes; its build is told by its size.
        sizes = {os.path.basename(path): str(os.path.getsize(path)) for path in answer["library"]}
    except (NotFoundError, OSError) as error:
        if named is None and not _has_torch(place.prefix):
            # Any LuaJIT may be on the path: that it is there promises nothing.
            found = Installation()
        return found._replace(problem="{} {}".format(place.interpreter, error))
    parts = {"torch7": digest, "luajit": answer["luajit"][0], **sizes}
    return found._replace(version="scm " + digest[:8], parts=parts)


def locate(named: Optional[str], environ: Mapping[str, str]) -> Place:
    """The LuaJIT to start. Raises NotFoundError."""
    path = environ.get("PATH", os.defpath)
    if named is None:
        for command in ("th", "luajit"):
            program = shutil.which(command, path=path)
            if program:
                return _place(program, path)
        raise NotFoundError("neither th nor luajit is on the path")
    if os.path.isfile(named):
        if not os.access(named, os.X_OK):
            raise NotFoundError("{} is not executable".format(named))
        return _place(named, path)
    if not os.path.isdir(named):
        raise NotFoundError("{} does not exist".format(named))
    return _in_folder(named, path)


def _in_folder(named: str, path: str) -> Place:
    # The checkout of torch/distro has its installation in a folder of this name.
    for prefix in (named, os.path.join(named, "install")):
        for command in ("luajit", "th"):
            program = shutil.which(command, path=os.path.join(prefix, "bin"))
            if program:
                return _place(program, path)
        luajit = shutil.which("luajit", path=path)
        if _has_torch(prefix) and luajit:
            return Place(luajit, prefix)
    raise NotFoundError("{} holds neither bin/luajit nor bin/th".format(named))


def child_environ(place: Place, environ: Mapping[str, str]) -> Dict[str, str]:
    """The variables of the LuaJIT process, and of no other.

    Never for a Python process: Torch7's libtorch would be found before PyTorch's.
    """
    found = dict(environ)
    if not _has_torch(place.prefix):
        return found  # the interpreter's own default path must know
    share = os.path.join(place.prefix, "share", "lua", "5.1")
    libraries = os.path.join(place.prefix, "lib")
    modules = os.path.join(libraries, "lua", "5.1")
    # An empty entry stands for the interpreter's own path.
    _prepend(found, "LUA_PATH", ";", [share + "/?.lua", share + "/?/init.lua"], ";")
    _prepend(found, "LUA_CPATH", ";", [modules + "/?.so", libraries + "/?.so"], ";")
    _prepend(found, "LD_LIBRARY_PATH", ":", [libraries], "")
    return found


def _prepend(
    environ: Dict[str, str], name: str, separator: str, entries: List[str], default: str
) -> None:
    rest = environ.get(name) or default
    environ[name] = separator.join(entries + ([rest] if rest else []))


def _place(program: str, path: str) -> Place:
    """``th`` is a script that a LuaJIT runs, with a prompt of its own: we want the LuaJIT."""
    folders = [os.path.dirname(os.path.abspath(p)) for p in (program, os.path.realpath(program))]
    if os.path.basename(program) == "th":
        beside = shutil.which("luajit", path=os.pathsep.join(folders)) or shutil.which(
            "luajit", path=path
        )
        if not beside:
            raise NotFoundError("no luajit is beside {}, nor on the path".format(program))
        program = beside
    prefixes = [os.path.dirname(folder) for folder in folders]
    return Place(program, next(filter(_has_torch, prefixes), ""))


def _has_torch(prefix: str) -> bool:
    return bool(prefix) and os.path.isdir(os.path.join(prefix, "share", "lua", "5.1", "torch"))


def _probe(place: Place, environ: Mapping[str, str]) -> Dict[str, List[str]]:
    """What probe.lua prints, by its keys. Raises NotFoundError with what it lacks."""
    try:
        done = subprocess.run(
            [place.interpreter, PROBE],
            env=child_environ(place, environ),
            cwd=os.sep,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            errors="replace",
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise NotFoundError("did not load torch in {} s".format(PROBE_SECONDS)) from None
    except OSError as error:
        raise NotFoundError("does not run ({})".format(error.strerror)) from None
    answer: Dict[str, List[str]] = {"luajit": [], "lua": [], "library": [], "lacks": []}
    for line in done.stdout.splitlines():
        key, tab, value = line.partition("\t")
        if tab and key in answer:
            answer[key].append(value)
    if answer["lacks"]:
        raise NotFoundError(answer["lacks"][0])
    if done.returncode or not answer["luajit"]:
        words = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        last = "; its last words: " + words[-1] if words else ""
        raise NotFoundError("ended with exit code {}{}".format(done.returncode, last))
    return answer


def _digest(answer: Mapping[str, List[str]]) -> str:
    """Of Torch7's code: it has no version numbers, its packages are all called ``scm``."""
    digest = hashlib.sha256()
    for path in _own_files(answer):
        with open(path, "rb") as file:
            digest.update(os.path.basename(path).encode() + b"\0" + file.read())
    return digest.hexdigest()


def _own_files(answer: Mapping[str, List[str]]) -> Iterator[str]:
    for init in answer["lua"]:  # …/torch/init.lua
        folder = os.path.dirname(init)
        yield from (os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n[-4:] == ".lua")
    names = {os.path.basename(path): path for path in answer["library"]}
    yield from (names[name] for name in sorted(names) if name.startswith(OWN_LIBRARIES))
