"""No number for a cell that has not been verified: what ``netdyno run`` asks before it times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from netdyno.at_once import jobs_for
from netdyno.environments import Environment
from netdyno.frameworks import framework
from netdyno.parity.certificate import Certificate, CertificateStore
from netdyno.parity.side_by_side import side_by_side
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
    jobs: int | None = None,
) -> dict[str, Certificate]:
    """A certificate for each cell by its key, from the store or from a verification now.

    Cells that differ only in batch size, threads or allocator share one: they run the same code.
    Frameworks that compute nothing (``verifiable = false``) get none. ``started`` is told of each
    verification that has to be made, ``found_out`` of each cell's certificate as it is there.
    ``jobs``: verifications at once; by default as many as suit the machine.

    Raises:
        NetdynoError: the certificates cannot be kept.
    """
    certificates: dict[str, Certificate] = {}
    alike: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        if framework(cell.framework).verifiable:
            alike.setdefault(cell.way, []).append(cell)

    def found(way: tuple[str, ...], certificate: Certificate) -> None:
        for cell in alike[way]:
            certificates[cell.key] = certificate
            found_out(cell.key, certificate)

    missing = []
    for way, (cell, *_) in alike.items():
        certificate = store.find(cell, environments[cell.framework])
        # A failure is tried again: it may have been a full memory or a time limit.
        if certificate and certificate.passed:
            found(way, certificate)
        else:
            missing.append(cell)
    for cell, verification in side_by_side(
        missing, environments, verifier, jobs or jobs_for(missing), started
    ):
        found(cell.way, store.add(verification, environments[cell.framework], now()))
    return certificates
