"""Runs trials that measure memory: one fresh process for each cell, never one that is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from netdyno.environments import Environment
from netdyno.errors import NetdynoError
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.job import MEMORY_PHASES, memory_job
from netdyno.plan.request import Request
from netdyno.redact import Redactor
from netdyno.runner import lacking
from netdyno.session import run_trial
from netdyno.store.run_folder import RunFolder

__all__ = ["MemoryRunner"]

# Memory does not vary from process to process as time does: one trial says it.
ROUND = 1


class MemoryRunner:
    """Args: what was asked, where each framework runs, where results go.

    ``instrument``: gives the folder with memray for an environment, or raises NetdynoError.
    ``refused``: why a cell must not be measured, by its key.
    """

    def __init__(
        self,
        request: Request,
        environments: Mapping[str, Environment],
        folder: RunFolder,
        redact: Redactor,
        instrument: Callable[[Environment], Path],
        refused: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.request = request
        self.environments = environments
        self.folder = folder
        self.redact = redact
        self.refused = refused
        self._instrument = instrument
        self._found: dict[str, tuple[Path | None, str]] = {}

    def trial(
        self,
        cell: Cell,
        listener: Callable[[dict[str, Any]], None] = lambda event: None,
        *,
        phases: Sequence[str] = MEMORY_PHASES,
        limit_bytes: int | None = None,
        totals_only: bool = False,
        verified_as: Cell | None = None,
    ) -> tuple[Path, Outcome]:
        """Measure one cell; the file of its events, and how it ended.

        ``limit_bytes``: what the process may allocate on the host. ``totals_only``: leave internal
        memory out, which costs some passes. ``verified_as``: the cell that says whether
        this one is refused, where that is another.
        """
        path = self.folder.new_trial(cell, ROUND, measures="memory")
        reason = self.refused.get((verified_as or cell).key) or lacking(cell)
        if reason:
            outcome = Outcome("skipped", reason)
            self.folder.end_trial(path, outcome)
            return path, outcome
        environment = self.environments[cell.framework]
        instrument, problem = (None, "") if totals_only else self._find(environment)
        try:
            outcome = run_trial(
                cell,
                environment,
                memory_job(
                    cell,
                    self.request.seed,
                    phases=phases,
                    instrument=instrument,
                    problem=problem,
                    limit_bytes=limit_bytes,
                    totals_only=totals_only,
                ),
                path,
                timeout_seconds=self.request.trial_timeout_seconds,
                redact=self.redact,
                listener=listener,
            )
        except KeyboardInterrupt:
            self.folder.end_trial(path, Outcome("interrupted", "interrupted by the person"))
            raise
        self.folder.end_trial(path, outcome)
        return path, outcome

    def _find(self, environment: Environment) -> tuple[Path | None, str]:
        """Without memray there is still what the framework tells. A failure is not tried again."""
        name = environment.framework
        if name not in self._found:
            try:
                self._found[name] = self._instrument(environment), ""
            except NetdynoError as error:
                self._found[name] = None, self.redact(str(error).splitlines()[0])
        return self._found[name]
