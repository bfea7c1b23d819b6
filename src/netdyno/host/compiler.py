"""The compilers that modes which compile at run time need."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Compiler", "clang_compiler", "cxx_compiler"]

_NAMES = ("c++", "g++", "clang++")


@dataclass(frozen=True)
class Compiler:
    """``command`` as it is called; ``version`` is the first line of its ``--version``."""

    command: str
    version: str


@cache
def cxx_compiler() -> Compiler | None:
    """The one that ``CXX`` names, else the first of the usual names that runs."""
    named = os.environ.get("CXX")
    return _first_that_runs([named] if named else _NAMES)


@cache
def clang_compiler() -> Compiler | None:
    """The C compiler that ``CC`` names, if it is a clang by its name, else ``clang``.

    For frameworks that give it arguments which no other compiler understands.
    """
    named = os.environ.get("CC", "")
    return _first_that_runs([named if "clang" in Path(named).name else "clang"])


def _first_that_runs(commands: Iterable[str]) -> Compiler | None:
    for command in commands:
        words = shlex.split(command)
        if not words or shutil.which(words[0]) is None:
            continue
        try:
            done = subprocess.run(
                [*words, "--version"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        lines = done.stdout.splitlines()
        if done.returncode == 0 and lines:
            return Compiler(command, lines[0])
    return None
