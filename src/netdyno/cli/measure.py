"""Measure what was asked for, and leave a run folder: what several commands do."""

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
from netdyno.compile_ahead import compile_ahead, compiles_ahead
from netdyno.environments.instruments import find_or_install
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.host.cpu import memory_bytes
from netdyno.host.facts import host_facts
from netdyno.host.lock import measuring
from netdyno.host.noise import look
from netdyno.limits_runner import LimitsRunner, candidates, targets
from netdyno.memory_runner import MemoryRunner
from netdyno.outcome import Outcome
from netdyno.plan.best import Choice
from netdyno.plan.budget import Budget
from netdyno.plan.cell import Cell
from netdyno.plan.estimate import CellEstimate
from netdyno.plan.request import Request
from netdyno.plan.stopping import FEWEST_ROUNDS
from netdyno.redact import Redactor
from netdyno.report.progress import RunProgress
from netdyno.runner import Runner, asked_after, lacking
from netdyno.settings import Settings
from netdyno.store.run import Run
from netdyno.store.run_folder import RunFolder, refuse_existing
from netdyno.turns import worthwhile

__all__ = ["Bench", "Ended", "bench", "measure", "memory_runner", "redactor", "say", "verify"]


@dataclass(frozen=True)
class Ended:
    """The run folder, and its ``status``: see docs/results.md."""

    folder: Path
    status: str


@dataclass
class Bench:
    """A run that is under way: alone on this machine, its cells verified.

    ``refused``: why cells must not be measured, by key. ``status``: how the run ended, so far.
    """

    settings: Settings
    environments: Mapping[str, environments.Environment]
    redact: Redactor
    folder: RunFolder
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
) -> Iterator[Bench]:
    """What every measurement of ``plan`` needs around it. Progress goes to stderr.

    ``out``: the run folder, by default runs/TIME. ``resume``: the run to go on with instead.
    ``wait``: for another run to end. An interrupt ends the run in order and without an error:
    ``status`` says so.

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
        started = Bench(settings, found, redact, folder)
        with _ended_in_order(started):
            yield started


def measure(
    request: Request,
    plan: Sequence[Cell],
    estimates: Mapping[str, CellEstimate],
    settings: Settings,
    *,
    out: Path | None = None,
    resume: Run | None = None,
    unverified: bool = False,
    wait: bool = True,
    prepare_ahead: bool = True,
    measures: Sequence[str] = ("time",),
    choices: Sequence[Choice] = (),
    ahead: bool = False,
) -> Ended:
    """Verify and measure ``plan``; see ``bench``.

    ``measures``: any of ``time``, ``memory`` and ``limits`` (of the devices). ``ahead``: compile
    what can be before the trials. ``prepare_ahead``: prepare a trial while the one before it is
    set up, where that disturbs nothing (see turns.py).

    ``choices``: of each, the fastest candidate is looked for first and measured as well; ``plan``
    holds their defaults.

    Raises:
        NetdynoError: the host has too little memory; or what ``bench`` raises.
    """
    _check_memory(plan, estimates)
    with bench(request, plan, settings, out=out, resume=resume, wait=wait) as running:
        if "time" in measures:
            _look(running.folder, plan)
        tried = [cell for choice in choices for cell in choice.candidates]
        if not unverified:
            running.refused = verify([*plan, *tried], running)
        if "limits" in measures and "limits" not in running.folder.data:
            _measure_limits(request, plan, running)
        status = "complete"
        if "time" in measures:
            runner = Runner(
                request,
                plan,
                running.environments,
                running.folder,
                Budget(request.budget_seconds, {key: e.seconds for key, e in estimates.items()}),
                running.redact,
                running.refused,
                check_work=not unverified,
                memory="memory" in measures,
                done=resume.done if resume else (),
                ahead=worthwhile if prepare_ahead else lambda cell, following: False,
            )
            with _compiled([*plan, *tried] if ahead else [], runner, running) as runner.compiled:
                if choices:
                    plan = _search(runner, choices, running.folder)
                status = _run(runner, estimates)
        if "memory" in measures:
            measured = {t.cell for t in resume.memory_trials if t.ended} if resume else set()
            left = [
                cell
                for cell in plan
                if cell.key not in measured and not ("time" in measures and asked_after(cell))
            ]
            _run_memory(memory_runner(request, running), left, estimates)
        running.status = status
    return Ended(running.folder.path, running.status)


def _measure_limits(request: Request, plan: Sequence[Cell], running: Bench) -> None:
    """Keep what the devices of ``plan`` can do at most, or why nobody knows."""
    folder, found = running.folder, []
    runner = LimitsRunner(
        lambda cell: folder.new_trial(cell, 1, measures="limits"),
        folder.end_trial,
        running.redact,
        request.seed,
    )
    for target in targets(plan):
        say(f"measuring the limits of {target[0]} …")
        found.append(runner.measure(target, candidates(target[0], running.settings)))
    if found:
        folder.limits([limits.to_json() for limits in found])


def memory_runner(request: Request, running: Bench) -> MemoryRunner:
    """For the cells of ``running``; memray is installed when it is first asked for."""
    return MemoryRunner(
        request,
        running.environments,
        running.folder,
        running.redact,
        lambda environment: find_or_install(environment, running.settings),
        running.refused,
    )


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
    for name, python in settings.python.items():  # one that is not measured may measure limits
        folders.setdefault(python.parent.parent, f"<{name}-environment>")
    return Redactor(folders)


def verify(plan: Sequence[Cell], running: Bench) -> dict[str, str]:
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
        running.environments,
        CertificateStore(running.settings.home / "certificates", running.folder.verification),
        Verifier(environments.find(framework("numpy"), running.settings), running.redact),
        started,
        lambda key, certificate: running.folder.verified(key, certificate.summary),
    )
    return {
        key: f"not verified: {certificate.reason}"
        for key, certificate in certificates.items()
        if not certificate.passed
    }


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


def _search(runner: Runner, choices: Sequence[Choice], folder: RunFolder) -> list[Cell]:
    """The cells to measure: defaults, and what was found to be faster."""
    known = {choice.default.key for choice in choices}
    tried = [cell for choice in choices for cell in choice.candidates]
    seconds = sum(map(runner.budget.expected_seconds, tried))
    with RunProgress(progress_console(), len(tried), seconds) as progress:
        found = runner.search(choices, progress)
    for cell in found:
        if cell.key not in known:
            folder.add_cell(cell)
    runner.measures(found)
    return found


def _run(runner: Runner, estimates: Mapping[str, CellEstimate]) -> str:
    rounds = FEWEST_ROUNDS if runner.target else runner.request.most_rounds
    total = rounds * len(runner.cells)
    seconds = rounds * sum(estimates[cell.key].seconds for cell in runner.cells)
    with RunProgress(progress_console(), total, seconds) as progress:
        return runner.run(progress)


@contextmanager
def _compiled(
    cells: Sequence[Cell], runner: Runner, running: Bench
) -> Iterator[Mapping[str, Path]]:
    """Compile those of ``cells`` that have trials to come; where their trials find it, by key."""
    wanted = {
        cell.key: cell
        for cell in cells
        if compiles_ahead(cell) and runner.will_measure(cell) and not lacking(cell)
    }
    if not wanted:
        yield {}
        return

    def ended(cell: Cell, outcome: Outcome) -> None:
        how = f"{outcome.seconds:.0f} s" if outcome.status == "ok" else outcome.reason
        say(f"compiled ahead: {cell.framework} {cell.mode}, {cell.network_spec}: {how}")

    say(f"compiling {len(wanted)} cells ahead …")
    with compile_ahead(
        list(wanted.values()), runner.request, running.environments, running.redact, ended
    ) as found:
        running.folder.compiled_ahead(found)
        yield found


def _run_memory(
    runner: MemoryRunner, plan: Sequence[Cell], estimates: Mapping[str, CellEstimate]
) -> None:
    # It limits nothing here, but learns from each trial how long the others will take.
    budget = Budget(None, {cell.key: estimates[cell.key].seconds for cell in plan})
    expected = sum(map(budget.expected_seconds, plan))
    with RunProgress(progress_console(), len(plan), expected) as progress:
        for index, cell in enumerate(plan):
            left = sum(map(budget.expected_seconds, plan[index:]))
            progress.trial_started(cell, "memory", len(plan) - index, left)
            _, outcome = runner.trial(cell, progress.event)
            budget.record(cell, outcome.seconds)
            progress.trial_ended(outcome)
