"""No number for a cell that has not been verified: what ``netdyno run`` asks before it times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from netdyno.environments import Environment
from netdyno.frameworks import framework
from netdyno.parity.certificate import Certificate, CertificateStore
from netdyno.parity.verify import Verifier
from netdyno.plan.cell import Cell
from netdyno.store.run_folder import now

__all__ = ["certify"]


def certify(
    cells: Sequence[Cell],
    environments: Mapping[str, Environment],
    store: CertificateStore,
    verifier: Verifier,
    started: Callable[[Cell], None] = lambda cell: None,
    found_out: Callable[[str, Certificate], None] = lambda key, certificate: None,
) -> dict[str, Certificate]:
    """A certificate for each cell by its key, from the store or from a verification now.

    Cells that differ only in batch size, threads or allocator share one: they run the same code.
    Frameworks that compute nothing (``verifiable = false``) get none. ``started`` is told of each
    verification that has to be made, ``found_out`` of each cell's certificate as it is there.

    Raises:
        NetdynoError: the certificates cannot be kept.
    """
    certificates: dict[str, Certificate] = {}
    made: dict[tuple[str, ...], Certificate] = {}
    # By network: the reference of one network is computed once, and may be a gigabyte.
    for cell in sorted(cells, key=lambda cell: cell.network.hash):
        if not framework(cell.framework).verifiable:
            continue
        environment = environments[cell.framework]
        if cell.way not in made:
            found = store.find(cell, environment)
            # A failure is tried again: it may have been a full memory or a time limit.
            if found is None or not found.passed:
                started(cell)
                found = store.add(verifier.verify(cell, environment), environment, now())
            made[cell.way] = found
        certificates[cell.key] = made[cell.way]
        found_out(cell.key, made[cell.way])
    return certificates
