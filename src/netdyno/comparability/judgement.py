"""Two fingerprints -> whether they may be compared, with each difference and why it matters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from netdyno.comparability import axes, libraries, machine, process
from netdyno.comparability.difference import SEVERITY, Difference, Kind, worst_first
from netdyno.comparability.fingerprint import Fingerprint, fingerprint_of, fingerprints_of
from netdyno.store.run import Run

__all__ = ["Verdict", "inconsistencies", "verdict", "worst"]


@dataclass(frozen=True)
class Verdict:
    """``kind`` is that of the worst difference; ``differences`` has the worst first."""

    kind: Kind
    differences: tuple[Difference, ...]


def verdict(a: Fingerprint, b: Fingerprint) -> Verdict:
    """Whether the figures of two cells may be held against each other, and as what.

    Framework and mode are the subject of a comparison and never a difference. The order of ``a``
    and ``b`` does not change the kind.
    """
    found = [*axes.differences(a, b), *machine.differences(a, b)]
    if bool(a.trial) != bool(b.trial):
        found.append(_unmeasured(a, b))
    elif a.trial:
        found += [*process.differences(a, b), *libraries.differences(a, b)]
    differences = worst_first(difference for difference in found if difference)
    return Verdict(worst(difference.kind for difference in differences), differences)


def inconsistencies(run: Run, key: str) -> tuple[Difference, ...]:
    """How good trials of ONE cell differ from its first, worst first: an upgrade meanwhile, say.

    ``a`` is the first trial's value. A kind that is not like-for-like says that the cell's trials
    are no sample of one thing.

    Raises:
        NetdynoError: the run has no such cell.
    """
    first = fingerprint_of(run, key)
    found = (
        difference
        for other in fingerprints_of(run, key)
        for difference in verdict(first, other).differences
    )
    return worst_first(dict.fromkeys(found))


def worst(kinds: Iterable[Kind]) -> Kind:
    return max(kinds, key=lambda kind: SEVERITY[kind], default="like-for-like")


def _unmeasured(a: Fingerprint, b: Fingerprint) -> Difference:
    return Difference(
        "good trials",
        "some" if a.trial else "none",
        "some" if b.trial else "none",
        "invalid",
        "One side has no good trial: there is no figure to compare.",
    )
