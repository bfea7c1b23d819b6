"""The C++ compiler that modes which compile at run time need."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

__all__ = ["Compiler", "cxx_compiler"]

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
    for command in [named] if named else _NAMES:
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
