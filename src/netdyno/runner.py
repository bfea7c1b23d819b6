"""Runs a plan: every trial of every round, until they are done or the budget is spent."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from netdyno.environments import Environment
from netdyno.frameworks import framework
from netdyno.host.compiler import clang_compiler, cxx_compiler
from netdyno.outcome import Outcome
from netdyno.plan.best import Choice
from netdyno.plan.budget import Budget
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.request import PRIMARY_PHASE, Request
from netdyno.plan.rounds import round_order, rounds
from netdyno.plan.stopping import Target
from netdyno.redact import Redactor
from netdyno.report.progress import RunProgress
from netdyno.session import Task, run_trial
from netdyno.store.run_folder import RunFolder
from netdyno.store.trial import Trial, read_trial
from netdyno.turns import Turns

__all__ = ["Runner", "asked_after", "lacking"]

# With a target, a cell that failed so many times in a row is left alone.
PATIENCE = 3
# The round of trials that only choose.
SEARCH = 0


def lacking(cell: Cell) -> str:
    """What this host lacks to run ``cell``; empty if nothing."""
    needs = framework(cell.framework).mode(cell.mode).needs
    if "c++" in needs and cxx_compiler() is None:
        return f"mode {cell.mode} needs a C++ compiler: install one, or set CXX"
    # On a GPU, CUDA's own compiler does that work.
    if "clang" in needs and cell.device == "cpu" and clang_compiler() is None:
        return f"mode {cell.mode} needs clang on a CPU: install it, or name one in CC"
    return ""


def asked_after(cell: Cell) -> bool:
    """Whether the trial that times ``cell`` can be asked for its memory when all is timed.

    On a GPU nothing has to watch its allocations from the start, and no library be set otherwise.
    """
    return cell.device != "cpu"


class Runner:
    """Args: what was asked, its cells, where each framework runs, where results go.

    ``refused``: why a cell must not be measured, by its key. ``check_work``: ask each cell's first
    trial whether its timed blocks did their work. ``memory``: ask the first trial of a cell on a
    GPU for its memory too, when all is timed. ``compiled``: where cells find what was compiled
    ahead, by key. ``done``: trials, by cell key and round, that an earlier part of this run has
    made. ``ahead``: whether, while the trial of a cell is set up, one of another that follows may
    be prepared (see turns.py).
    """

    def __init__(
        self,
        request: Request,
        cells: Sequence[Cell],
        environments: Mapping[str, Environment],
        folder: RunFolder,
        budget: Budget,
        redact: Redactor,
        refused: Mapping[str, str] = MappingProxyType({}),
        check_work: bool = True,
        memory: bool = False,
        compiled: Mapping[str, Path] = MappingProxyType({}),
        done: Collection[tuple[str, int]] = (),
        ahead: Callable[[Cell, Cell], bool] = lambda cell, following: False,
    ) -> None:
        self.request = request
        self.environments = environments
        self.folder = folder
        self.budget = budget
        self.redact = redact
        self.refused = refused
        self.check_work = check_work
        self.memory = memory
        self.compiled = compiled
        self.done = done
        self.ahead = ahead
        self.turns = Turns()
        self.skipped: set[str] = set()
        self.start = time.monotonic()
        self.bad_rounds: Counter[str] = Counter()
        self.measures(cells)

    def measures(self, cells: Sequence[Cell]) -> None:
        """Take ``cells`` for those to be measured."""
        self.cells = cells
        self.target = Target(cells, self.request.target) if self.request.target else None

    def will_measure(self, cell: Cell) -> bool:
        """Whether a trial of ``cell`` is to come, as far as is known before the first."""
        left = self.request.has_rounds_left(cell.key, self.done)
        return left and cell.key not in self.refused

    def run(self, progress: RunProgress) -> str:
        """Measure; returns how it ended: ``complete``, ``target`` (reached) or ``budget``.

        On KeyboardInterrupt the trial under way is recorded as interrupted before it is raised.
        """
        try:
            return self._run(progress)
        finally:
            self.turns.end()

    def _run(self, progress: RunProgress) -> str:
        self.start = time.monotonic()
        ended_by = "complete"
        for number, order in rounds(self.cells, self.request.most_rounds, self.request.seed):
            left = [cell for cell in order if self._wanted(cell)]
            if not left:
                break
            left = [cell for cell in left if (cell.key, number) not in self.done]
            for index, cell in enumerate(left):
                if not self.budget.allows(cell, time.monotonic() - self.start):
                    ended_by = "budget"
                    if self.target:  # what is left would be half a round, which pairs nothing
                        return ended_by
                    continue
                progress.trial_started(cell, number, *self._left(number, left[index:]))
                following = self._following(cell, number, left[index + 1 :])
                outcome = self._trial(cell, number, progress, following)
                if outcome.status != "skipped":
                    self.budget.record(cell, outcome.seconds)
                self._give_up(cell, outcome)
                progress.trial_ended(outcome)
        if ended_by == "complete" and self.target:
            live = [cell for cell in self.cells if cell.key not in self.skipped]
            if live and all(map(self.target.reached, live)):
                return "target"
        return ended_by

    def _following(self, cell: Cell, number: int, rest: Sequence[Cell]) -> list[Task]:
        """What is likely to be measured after ``cell``: of the rest of this round, or of the next.

        As far as it should be prepared. A wrong guess costs nothing but its preparation.
        """
        likely = [(other, number) for other in rest]
        if number < self.request.most_rounds:
            coming = round_order(self.cells, number + 1, self.request.seed)
            likely += [(other, number + 1) for other in coming if self._wanted(other)]
        then = time.monotonic() - self.start + self.budget.expected_seconds(cell)
        found: list[Task] = []
        for other, its_number in likely:
            done = (other.key, its_number) in self.done
            if done or self._why_not(other) or not self.budget.allows(other, then):
                continue
            if len(found) == self.turns.most or not self.ahead(cell, other):
                break
            found.append(self._task(other, its_number, self.request.phases))
            then += self.budget.expected_seconds(other)
        return found

    def _why_not(self, cell: Cell) -> str:
        """Why ``cell`` must not be measured; empty if it may."""
        return self.refused.get(cell.key) or lacking(cell)

    def _task(self, cell: Cell, number: int, phases: Sequence[str]) -> Task:
        # Once for each cell is enough: it costs two iterations, and some passes.
        first = number == 1
        told = job(
            cell,
            self.request.seed,
            phases=phases,
            check_work=first and self.check_work and framework(cell.framework).verifiable,
            memory_after=first and self.memory and asked_after(cell),
            compile_cache=self.compiled.get(cell.key),
        )
        return Task(
            cell,
            self.environments[cell.framework],
            told,
            self.request.trial_timeout_seconds,
            self.redact,
        )

    def _trial(
        self, cell: Cell, number: int, progress: RunProgress, following: Sequence[Task]
    ) -> Outcome:
        phases = self.request.phases
        outcome, trial = self._measured(cell, number, progress, phases, following=following)
        if self.target and outcome.status == "ok":
            self.target.add(cell, number, trial.seconds(PRIMARY_PHASE) if trial else [])
        return outcome

    def _measured(
        self,
        cell: Cell,
        number: int,
        progress: RunProgress,
        phases: Sequence[str],
        measures: str = "time",
        following: Sequence[Task] = (),
    ) -> tuple[Outcome, Trial | None]:
        """One trial, and what is read of it."""
        path = self.folder.new_trial(cell, number, measures)
        reason = self._why_not(cell)
        if reason:
            outcome = Outcome("skipped", reason)
            self.folder.end_trial(path, outcome)
            return outcome, None
        try:
            task = self._task(cell, number, phases)
            if following or self.turns.prepared(task):
                outcome = self.turns.run_trial(task, path, progress.event, following=following)
            else:
                self.turns.end()  # of a guess that was wrong
                outcome = run_trial(
                    cell,
                    task.environment,
                    task.job,
                    path,
                    timeout_seconds=task.timeout_seconds,
                    redact=self.redact,
                    listener=progress.event,
                )
        except KeyboardInterrupt:
            self.folder.end_trial(path, Outcome("interrupted", "interrupted by the person"))
            raise
        self.folder.end_trial(path, outcome)
        return outcome, read_trial(path, self.folder.data)

    def search(self, choices: Sequence[Choice], progress: RunProgress) -> list[Cell]:
        """Try each candidate once; the defaults and the fastest, which are then to be measured.

        What was tried only chooses: the fastest of many that vary is faster than it is, so its
        figure comes from trials of its own.
        """
        try:
            return self._search(choices, progress)
        finally:
            self.turns.end()

    def _search(self, choices: Sequence[Choice], progress: RunProgress) -> list[Cell]:
        chosen: dict[str, Cell] = {}
        rest = [cell for choice in choices for cell in choice.candidates]
        for choice in choices:
            tried: dict[str, float | None] = {}
            for cell in choice.candidates:
                expected = self.budget.expected_seconds(cell)
                progress.trial_started(cell, "search", len(rest), len(rest) * expected)
                rest = rest[1:]
                tried[cell.key] = self._try(cell, progress, rest)
            timed = {key: seconds for key, seconds in tried.items() if seconds is not None}
            best = min(timed, key=timed.__getitem__, default=choice.default.key)
            self.folder.searched(choice.default, best, tried)
            chosen[choice.default.key] = choice.default
            chosen.update((cell.key, cell) for cell in choice.candidates if cell.key == best)
        return list(chosen.values())

    def _try(self, cell: Cell, progress: RunProgress, rest: Sequence[Cell]) -> float | None:
        """Median seconds of forward+backward in one process; None if it gave none.

        ``rest``: what is to be tried after it.
        """
        phases = (PRIMARY_PHASE,)
        others = [other for other in rest if not self._why_not(other) and self.ahead(cell, other)]
        following = [self._task(other, SEARCH, phases) for other in others[: self.turns.most]]
        outcome, trial = self._measured(
            cell, SEARCH, progress, phases, "search", following=following
        )
        progress.trial_ended(outcome)
        if outcome.status != "ok" or trial is None:
            return None
        blocks = trial.seconds(PRIMARY_PHASE) or [
            block.seconds_per_iteration for block in trial.of(PRIMARY_PHASE)
        ]
        return statistics.median(blocks) if blocks else None

    def _give_up(self, cell: Cell, outcome: Outcome) -> None:
        """Of a cell that was skipped; with a target also of one that goes on failing."""
        self.bad_rounds[cell.key] = 0 if outcome.status == "ok" else self.bad_rounds[cell.key] + 1
        hopeless = self.target and self.bad_rounds[cell.key] >= PATIENCE
        if outcome.status == "skipped" or hopeless:
            self.skipped.add(cell.key)
            if self.target:
                self.target.drop(cell)

    def _wanted(self, cell: Cell) -> bool:
        return cell.key not in self.skipped and not (self.target and self.target.reached(cell))

    def _left(self, number: int, rest: Sequence[Cell]) -> tuple[int, float]:
        """Trials and seconds: the rest of this round, the current trial included, and later ones.

        With a target, as many later rounds as the intervals so far make it seem; with a budget, no
        more than it allows.
        """
        trials, seconds = len(rest), sum(map(self.budget.expected_seconds, rest))
        for cell in filter(self._wanted, self.cells):
            needed = self.request.most_rounds
            if self.target:
                needed = min(needed, self.target.rounds_needed(cell))
            later = max(0, needed - number)
            trials += later
            seconds += later * self.budget.expected_seconds(cell)
        if self.budget.limit_seconds is not None:
            allowed = max(0.0, self.budget.limit_seconds - (time.monotonic() - self.start))
            if allowed < seconds:
                return max(len(rest), round(trials * allowed / seconds)), allowed
        return trials, seconds
