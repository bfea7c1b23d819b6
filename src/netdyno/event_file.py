"""The file of events that a worker writes, read while it grows: see docs/event-protocol.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["EventReader", "Listener", "append", "as_line"]

Listener = Callable[[dict[str, Any]], None]


class EventReader:
    """Reads whole lines as they come. Lines that are no JSON object are passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin = self._offset = self._size()
        self.failure: dict[str, Any] | None = None
        # Names of the events that came.
        self.seen: set[str] = set()

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def grown(self) -> bool:
        """Whether anything was written since this object was made."""
        return self._size() > self._begin

    def text(self) -> str:
        """All that is there; it may end within a line."""
        return self._path.read_text("utf-8", errors="replace") if self._path.exists() else ""

    def drain(self, listener: Listener = lambda event: None) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self._offset += end
        for line in data[:end].splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                self.seen.add(str(event.get("event")))
                if event.get("event") == "failed":
                    self.failure = event
                listener(event)


def as_line(event: Mapping[str, Any]) -> str:
    return json.dumps(event, separators=(",", ":")) + "\n"


def append(events: Path, text: str) -> None:
    """To what a worker that has ended wrote, even if it died within a line."""
    with events.open("a+b") as file:
        file.seek(max(0, file.tell() - 1))
        cut_off = file.read(1) not in (b"\n", b"")
        file.write((b"\n" if cut_off else b"") + text.encode())
