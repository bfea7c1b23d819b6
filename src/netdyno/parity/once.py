"""What several verifications side by side need is computed by the first that asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

__all__ = ["Once"]

T = TypeVar("T")


class Once(Generic[T]):
    """Values by key; whoever asks while one is being made waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Hashable, Future[T]] = {}

    def get(
        self, key: Hashable, make: Callable[[], T], keep: Callable[[T], bool] = lambda value: True
    ) -> T:
        """The value of ``key``, from ``make`` if nobody has made it.

        What ``make`` raises, and a value that ``keep`` is false of, goes to all who wait and is
        made anew for whoever asks later.
        """
        with self._lock:
            future = self._found.get(key)
            if future is None:
                mine = self._found[key] = Future()
        if future is not None:
            return future.result()
        try:
            value = make()
        except BaseException as error:
            self.forget([key])
            mine.set_exception(error)
            raise
        if not keep(value):
            self.forget([key])
        mine.set_result(value)
        return value

    def forget(self, keys: list[Hashable]) -> None:
        with self._lock:
            for key in keys:
                self._found.pop(key, None)
