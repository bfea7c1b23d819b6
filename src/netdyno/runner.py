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

__all__ = ["Runner"]


class Runner:
    """Args: what was asked, its cells, where each framework runs, where results go.

    ``refused``: why a cell must not be measured, by its key.
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
    ) -> None:
        self.request = request
        self.cells = cells
        self.environments = environments
        self.folder = folder
        self.budget = budget
        self.redact = redact
        self.refused = refused
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
        spec = framework(cell.framework)
        path = self.folder.new_trial(cell, number)
        lacking = self._lacking(cell)
        if lacking:
            outcome = Outcome("skipped", lacking)
            self.folder.end_trial(path, outcome)
            return outcome
        try:
            outcome = run_trial(
                cell,
                self.environments[cell.framework],
                # Once for each cell is enough: it costs two iterations.
                job(cell, self.request.seed, check_work=number == 1 and spec.verifiable),
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

    def _lacking(self, cell: Cell) -> str:
        if cell.key in self.refused:
            return f"not verified: {self.refused[cell.key]}"
        if "c++" in framework(cell.framework).mode(cell.mode).needs and cxx_compiler() is None:
            return f"mode {cell.mode} needs a C++ compiler: install one, or set CXX"
        return ""

    def _left_seconds(self, number: int, current: Cell, order: Sequence[Cell]) -> float:
        """Of the run: the rest of this round, the current trial included, and later rounds."""
        live = [cell for cell in self.cells if cell.key not in self.skipped]
        rest = order[order.index(current) :]
        later = self.request.rounds - number
        seconds = sum(self.budget.expected_seconds(cell) for cell in rest)
        return seconds + later * sum(self.budget.expected_seconds(cell) for cell in live)
