"""Gates of a worker that is started ahead of its turn: see docs/event-protocol.md."""

from __future__ import annotations

import json
import os
from typing import TextIO

from netdyno_worker import clock
from netdyno_worker.protocol import Events


class Dismissed(BaseException):
    """The trial is not wanted any more."""


class Turns:
    """The controller's lines: the first gives the turn, the second says that nobody prepares.

    Who waits sleeps in ``read``, and takes no processor time from the trial that is timed.
    """

    def __init__(self, lines: TextIO, events: Events) -> None:
        self._lines = lines
        self._events = events

    @classmethod
    def on_stdin(cls, events: Events) -> "Turns":
        """Take standard input away from the framework, which finds nothing there in any trial."""
        lines = os.fdopen(os.dup(0), encoding="utf-8")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        return cls(lines, events)

    def wait_for_turn(self) -> None:
        """Until this worker is the one to be measured: the device is its own then."""
        self._events.emit("ready", at=round(clock.now(), 6))
        self._events.move(json.loads(self._line()))

    def wait_for_quiet(self) -> None:
        """Until no other worker prepares."""
        self._events.emit("awaiting_quiet", at=round(clock.now(), 6))
        self._line()

    def _line(self) -> str:
        line = self._lines.readline()
        if not line:
            raise Dismissed
        return line
