"""Many cells at once: whether a table may rank them, and what it prints underneath."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from netdyno.comparability.difference import SEVERITY, Difference, Kind
from netdyno.comparability.fingerprint import Fingerprint
from netdyno.comparability.judgement import verdict, worst

__all__ = ["differences_summary", "grouping"]


def grouping(fingerprints: Sequence[Fingerprint]) -> Kind:
    """The worst verdict of any two. Cells without a good trial have no rank and do not count."""
    measured = [found for found in fingerprints if found.trial]
    return worst(verdict(a, b).kind for a, b in itertools.combinations(measured, 2))


def differences_summary(fingerprints: Mapping[str, Fingerprint]) -> list[str]:
    """A line for each difference that matters between any two, with the values of all, worst first.

    ``oneDNN: MXNet 2.4.4, PyTorch 3.7.1, JAX none — Convolutions … run in it: …``. Keys are what
    rows are called. Cells without a good trial are left out.
    """
    rows = {label: found for label, found in fingerprints.items() if found.trial}
    values: dict[str, dict[str, str]] = {}
    deciding: dict[str, Difference] = {}
    for (first, a), (second, b) in itertools.combinations(rows.items(), 2):
        for found in verdict(a, b).differences:
            values.setdefault(found.what, {}).update({first: found.a, second: found.b})
            if _is_worse(found, deciding.get(found.what)):
                deciding[found.what] = found
    matters = [what for what, found in deciding.items() if found.kind != "like-for-like"]
    order = sorted(matters, key=lambda what: -SEVERITY[deciding[what].kind])
    return [
        _line(what, [row for row in rows if row in values[what]], values[what], deciding[what])
        for what in order
    ]


def _is_worse(found: Difference, known: Difference | None) -> bool:
    return known is None or SEVERITY[found.kind] > SEVERITY[known.kind]


def _line(what: str, rows: list[str], values: Mapping[str, str], deciding: Difference) -> str:
    listed = ", ".join(f"{row} {values[row]}" for row in rows)
    return f"{what}: {listed} — {deciding.why}"
