"""How a trial ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Outcome", "Status"]

Status = Literal["ok", "skipped", "failed", "timed_out", "out_of_memory", "diverged", "interrupted"]


@dataclass(frozen=True)
class Outcome:
    """``reason`` is one line for a person, empty when ``status`` is ``ok``."""

    status: Status
    reason: str = ""
    seconds: float = 0.0
