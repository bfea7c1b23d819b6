"""What a person sees while a run goes on; on stderr, so that stdout stays the result's."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell

__all__ = ["RunProgress"]

PHASE_NAMES = {
    "forward_backward": "forward+backward",
    "forward": "forward",
    "train_step": "train step",
}


class RunProgress:
    """A line that moves on a terminal; a line for each trial elsewhere."""

    def __init__(self, console: Console, trials: int, expected_seconds: float) -> None:
        self._console = console
        self._trials = trials
        self._done = 0
        self._left = expected_seconds
        self._label = ""
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total} trials"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            # The bar's thread shares the machine with what is measured.
            refresh_per_second=2,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=trials, left=_left(expected_seconds))

    def __enter__(self) -> RunProgress:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def trial_started(
        self, cell: Cell, turn: int | str, left_trials: int, left_seconds: float
    ) -> None:
        """``turn``: the number of the round, or what is measured if there are none.

        ``left_…``: of the run, this trial included, as far as can be told now.
        """
        self._trials = self._done + left_trials
        self._left = left_seconds
        self._label = (
            f"{turn if isinstance(turn, str) else f'round {turn}'}: {cell.framework} {cell.mode}, "
            f"{cell.network_spec} b{cell.batch_size}"
        )
        self._bar.update(
            self._task, description=self._label, total=self._trials, left=_left(left_seconds)
        )

    def event(self, event: dict[str, Any]) -> None:
        # The first block of a phase that is timed, all that there is of one that is not.
        if event.get("kind") == "first" or event.get("event") == "memory":
            phase = PHASE_NAMES.get(str(event.get("phase")), "")
            self._bar.update(self._task, description=f"{self._label}: {phase}")

    def trial_ended(self, outcome: Outcome) -> None:
        self._done += 1
        self._bar.update(self._task, completed=self._done)
        if outcome.status != "ok":
            reason = f": {outcome.reason}" if outcome.reason else ""
            self._console.print(
                f"{self._label}: {outcome.status.replace('_', ' ')}{reason}",
                style="red",
                markup=False,
                soft_wrap=True,
            )
        elif not self._console.is_terminal:
            self._console.print(
                f"[{self._done}/{self._trials}] {self._label}: {outcome.seconds:.1f} s"
                + (f", {_left(self._left - outcome.seconds)}" if self._done < self._trials else ""),
                markup=False,
                soft_wrap=True,
            )


def _left(seconds: float) -> str:
    seconds = max(0.0, seconds)
    return f"about {seconds:.0f} s left" if seconds < 90 else f"about {seconds / 60:.0f} min left"
