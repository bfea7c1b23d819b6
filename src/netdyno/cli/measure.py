"""Measure what was asked for, and leave a run folder: what several commands do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from netdyno.cli.before import compiled, look_around, measure_limits, verify
from netdyno.cli.bench import Bench, Ended, bench
from netdyno.cli.terminal import progress_console
from netdyno.environments.instruments import find_or_install
from netdyno.errors import NetdynoError
from netdyno.host.cpu import memory_bytes
from netdyno.memory_runner import MemoryRunner
from netdyno.plan.best import Choice
from netdyno.plan.budget import Budget
from netdyno.plan.cell import Cell
from netdyno.plan.estimate import CellEstimate
from netdyno.plan.request import Request
from netdyno.plan.stopping import FEWEST_ROUNDS
from netdyno.report.progress import RunProgress
from netdyno.runner import Runner, asked_after
from netdyno.settings import Settings
from netdyno.store.run import Run
from netdyno.store.run_folder import RunFolder
from netdyno.turns import worthwhile

__all__ = ["measure", "memory_runner"]


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
    compile_ahead: bool = False,
    measures: Sequence[str] = ("time",),
    choices: Sequence[Choice] = (),
    jobs: int | None = None,
) -> Ended:
    """Verify and measure ``plan``; see ``bench``.

    ``measures``: any of ``time``, ``memory`` and ``limits`` (of the devices). ``prepare_ahead``:
    prepare a trial while the one before it is set up, where that disturbs nothing (see turns.py).
    ``compile_ahead``: compile what can be before the trials. ``jobs``: see ``bench``.

    ``choices``: of each, the fastest candidate is looked for first and measured as well; ``plan``
    holds their defaults.

    Raises:
        NetdynoError: the host has too little memory; or what ``bench`` raises.
    """
    _check_memory(plan, estimates)
    with bench(request, plan, settings, out=out, resume=resume, wait=wait, jobs=jobs) as running:
        if "time" in measures:
            look_around(running.folder, plan)
        tried = [cell for choice in choices for cell in choice.candidates]
        if not unverified:
            to_come = _unfinished([*plan, *tried], request, resume, measures)
            running.refused = verify(to_come, running)
        if "limits" in measures and "limits" not in running.folder.data:
            measure_limits(request, plan, running)
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
            ahead = [*plan, *tried] if compile_ahead else []
            with compiled(ahead, runner, running) as runner.compiled:
                if choices:
                    plan = _search(runner, choices, running.folder)
                status = _run(runner, estimates)
        if "memory" in measures:
            left = _without_memory(plan, resume, measures)
            _run_memory(memory_runner(request, running), left, estimates)
        running.status = status
    return Ended(running.folder.path, running.status)


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


def _without_memory(
    plan: Sequence[Cell], resume: Run | None, measures: Sequence[str]
) -> list[Cell]:
    """The cells that need a trial that measures memory."""
    known = {t.cell for t in resume.memory_trials if t.ended} if resume else set()
    if "time" in measures:
        known |= {cell.key for cell in plan if asked_after(cell)}
    return [cell for cell in plan if cell.key not in known]


def _unfinished(
    plan: Sequence[Cell], request: Request, resume: Run | None, measures: Sequence[str]
) -> list[Cell]:
    """Those with trials to come. What is finished was verified by the part that measured it."""
    if resume is None:
        return list(plan)
    wanted = set()
    if "time" in measures:
        wanted = {cell.key for cell in plan if request.has_rounds_left(cell.key, resume.done)}
    if "memory" in measures:
        wanted |= {cell.key for cell in _without_memory(plan, resume, measures)}
    return [cell for cell in plan if cell.key in wanted]


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
