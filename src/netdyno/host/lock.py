"""One measuring netdyno on a machine at a time: two would measure each other.

The kernel's own lock (flock) on one file for all users of the machine: it ends with the process
that holds it, however that ends. Who holds it stands in the file, for the message only; whether it
is held is what the kernel says.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from filelock import lock_descriptor
from psutil import Error, Process

from netdyno.errors import NetdynoError
from netdyno.redact import printable

__all__ = ["Held", "measuring"]

# Seconds between two looks at a lock that another holds: seldom, since that one measures.
LOOK_SECONDS = 1.0
HOLDER_BYTES = 1000


@dataclass(frozen=True)
class Held:
    """The lock, held; ``file`` is its descriptor."""

    file: int

    def tell(self, folder: str) -> None:
        """Write who holds it, for those who wait: the folder's name, never where it is."""
        process = Process()
        holder = {"pid": process.pid, "created": process.create_time(), "folder": folder}
        data = json.dumps(holder).encode()
        # A full disk must not end a run: the message then names nobody.
        with contextlib.suppress(OSError):
            os.ftruncate(self.file, 0)
            os.pwrite(self.file, data, 0)


@contextmanager
def measuring(path: Path, *, wait: bool, tell: Callable[[str], None]) -> Iterator[Held]:
    """Hold the machine's lock, the file ``path``; wait for it, having said so through ``tell``.

    Children never inherit it.

    Raises:
        NetdynoError: the file cannot be used, or another holds it and ``wait`` is false.
    """
    file = _open(path)
    try:
        _take(file, path, wait, tell)
        held = Held(file)
        held.tell("")
        try:
            yield held
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(file, 0)
    finally:
        os.close(file)  # which releases it


def _take(file: int, path: Path, wait: bool, tell: Callable[[str], None]) -> None:
    try:
        if lock_descriptor(file, blocking=False):
            return
        holder = f"another netdyno{_holder(file)} is at work on this machine"
        if not wait:
            raise NetdynoError(f"{holder}; wait for it to end, or leave out --no-wait")
        tell(f"{holder}; waiting for it to end (Ctrl-C to give up)")
        lock_descriptor(file, poll_interval=LOOK_SECONDS)
    except OSError as error:
        raise _unusable(path, error) from None


def _open(path: Path) -> int:
    """The descriptor of a file that every user may open; made if it is not there.

    Opened before it is made: Linux (fs.protected_regular) refuses O_CREAT for another user's file
    in a folder like /tmp. No link is followed there, where anybody can make one.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        try:
            file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:  # another one made it meanwhile
            return os.open(path, flags)
        os.fchmod(file, 0o666)  # whatever the umask is
        return file
    except OSError as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: OSError) -> NetdynoError:
    return NetdynoError(
        f"cannot use {path}, which keeps two runs from measuring at once: {error.strerror};"
        " name another file in NETDYNO_LOCK, the same for all users of this machine"
    )


def _holder(file: int) -> str:
    """`` (pid 123, started 12:03, TIME)``; empty unless that process is there.

    A holder that was killed leaves its words behind; the next one writes its own a moment after
    it has the lock. So they are believed only if a process of that number began at that time.
    """
    try:
        told = json.loads(os.pread(file, HOLDER_BYTES, 0))
        process = Process(int(told["pid"]))
        if abs(process.create_time() - float(told["created"])) > 1:
            return ""
        folder = printable(str(told["folder"]))[:100]
    except (OSError, ValueError, TypeError, KeyError, OverflowError, Error):
        return ""
    started = datetime.fromtimestamp(process.create_time()).strftime("%H:%M")
    where = f", {folder}" if folder else ""
    return f" (pid {process.pid}, started {started}{where})"
