"""Several cells verified at once: it times nothing, so on a GPU it need not take turns."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial

from netdyno.at_once import at_once, sharing
from netdyno.environments import Environment
from netdyno.frameworks import framework
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
    if jobs == 1:
        # By network: what it is held against may be gigabytes, and is dropped with its last cell.
        order = sorted(cells, key=lambda cell: (cell.network.hash, cell.precision))
    else:
        # By precision: those that share their check in double precision would wait for it. Those
        # that compile long come first, since nobody works beside the last.
        order = sorted(cells, key=lambda c: (c.precision, -_compiling_seconds(c), c.network.hash))
    left = Counter(cell.network.hash for cell in order)

    def verify(cell: Cell) -> Verification:
        started(cell)
        found = verifier.verify(sharing(cell, jobs), environments[cell.framework])
        return dataclasses.replace(found, cell=cell)

    tasks: list[tuple[Cell | None, Callable[[], Verification]]] = []
    known: set[Hashable] = set()
    for cell in order:
        if jobs > 1 and cell.network.hash not in known:
            known.add(cell.network.hash)
            tasks += [(None, compute) for compute in verifier.references(cell.network)]
        alike = dataclasses.replace(cell, precision="").way
        if jobs > 1 and alike not in known:
            known.add(alike)
            strict = verifier.strict(sharing(cell, jobs), environments[cell.framework])
            if strict:
                tasks.append((None, strict))
        tasks.append((cell, partial(verify, cell)))
    for cell, verification in at_once(tasks, jobs, verifier.stop):
        left[cell.network.hash] -= 1
        if not left[cell.network.hash]:
            verifier.forget(cell.network)
        yield cell, verification


def _compiling_seconds(cell: Cell) -> float:
    return framework(cell.framework).mode(cell.mode).first_iteration_seconds
