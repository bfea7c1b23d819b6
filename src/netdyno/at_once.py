"""Several workers at once, for what is not timed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TypeVar

from netdyno.host.cpu import cpu, memory_bytes
from netdyno.plan.cell import Cell

__all__ = ["at_once", "jobs_for", "sharing"]

T = TypeVar("T")

# Of the host, for gradients and updates of some 140 million parameters and what they are held
# against.
JOB_BYTES = 12e9
MOST = 8
# Most of what a worker does while nothing is timed is Python's, on one core.
CORES = 2
# For each core of a worker's share: seldom do all of them compile at the same time.
THREADS = 2


def jobs_for(cells: Sequence[Cell]) -> int:
    """How many of ``cells`` may run at once on this host while nothing is timed.

    One on a processor, where each uses all cores.
    """
    if any(cell.device == "cpu" for cell in cells):
        return 1
    return max(1, min(MOST, cpu().usable_cores // CORES, int(memory_bytes() // JOB_BYTES)))


def sharing(cell: Cell, jobs: int) -> Cell:
    """``cell`` on few threads: those that wait for a core take it from others."""
    if jobs == 1:
        return cell
    return dataclasses.replace(cell, threads=max(1, THREADS * cpu().usable_cores // jobs))


def at_once(
    tasks: Iterable[tuple[Cell | None, Callable[[], T]]], jobs: int, stop: Callable[[], None]
) -> Iterator[tuple[Cell, T]]:
    """Run ``tasks`` in their order, ``jobs`` at a time; each cell's result as it is there.

    Tasks without a cell are for the sake of others: nothing is told of them, not even an error.
    ``stop`` must end what is under way: it is called when the caller stops, is interrupted, or a
    task raises, which is raised here.
    """
    pool = ThreadPoolExecutor(jobs)
    try:
        futures: dict[Future[T], Cell] = {}
        for cell, task in tasks:
            future = pool.submit(task)
            if cell is not None:
                futures[future] = cell
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
