"""Arrays by name that come to the host one at a time: a network's may be a gigabyte together."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, Mapping

import numpy as np


class Lazy(Mapping[str, np.ndarray]):
    """``get(name)`` for each of ``names``, called whenever that one is asked for.

    What it gives is the state at that time, and may be a view of the framework's own memory.
    """

    def __init__(self, names: Iterable[str], get: Callable[[str], np.ndarray]) -> None:
        self._names = tuple(names)
        self._known = frozenset(self._names)
        self._get = get

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._known:
            raise KeyError(name)
        return self._get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
