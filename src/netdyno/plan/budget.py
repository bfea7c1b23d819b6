"""Whether there is time for one more trial."""

from __future__ import annotations

from collections import defaultdict

from netdyno.plan.cell import Cell

__all__ = ["Budget"]


class Budget:
    """Knows how long trials take: from estimates at first, then from trials like them.

    Args:
        limit_seconds: of the whole run; None for no limit.
        estimates: seconds of a trial by cell key, before any was run.
    """

    def __init__(self, limit_seconds: float | None, estimates: dict[str, float]) -> None:
        self.limit_seconds = limit_seconds
        self._estimates = estimates
        self._seen: dict[str, list[float]] = defaultdict(list)

    def record(self, cell: Cell, seconds: float) -> None:
        self._seen[cell.key].append(seconds)

    def expected_seconds(self, cell: Cell) -> float:
        """Mean of the cell's trials; before there is one, its estimate, corrected by the others."""
        seen = self._seen.get(cell.key)
        if seen:
            return sum(seen) / len(seen)
        return self._estimates[cell.key] * self._correction()

    def _correction(self) -> float:
        measured = sum(sum(times) / len(times) for times in self._seen.values())
        estimated = sum(self._estimates[key] for key in self._seen)
        return measured / estimated if estimated and measured else 1.0

    def allows(self, cell: Cell, elapsed_seconds: float) -> bool:
        """Whether a trial of ``cell`` would end within the limit.

        A cell that has never been measured is only refused when the limit has passed: a
        comparison with a hole in it is worth less than a few seconds.
        """
        if self.limit_seconds is None:
            return True
        if cell.key not in self._seen:
            return elapsed_seconds < self.limit_seconds
        return elapsed_seconds + self.expected_seconds(cell) <= self.limit_seconds
