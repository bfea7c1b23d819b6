from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from netdyno_worker import growth, resident
from netdyno_worker.growth import Growth

# More than glibc's largest threshold: such blocks go back to the system once they are freed.
BLOCK_BYTES = 2**26

CHILD = """
import sys
for line in sys.stdin:
    block = b"x" * int(line)
    del block
    print("done", flush=True)
"""


def test_what_is_freed_within_is_the_peak_and_what_stays_is_kept() -> None:
    instrument = Growth(None)
    assert instrument.problem == ""
    kept = []

    def work() -> None:
        first, second = np.ones(BLOCK_BYTES, np.uint8), np.ones(BLOCK_BYTES, np.uint8)
        del first, second
        kept.append(np.ones(BLOCK_BYTES, np.uint8))

    seen = instrument.watch(work)
    assert seen.peak_bytes == pytest.approx(2 * BLOCK_BYTES, rel=0.05)
    assert seen.kept_bytes == pytest.approx(BLOCK_BYTES, rel=0.05)


def test_an_earlier_peak_does_not_count() -> None:
    block = np.ones(2 * BLOCK_BYTES, np.uint8)
    del block
    seen = Growth(None).watch(lambda: None)
    assert abs(seen.peak_bytes) < growth.SLACK_BYTES


def test_another_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin
        assert child.stdout

        def work() -> None:
            assert child.stdin
            assert child.stdout
            child.stdin.write(f"{BLOCK_BYTES}\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"

        work_before = Growth(child.pid)
        work()  # what Python allocates at the first line
        seen = work_before.watch(work)
        child.stdin.close()
    assert seen.peak_bytes == pytest.approx(BLOCK_BYTES, rel=0.05)


def test_a_peak_that_does_not_begin_anew_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    resident.reset_peak()
    block = np.ones(BLOCK_BYTES, np.uint8)
    del block
    monkeypatch.setattr(resident, "reset_peak", lambda process_id=None: None)
    assert "begin anew" in Growth(None).problem


def test_a_system_that_does_not_tell_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "peak_bytes", lambda process_id=None: None)
    assert "begin anew" in Growth(None).problem
