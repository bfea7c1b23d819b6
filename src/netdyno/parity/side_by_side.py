"""Several cells verified at once: it times nothing, so on a GPU it need not take turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from itertools import groupby

from netdyno.environments import Environment
from netdyno.host.cpu import cpu, memory_bytes
from netdyno.parity.verify import Verification, Verifier
from netdyno.plan.cell import Cell

__all__ = ["jobs_for", "side_by_side"]

# A worker starts Python, compiles, and waits for the GPU: most of it on one core.
CORES = 2
# Of the host, for gradients and updates of some 140 million parameters and what they are held
# against.
JOB_BYTES = 12e9
MOST = 8


def jobs_for(cells: Sequence[Cell]) -> int:
    """How many of ``cells`` to verify at once on this host.

    One at a time on a processor, where each uses all cores.
    """
    if any(cell.device == "cpu" for cell in cells):
        return 1
    return max(1, min(MOST, cpu().usable_cores // CORES, int(memory_bytes() // JOB_BYTES)))


def side_by_side(
    cells: Sequence[Cell],
    environments: Mapping[str, Environment],
    verifier: Verifier,
    jobs: int,
    started: Callable[[Cell], None] = lambda cell: None,
) -> Iterator[tuple[Cell, Verification]]:
    """Verify ``cells``, ``jobs`` at a time; each is yielded as it is done.

    ``started`` is told of each as it begins, from another thread. When the caller stops, or is
    interrupted, what is under way is ended first.

    Raises:
        NetdynoError: the reference failed.
    """
    # By network: what it is held against may be gigabytes, and is dropped with its last cell.
    # Then by precision: those that share their check in double precision would wait for it.
    order = sorted(cells, key=lambda cell: (cell.network.hash, cell.precision))
    left = Counter(cell.network.hash for cell in order)

    def verify(cell: Cell) -> Verification:
        started(cell)
        return verifier.verify(cell, environments[cell.framework])

    pool = ThreadPoolExecutor(jobs)
    try:
        futures: dict[Future[Verification], Cell] = {}
        for network, members in groupby(order, key=lambda cell: cell.network):
            if jobs > 1:  # else the reference would only take the place of what waits for it
                for compute in verifier.references(network):
                    pool.submit(compute)
            futures.update((pool.submit(verify, cell), cell) for cell in members)
        for future in as_completed(futures):
            cell = futures[future]
            left[cell.network.hash] -= 1
            if not left[cell.network.hash]:
                verifier.forget(cell.network)
            yield cell, future.result()
    except BaseException:
        verifier.stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
