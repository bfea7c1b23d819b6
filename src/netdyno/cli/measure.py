"""Measure what was asked for, and leave a run folder: what several commands do."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType

from netdyno import environments
from netdyno.cli.terminal import progress_console
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.host.cpu import memory_bytes
from netdyno.host.facts import host_facts
from netdyno.host.lock import measuring
from netdyno.host.noise import look
from netdyno.plan.budget import Budget
from netdyno.plan.cell import Cell
from netdyno.plan.estimate import CellEstimate
from netdyno.plan.request import Request
from netdyno.plan.stopping import FEWEST_ROUNDS
from netdyno.redact import Redactor
from netdyno.report.progress import RunProgress
from netdyno.runner import Runner, lacking
from netdyno.settings import Settings
from netdyno.store.run_folder import RunFolder, refuse_existing

__all__ = ["Ended", "measure", "redactor", "say"]


@dataclass(frozen=True)
class Ended:
    """The run folder, and its ``status``: see docs/results.md."""

    folder: Path
    status: str


def measure(
    request: Request,
    plan: Sequence[Cell],
    estimates: Mapping[str, CellEstimate],
    settings: Settings,
    *,
    out: Path | None = None,
    unverified: bool = False,
    wait: bool = True,
) -> Ended:
    """Verify and measure ``plan``, alone on this machine. Progress goes to stderr.

    ``out``: the run folder, by default runs/TIME. ``wait``: for another run to end.

    Raises:
        NetdynoError: the host has too little memory, the folder cannot be written or holds a run,
            or another netdyno is measuring and ``wait`` is False.
    """
    _check_memory(plan, estimates)
    found = {
        name: environments.find(framework(name), settings)
        for name in dict.fromkeys(cell.framework for cell in plan)
    }
    redact = redactor(settings, found)
    if out:
        refuse_existing(out)
    with measuring(settings.lock, wait=wait, tell=say) as held:
        folder = RunFolder(out or _new_folder(), redact)
        held.tell(folder.path.name)
        folder.begin(request, plan, host_facts())
        with _ended_in_order(folder) as ending:
            _look(folder, plan)
            refused = {} if unverified else _verify(plan, found, settings, folder, redact)
            runner = Runner(
                request,
                plan,
                found,
                folder,
                Budget(request.budget_seconds, {key: e.seconds for key, e in estimates.items()}),
                redact,
                refused,
                check_work=not unverified,
            )
            ending.status = _run(runner, estimates)
    return Ended(folder.path, ending.status)


def say(text: str) -> None:
    progress_console().print(text, markup=False, soft_wrap=True)


def _look(folder: RunFolder, plan: Sequence[Cell]) -> None:
    """Warn of what would disturb the run, and keep how the machine was."""
    seen = look(cell.device for cell in plan)
    for warning in seen.warnings:
        say(f"warning: {warning}")
    folder.conditions(seen.conditions)


def _new_folder() -> Path:
    name = datetime.now().strftime("%Y%m%d-%H%M%S")
    candidates = (Path("runs") / f"{name}{suffix}" for suffix in ("", "-2", "-3", "-4"))
    return next((path for path in candidates if not path.exists()), Path("runs") / name)


def _check_memory(plan: Sequence[Cell], estimates: Mapping[str, CellEstimate]) -> None:
    """Refuse, before anything runs, what cannot fit the host."""
    have = memory_bytes()
    for cell in plan:
        need = estimates[cell.key].memory_bytes
        if cell.device == "cpu" and need > have:
            raise NetdynoError(
                f"{cell.network_spec} at batch size {cell.batch_size} needs about "
                f"{need / 1e9:.0f} GB, this host has {have / 1e9:.0f} GB: choose a smaller "
                "--batch-size"
            )


def redactor(settings: Settings, found: dict[str, environments.Environment]) -> Redactor:
    folders = {settings.home: "<netdyno-home>"}
    for name, environment in found.items():
        folders[environment.python.parent.parent] = f"<{name}-environment>"
        if environment.root:
            folders[environment.root] = f"<{name}-environment>"
    return Redactor(folders)


def _verify(
    plan: Sequence[Cell],
    found: dict[str, environments.Environment],
    settings: Settings,
    folder: RunFolder,
    redact: Redactor,
) -> dict[str, str]:
    """Why cells are refused, by key: those that do not compute what the reference computes."""
    to_verify = [c for c in plan if framework(c.framework).verifiable and not lacking(c)]
    if not to_verify:
        return {}
    # They import NumPy, which takes as long as all the rest of netdyno.
    from netdyno.parity.certificate import CertificateStore
    from netdyno.parity.gate import certify
    from netdyno.parity.verify import Verifier

    progress = progress_console()

    def started(cell: Cell) -> None:
        text = f"verifying {cell.framework} {cell.mode}, {cell.network_spec} {cell.precision} …"
        progress.print(text, markup=False, soft_wrap=True)

    certificates = certify(
        to_verify,
        found,
        CertificateStore(settings.home / "certificates"),
        Verifier(environments.find(framework("numpy"), settings), redact),
        started,
    )
    folder.verified({key: certificate.summary for key, certificate in certificates.items()})
    return {
        key: f"not verified: {certificate.reason}"
        for key, certificate in certificates.items()
        if not certificate.passed
    }


@dataclass
class _Ending:
    """How a run ended: what ``run.json`` says."""

    status: str = "interrupted"


@contextmanager
def _ended_in_order(folder: RunFolder) -> Iterator[_Ending]:
    """Write how the run ended, whatever ends it; an interrupt ends it without an error.

    SIGTERM counts as an interrupt: batch systems send it.
    """

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ending = _Ending()
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield ending
    except KeyboardInterrupt:
        ending.status = "interrupted"
    finally:
        signal.signal(signal.SIGTERM, previous)
        folder.end(ending.status)


def _run(runner: Runner, estimates: Mapping[str, CellEstimate]) -> str:
    rounds = FEWEST_ROUNDS if runner.target else runner.request.most_rounds
    total = rounds * len(runner.cells)
    seconds = rounds * sum(e.seconds for e in estimates.values())
    with RunProgress(progress_console(), total, seconds) as progress:
        return runner.run(progress)
