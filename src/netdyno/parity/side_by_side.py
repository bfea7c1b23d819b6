"""Several cells verified at once: it times nothing, so on a GPU it need not take turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

from netdyno.at_once import at_once
from netdyno.environments import Environment
from netdyno.parity.verify import Verification, Verifier
from netdyno.plan.cell import Cell

__all__ = ["side_by_side"]


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

    tasks: list[tuple[Cell | None, Callable[[], Verification]]] = []
    for network, members in groupby(order, key=lambda cell: cell.network):
        if jobs > 1:  # else the reference would only take the place of what waits for it
            tasks += [(None, compute) for compute in verifier.references(network)]
        tasks += [(cell, partial(verify, cell)) for cell in members]
    for cell, verification in at_once(tasks, jobs, verifier.stop):
        left[cell.network.hash] -= 1
        if not left[cell.network.hash]:
            verifier.forget(cell.network)
        yield cell, verification
