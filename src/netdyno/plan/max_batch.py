"""The largest batch that fits: which one to try next, from those that were tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Attempt", "largest", "next_try"]

# Beyond what is known to fit, no further than this at once: growth need not be linear.
STRIDE = 8


@dataclass(frozen=True)
class Attempt:
    """One batch size: whether it fitted, and how many bytes were held then, if that is known."""

    batch_size: int
    fits: bool
    total_bytes: int | None = None


def largest(
    attempt: Callable[[int], Attempt], *, start: int, most: int, limit_bytes: int | None
) -> list[Attempt]:
    """Try batch sizes until the largest that fits, up to ``most``, is known.

    ``limit_bytes`` makes guesses better; what fits is decided by trying alone.
    """
    tried: list[Attempt] = []
    batch_size: int | None = min(start, most)
    while batch_size is not None:
        tried.append(attempt(batch_size))
        batch_size = next_try(tried, most=most, limit_bytes=limit_bytes)
    return tried


def next_try(tried: list[Attempt], *, most: int, limit_bytes: int | None) -> int | None:
    """None when the largest batch that fits is known: the next one was tried, or is too large.

    A failed attempt at 0 images says that there is none.
    """
    low = max((a.batch_size for a in tried if a.fits), default=0)
    high = min((a.batch_size for a in tried if not a.fits), default=most + 1)
    if high - low <= 1:
        return None
    guess = min(_extrapolated(tried, limit_bytes) or 0, STRIDE * low)
    # A guess every other time: one that is wrong by little would creep, halving never does.
    if low < guess < high and len(tried) % 2 == 0:
        return guess
    if high > most:
        return min(2 * low, most) if low else high // 2
    return (low + high) // 2


def _extrapolated(tried: list[Attempt], limit_bytes: int | None) -> int | None:
    """Where the line through the two largest that fitted meets the limit."""
    known = sorted(
        (a.batch_size, a.total_bytes) for a in tried if a.fits and a.total_bytes is not None
    )
    if limit_bytes is None or len(known) < 2:
        return None
    (first, less), (second, more) = known[-2:]
    if more <= less:
        return None
    return int(second + (limit_bytes - more) * (second - first) / (more - less))
