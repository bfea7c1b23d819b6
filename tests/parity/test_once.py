"""What several threads need is made once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from netdyno.parity.once import Once


def test_those_who_ask_while_it_is_made_wait_for_it() -> None:
    once: Once[int] = Once()
    asked, made = threading.Event(), []

    def make() -> int:
        made.append(1)
        asked.wait(10)
        return 42

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(once.get, "key", make) for _ in range(4)]
        asked.set()
        assert [future.result() for future in futures] == [42] * 4
    assert len(made) == 1


def test_a_failure_is_made_anew() -> None:
    once: Once[int] = Once()

    def fail() -> int:
        raise ValueError("no memory")

    with pytest.raises(ValueError, match="no memory"):
        once.get("key", fail)
    assert once.get("key", lambda: 1) == 1


def test_what_is_not_to_be_kept_or_was_forgotten_is_made_anew() -> None:
    once: Once[int] = Once()
    assert once.get("key", lambda: 1, keep=lambda value: value > 1) == 1
    assert once.get("key", lambda: 2, keep=lambda value: value > 1) == 2
    assert once.get("key", lambda: 3) == 2
    once.forget(["key", "no such key"])
    assert once.get("key", lambda: 3) == 3
