"""The LuaJIT process: lines in, lines out, and what to say when it has gone."""

from __future__ import annotations

import os
import signal
import subprocess
import weakref
from typing import IO, Any, Mapping, Sequence

__all__ = ["Child", "Torch7Error"]

TAIL_BYTES = 2000
END_SECONDS = 10


class Torch7Error(RuntimeError):
    """What Torch7 said, or how its process ended."""


class Child:
    """Runs ``command`` with the path of its answers as last word, in ``folder``.

    What it prints goes to ``output.txt`` there. It ends when this object does.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], folder: str) -> None:
        reading, writing = os.pipe()
        self._output = os.path.join(folder, "output.txt")
        try:
            with open(self._output, "wb") as output:
                self._process = subprocess.Popen(
                    list(command) + ["/dev/fd/{}".format(writing)],
                    bufsize=0,
                    env=dict(environ),
                    cwd=folder,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(writing,),
                )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._answers = os.fdopen(reading, "r", encoding="utf-8", errors="replace")
        self.close = weakref.finalize(self, _end, self._process, self._answers)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def tell(self, command: str) -> None:
        """Start ``command`` and return at once. Raises Torch7Error if the process has gone."""
        assert self._process.stdin
        try:
            self._process.stdin.write(command.encode() + b"\n")
        except BrokenPipeError:
            raise self._gone() from None

    def ask(self, command: str) -> str:
        """The answer to ``command``, when all that was told before is done.

        Raises Torch7Error with what went wrong in it or before it.
        """
        self.tell(command)
        line = self._answers.readline()
        status, _, words = line.rstrip("\n").partition(" ")
        if status == "ok":
            return words
        if status == "error":
            raise Torch7Error(words)
        raise self._gone()

    def _gone(self) -> Torch7Error:
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return Torch7Error("LuaJIT answers no more")
        how = "ended with exit code {}".format(code)
        if code < 0:
            how = "was killed by signal {} ({})".format(-code, _signal_name(-code))
        return Torch7Error("LuaJIT {}{}".format(how, self._last_words()))

    def _last_words(self) -> str:
        with open(self._output, "rb") as file:
            file.seek(max(0, os.path.getsize(self._output) - TAIL_BYTES))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
        # Lua's error comes first and its traceback, indented, after it.
        said = [line.strip() for line in lines if line.strip() and not line.startswith("\t")]
        said = [line for line in said if line != "stack traceback:"]
        return "; its last words: " + said[-1] if said else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _end(process: Any, answers: IO[str]) -> None:
    process.kill()
    process.stdin.close()
    process.wait()
    answers.close()
