"""Setting up several frameworks at once: each is checked or made; none stops another."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Literal

from filelock import Timeout

from netdyno.environments.accelerators import suitable_accelerator
from netdyno.environments.environment import Environment, inspect, lock_file, mend
from netdyno.environments.imports import try_import
from netdyno.environments.managed import Order, make
from netdyno.environments.processes import Processes, StoppedError
from netdyno.environments.recipe import Accelerator
from netdyno.errors import NetdynoError
from netdyno.frameworks import FrameworkSpec
from netdyno.settings import Settings

__all__ = ["Built", "Wish", "build_all"]

Action = Literal["made", "checked", "failed"]
_LOCK_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Wish:
    """How environments are wanted. ``accelerator`` None: what is there, else what the host has."""

    accelerator: Accelerator | None = None
    rebuild: bool = False
    update_lock: bool = False
    jobs: int = 2


@dataclass(frozen=True)
class Built:
    """What came of one framework. ``environment`` is its state afterwards."""

    environment: Environment
    action: Action
    seconds: float
    framework_version: str | None = None
    error: str = ""
    log: Path | None = None


def build_all(
    specs: Sequence[FrameworkSpec],
    settings: Settings,
    wish: Wish,
    report: Callable[[str, str], None],
    processes: Processes | None = None,
) -> list[Built]:
    """Set up every framework; ``report(framework, message)`` is called from several threads.

    An interrupt (or SIGTERM) ends all children before KeyboardInterrupt goes on. Raises
    NetdynoError, before anything is started, when the home folder cannot be used.
    """
    _prepare_home(settings)
    processes = processes or Processes()
    with (
        _terminate_as_interrupt(),
        ThreadPoolExecutor(max_workers=max(1, wish.jobs), thread_name_prefix="setup") as pool,
    ):
        futures: list[Future[Built]] = []
        try:
            futures += [
                pool.submit(_build, spec, settings, wish, report, processes) for spec in specs
            ]
            wait(futures)
        except BaseException:
            processes.stop()
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _build(
    spec: FrameworkSpec,
    settings: Settings,
    wish: Wish,
    report: Callable[[str, str], None],
    processes: Processes,
) -> Built:
    started = time.monotonic()
    log_path = settings.logs / f"setup-{spec.name}.log"

    def tell(message: str) -> None:
        report(spec.name, message)

    action: Action = "failed"
    version, error = None, ""
    try:
        if inspect(spec, settings).managed:
            with _locked(spec, settings, processes, tell), log_path.open("w") as log:
                action, version = _managed(spec, settings, wish, processes, log, tell)
        else:
            action, version = _given(spec, settings, wish, processes)
    except NetdynoError as problem:
        error = str(problem)
    except OSError as problem:
        error = f"{problem}; see {log_path}"
    seconds = time.monotonic() - started
    environment = inspect(spec, settings)
    log_or_none = log_path if environment.managed and log_path.exists() else None
    if error:
        tell(f"failed: {error}" + (f"\n  log: {log_or_none}" if log_or_none else ""))
    else:
        tell(f"ready ({version}, {seconds:.0f} s)")
    return Built(environment, action, seconds, version, error, log_or_none)


def _managed(
    spec: FrameworkSpec,
    settings: Settings,
    wish: Wish,
    processes: Processes,
    log: IO[str],
    tell: Callable[[str], None],
) -> tuple[Action, str]:
    """Check the environment if it looks ready; make it if it is not, or does not import."""
    present = inspect(spec, settings, have_lock=True)
    accelerator = wish.accelerator or _accelerator(spec, present, tell)
    order = Order(
        spec, settings.environments / spec.name, accelerator, processes, log, tell, wish.update_lock
    )
    if present.state in ("interrupted", "stale", "broken"):
        tell(f"the environment {present.problem}")
    asked = wish.rebuild or wish.update_lock or present.accelerator != accelerator
    if present.ready and not asked:
        found = try_import(spec, present.python, processes, managed=True, log=log)
        if found.version is not None:
            return "checked", found.version
        tell(f"{found.problem}\n  making it again")
    return "made", make(order).framework_version


def _given(
    spec: FrameworkSpec, settings: Settings, wish: Wish, processes: Processes
) -> tuple[Action, str]:
    """Check an interpreter that is not ours; nothing is ever installed into it."""
    present = inspect(spec, settings)
    if (wish.rebuild or wish.update_lock) and present.kind == "external":
        raise NetdynoError(
            f"{spec.title} is used as it is: leave out --rebuild and --update-lock, or {spec.name}"
        )
    if wish.rebuild or wish.update_lock:
        raise NetdynoError(
            f"{present.python} is not an environment that netdyno made, so it is used as it is:"
            f" leave out --rebuild and --update-lock, or --python {spec.name}"
        )
    if present.kind == "external":
        if not present.ready:
            raise NetdynoError(f"{present.problem}; {mend(spec, present)}")
        return "checked", present.framework_version or ""
    if not present.ready:
        raise NetdynoError(f"{present.python} {present.problem}")
    found = try_import(spec, present.python, processes, managed=False)
    if found.version is None:
        raise NetdynoError(
            f"{present.python}: {found.problem}\n  netdyno installs nothing into an interpreter"
            f" that it did not make: install {spec.title} there or name another interpreter"
        )
    return "checked", found.version


def _accelerator(
    spec: FrameworkSpec, present: Environment, tell: Callable[[str], None]
) -> Accelerator:
    """Keep what an earlier setup chose; else what suits the host."""
    if present.framework_version is not None and present.accelerator in spec.requirements:
        return present.accelerator
    accelerator, remark = suitable_accelerator(spec)
    if remark:
        tell(remark)
    return accelerator


@contextmanager
def _locked(
    spec: FrameworkSpec, settings: Settings, processes: Processes, tell: Callable[[str], None]
) -> Iterator[None]:
    lock = lock_file(spec, settings)
    told = False
    while True:
        try:
            lock.acquire(timeout=0 if not told else _LOCK_POLL_SECONDS)
            break
        except Timeout:
            if processes.stopping:
                raise StoppedError from None
            if not told:
                tell("waiting for another `netdyno setup` that has it in hand")
            told = True
    try:
        yield
    finally:
        lock.release()


def _prepare_home(settings: Settings) -> None:
    """Raises NetdynoError if environments and logs cannot be written."""
    try:
        for folder in (settings.environments, settings.logs):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise NetdynoError(
            f"cannot write to {settings.home}: {error.strerror}; set NETDYNO_HOME (or `home` in"
            " the configuration file) to a folder that you can write to"
        ) from None


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM (a batch system, a closing terminal) must end the children as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
