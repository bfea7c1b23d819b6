"""The only place that reads a clock or the process's own account of its work."""

from __future__ import annotations

import resource
import time
from typing import Dict, Union

now = time.perf_counter

Usage = Dict[str, Union[int, float]]


def usage() -> Usage:
    """What this process, all its threads together, has used so far."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "user_seconds": own.ru_utime,
        "system_seconds": own.ru_stime,
        "minor_faults": own.ru_minflt,
        "major_faults": own.ru_majflt,
    }


def used_since(before: Usage) -> Usage:
    """The difference to an earlier ``usage()``, rounded to microseconds."""
    return {key: round(value - before[key], 6) for key, value in usage().items()}
