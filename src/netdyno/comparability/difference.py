"""One difference between two fingerprints, and the rule that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from netdyno.comparability.fingerprint import Fingerprint
from netdyno.redact import printable

__all__ = [
    "NONE",
    "SEVERITY",
    "UNKNOWN",
    "WORK_ON_GPU",
    "Difference",
    "Fact",
    "Kind",
    "between",
    "text",
    "worst_first",
]

Kind = Literal["like-for-like", "as-shipped", "invalid"]

SEVERITY: dict[Kind, int] = {"like-for-like": 0, "as-shipped": 1, "invalid": 2}

UNKNOWN = "unknown"
NONE = "none"
# Of what belongs to the CPU, where both cells are on a GPU.
WORK_ON_GPU = "It belongs to the CPU, and the work is done on the GPU."
UNTOLD = "One side does not tell, so nobody can say that they are equal."


@dataclass(frozen=True)
class Difference:
    """``kind`` is what this difference alone makes of a comparison; like-for-like: it is noted.

    Args:
        what: the fact, in a few words.
        a, b: its values, ``unknown`` where one was not recorded.
        why: one sentence: why it matters, and what to do where something can be done.
    """

    what: str
    a: str
    b: str
    kind: Kind
    why: str


@dataclass(frozen=True)
class Fact:
    """A rule for a value that is equal or not. ``read`` gives None for what is unknown."""

    what: str
    read: Callable[[Fingerprint], Any]
    kind: Kind
    why: str
    show: Callable[[Any], str] = str

    def compare(self, a: Fingerprint, b: Fingerprint) -> Difference | None:
        return between(self.what, self.read(a), self.read(b), self.kind, self.why, self.show)


def between(
    what: str,
    a: Any,
    b: Any,
    kind: Kind,
    why: str,
    show: Callable[[Any], str] = str,
) -> Difference | None:
    """None if the values are equal. One that is not known is as-shipped at worst.

    Invalid would be too much: some frameworks cannot tell (a Caffe whose BLAS does not give its
    thread count), and nothing could ever be compared with them.
    """
    if a == b:
        return None
    if a is None or b is None:
        kind, why = ("as-shipped" if kind == "invalid" else kind), UNTOLD
    return Difference(text(what), _shown(a, show), _shown(b, show), kind, text(why))


def text(value: Any) -> str:
    """One printable line: run folders may come from anywhere."""
    return printable(str(value))


def worst_first(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    return tuple(sorted(differences, key=lambda found: -SEVERITY[found.kind]))


def _shown(value: Any, show: Callable[[Any], str]) -> str:
    return UNKNOWN if value is None else text(show(value))
