"""Runs a plan: every trial of every round, until they are done or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from netdyno.environments import Environment
from netdyno.frameworks import framework
from netdyno.host.compiler import cxx_compiler
from netdyno.outcome import Outcome
from netdyno.plan.budget import Budget
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.request import Request
from netdyno.plan.rounds import rounds
from netdyno.redact import Redactor
from netdyno.report.progress import RunProgress
from netdyno.session import run_trial
from netdyno.store.run_folder import RunFolder

__all__ = ["Runner", "lacking"]


def lacking(cell: Cell) -> str:
    """What this host lacks to run ``cell``; empty if nothing."""
    if "c++" in framework(cell.framework).mode(cell.mode).needs and cxx_compiler() is None:
        return f"mode {cell.mode} needs a C++ compiler: install one, or set CXX"
    return ""


class Runner:
    """Args: what was asked, its cells, where each framework runs, where results go.

    ``refused``: why a cell must not be measured, by its key. ``check_work``: ask each cell's first
    trial whether its timed blocks did their work.
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
    ) -> None:
        self.request = request
        self.cells = cells
        self.environments = environments
        self.folder = folder
        self.budget = budget
        self.redact = redact
        self.refused = refused
        self.check_work = check_work
        self.skipped: set[str] = set()

    def run(self, progress: RunProgress) -> str:
        """Measure; returns how it ended: ``complete`` or ``budget``.

        On KeyboardInterrupt the trial under way is recorded as interrupted before it is raised.
        """
        start = time.monotonic()
        ended_by = "complete"
        for number, order in rounds(self.cells, self.request.rounds, self.request.seed):
            for cell in order:
                if cell.key in self.skipped:
                    continue
                if not self.budget.allows(cell, time.monotonic() - start):
                    ended_by = "budget"
                    continue
                progress.trial_started(cell, number, self._left_seconds(number, cell, order))
                outcome = self._trial(cell, number, progress)
                if outcome.status == "skipped":
                    self.skipped.add(cell.key)
                else:
                    self.budget.record(cell, outcome.seconds)
                progress.trial_ended(outcome)
        return ended_by

    def _trial(self, cell: Cell, number: int, progress: RunProgress) -> Outcome:
        check_work = self.check_work and number == 1 and framework(cell.framework).verifiable
        path = self.folder.new_trial(cell, number)
        reason = self.refused.get(cell.key) or lacking(cell)
        if reason:
            outcome = Outcome("skipped", reason)
            self.folder.end_trial(path, outcome)
            return outcome
        try:
            outcome = run_trial(
                cell,
                self.environments[cell.framework],
                # Once for each cell is enough: it costs two iterations.
                job(cell, self.request.seed, check_work=check_work),
                path,
                timeout_seconds=self.request.trial_timeout_seconds,
                redact=self.redact,
                listener=progress.event,
            )
        except KeyboardInterrupt:
            self.folder.end_trial(path, Outcome("interrupted", "interrupted by the person"))
            raise
        self.folder.end_trial(path, outcome)
        return outcome

    def _left_seconds(self, number: int, current: Cell, order: Sequence[Cell]) -> float:
        """Of the run: the rest of this round, the current trial included, and later rounds."""
        live = [cell for cell in self.cells if cell.key not in self.skipped]
        rest = order[order.index(current) :]
        later = self.request.rounds - number
        seconds = sum(self.budget.expected_seconds(cell) for cell in rest)
        return seconds + later * sum(self.budget.expected_seconds(cell) for cell in live)
