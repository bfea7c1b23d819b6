"""A run that is under way: its folder, its environments, the machine's lock, and its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import FrameType

from netdyno import environments
from netdyno.cli.terminal import progress_console
from netdyno.frameworks import framework
from netdyno.host.facts import host_facts
from netdyno.host.lock import measuring
from netdyno.plan.cell import Cell
from netdyno.plan.request import Request
from netdyno.redact import Redactor
from netdyno.settings import Settings
from netdyno.store.run import Run
from netdyno.store.run_folder import RunFolder, refuse_existing

__all__ = ["Bench", "Ended", "bench", "redactor", "say"]


@dataclass(frozen=True)
class Ended:
    """The run folder, and its ``status``: see docs/results.md."""

    folder: Path
    status: str


@dataclass
class Bench:
    """A run that is under way: alone on this machine, its cells verified.

    ``jobs``: how many cells to verify or compile at once; None for what suits the machine.
    ``refused``: why cells must not be measured, by key. ``status``: how the run ended, so far.
    """

    settings: Settings
    environments: Mapping[str, environments.Environment]
    redact: Redactor
    folder: RunFolder
    jobs: int | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    status: str = "interrupted"


@contextmanager
def bench(
    request: Request,
    plan: Sequence[Cell],
    settings: Settings,
    *,
    out: Path | None = None,
    resume: Run | None = None,
    wait: bool = True,
    jobs: int | None = None,
) -> Iterator[Bench]:
    """What every measurement of ``plan`` needs around it. Progress goes to stderr.

    ``out``: the run folder, by default runs/TIME. ``resume``: the run to go on with instead.
    ``wait``: for another run to end. ``jobs``: cells at once in what is not timed. An interrupt
    ends the run in order and without an error: ``status`` says so.

    Raises:
        NetdynoError: the folder cannot be written or holds a run, or another netdyno is measuring
            and ``wait`` is False.
    """
    found = {
        name: environments.find(framework(name), settings)
        for name in dict.fromkeys(cell.framework for cell in plan)
    }
    redact = redactor(settings, found)
    if out:
        refuse_existing(out)
    with measuring(settings.lock, wait=wait, tell=say) as held:
        if resume:
            folder = RunFolder.reopen(resume.path, dict(resume.data), redact)
        else:
            folder = RunFolder(out or _new_folder(), redact)
            folder.begin(request, plan, host_facts())
        held.tell(folder.path.name)
        started = Bench(settings, found, redact, folder, jobs)
        with _ended_in_order(started):
            yield started


@contextmanager
def _ended_in_order(running: Bench) -> Iterator[None]:
    """Write how the run ended, whatever ends it; an interrupt ends it without an error.

    SIGTERM counts as an interrupt: batch systems send it.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        running.status = "interrupted"
    finally:
        signal.signal(signal.SIGTERM, previous)
        running.folder.end(running.status)


def _new_folder() -> Path:
    name = datetime.now().strftime("%Y%m%d-%H%M%S")
    candidates = (Path("runs") / f"{name}{suffix}" for suffix in ("", "-2", "-3", "-4"))
    return next((path for path in candidates if not path.exists()), Path("runs") / name)


def redactor(settings: Settings, found: dict[str, environments.Environment]) -> Redactor:
    folders = {settings.home: "<netdyno-home>"}
    for name, environment in found.items():
        folders[environment.python.parent.parent] = f"<{name}-environment>"
        if environment.root:
            folders[environment.root] = f"<{name}-environment>"
    for name, python in settings.python.items():  # one that is not measured may measure limits
        folders.setdefault(python.parent.parent, f"<{name}-environment>")
    return Redactor(folders)


def say(text: str) -> None:
    progress_console().print(text, markup=False, soft_wrap=True)
