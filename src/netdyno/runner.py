"""Runs a plan: every trial of every round, until they are done or the budget is spent."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
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
from netdyno.plan.rounds import rounds
from netdyno.plan.stopping import Target
from netdyno.redact import Redactor
from netdyno.report.progress import RunProgress
from netdyno.session import run_trial
from netdyno.store.run_folder import RunFolder
from netdyno.store.trial import Trial, read_trial

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
    ahead, by key. ``done``: trials, by cell key and round, that an
    earlier part of this run has made.
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
        rounds = range(1, self.request.most_rounds + 1)
        left = any((cell.key, number) not in self.done for number in rounds)
        return left and cell.key not in self.refused

    def run(self, progress: RunProgress) -> str:
        """Measure; returns how it ended: ``complete``, ``target`` (reached) or ``budget``.

        On KeyboardInterrupt the trial under way is recorded as interrupted before it is raised.
        """
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
                outcome = self._trial(cell, number, progress)
                if outcome.status != "skipped":
                    self.budget.record(cell, outcome.seconds)
                self._give_up(cell, outcome)
                progress.trial_ended(outcome)
        if ended_by == "complete" and self.target:
            live = [cell for cell in self.cells if cell.key not in self.skipped]
            if live and all(map(self.target.reached, live)):
                return "target"
        return ended_by

    def _trial(self, cell: Cell, number: int, progress: RunProgress) -> Outcome:
        phases = self.request.phases
        outcome, trial = self._measured(cell, number, progress, phases)
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
    ) -> tuple[Outcome, Trial | None]:
        """One trial, and what is read of it."""
        # Once for each cell is enough: it costs two iterations, and some passes.
        check_work = self.check_work and number == 1 and framework(cell.framework).verifiable
        memory_after = self.memory and number == 1 and asked_after(cell)
        path = self.folder.new_trial(cell, number, measures)
        reason = self.refused.get(cell.key) or lacking(cell)
        if reason:
            outcome = Outcome("skipped", reason)
            self.folder.end_trial(path, outcome)
            return outcome, None
        try:
            outcome = run_trial(
                cell,
                self.environments[cell.framework],
                job(
                    cell,
                    self.request.seed,
                    phases=phases,
                    check_work=check_work,
                    memory_after=memory_after,
                    compile_cache=self.compiled.get(cell.key),
                ),
                path,
                timeout_seconds=self.request.trial_timeout_seconds,
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
        chosen: dict[str, Cell] = {}
        left = sum(len(choice.candidates) for choice in choices)
        for choice in choices:
            tried: dict[str, float | None] = {}
            for cell in choice.candidates:
                expected = self.budget.expected_seconds(cell)
                progress.trial_started(cell, "search", left, left * expected)
                tried[cell.key] = self._try(cell, progress)
                left -= 1
            timed = {key: seconds for key, seconds in tried.items() if seconds is not None}
            best = min(timed, key=timed.__getitem__, default=choice.default.key)
            self.folder.searched(choice.default, best, tried)
            chosen[choice.default.key] = choice.default
            chosen.update((cell.key, cell) for cell in choice.candidates if cell.key == best)
        return list(chosen.values())

    def _try(self, cell: Cell, progress: RunProgress) -> float | None:
        """Median seconds of forward+backward in one process; None if it gave none."""
        outcome, trial = self._measured(cell, SEARCH, progress, (PRIMARY_PHASE,), "search")
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
