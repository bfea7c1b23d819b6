"""Where buffers come from: the three ways to serve requests for memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Protocol

__all__ = ["Buffers", "Ideal", "Pooled", "Separate"]


class Buffers(Protocol):
    """Hands out buffers and takes them back; ``total_bytes`` is what all of it needed."""

    @property
    def total_bytes(self) -> int: ...

    def request(self, size_bytes: int) -> int:
        """The number of a buffer of at least this size."""

    def release(self, buffer: int) -> None:
        """Nobody needs its contents any more."""


class Separate:
    """A new buffer for every request."""

    def __init__(self) -> None:
        self._sizes: list[int] = []

    @property
    def total_bytes(self) -> int:
        return sum(self._sizes)

    def request(self, size_bytes: int) -> int:
        self._sizes.append(size_bytes)
        return len(self._sizes) - 1

    def release(self, buffer: int) -> None:
        pass


class Pooled:
    """Serves a request from what was released, as MXNet does.

    The smallest free buffer that is large enough is taken, unless it is more than
    ``match_range`` times too large; else the largest one that is too small, by up to the same
    factor, and it grows; else a new one. Of equal ones the first released is taken when it is
    large enough, the last when it must grow (``Request`` in ``src/nnvm/plan_memory.cc`` of
    apache/mxnet 1.9.1; the same in ``src/symbol/graph_memory_allocator.h`` of 2015).
    """

    def __init__(self, match_range: int = 16) -> None:
        self.match_range = match_range
        self._sizes: list[int] = []
        self._free: list[tuple[int, int, int]] = []  # size, order of release, buffer
        self._releases = 0

    @property
    def total_bytes(self) -> int:
        return sum(self._sizes)

    def request(self, size_bytes: int) -> int:
        place = bisect_left(self._free, (size_bytes,))
        larger = place < len(self._free)
        if larger and self._free[place][0] <= size_bytes * self.match_range:
            return self._free.pop(place)[2]
        if place and self._free[place - 1][0] >= size_bytes // self.match_range:
            buffer = self._free.pop(place - 1)[2]
            self._sizes[buffer] = size_bytes
            return buffer
        self._sizes.append(size_bytes)
        return len(self._sizes) - 1

    def release(self, buffer: int) -> None:
        insort(self._free, (self._sizes[buffer], self._releases, buffer))
        self._releases += 1


class Ideal:
    """Needs no more than what is in use at the worst moment, as if memory could be moved."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._in_use_bytes = 0
        self._peak_bytes = 0

    @property
    def total_bytes(self) -> int:
        return self._peak_bytes

    def request(self, size_bytes: int) -> int:
        self._sizes.append(size_bytes)
        self._in_use_bytes += size_bytes
        self._peak_bytes = max(self._peak_bytes, self._in_use_bytes)
        return len(self._sizes) - 1

    def release(self, buffer: int) -> None:
        self._in_use_bytes -= self._sizes[buffer]
