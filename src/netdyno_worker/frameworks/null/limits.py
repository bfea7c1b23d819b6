"""The null framework's limits: additions, to test everything around it. They say nothing of a
device.
"""

from __future__ import annotations

from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.limits import Limits as Base
from netdyno_worker.limits import Step


class Limits(Base):
    def product(self, precision: str, rows: int) -> Step:
        if precision != "fp32":
            raise UnsupportedError("it counts in fp32 only")
        return lambda: self._add(rows)

    def copy(self, size: int) -> Step:
        return lambda: self._add(size >> 20)

    def smallest(self) -> Step:
        return lambda: self._add(1)

    def _add(self, count: int) -> None:
        sum(range(count))
