"""The only place that reads a clock or a process's account of its work."""

from __future__ import annotations

import os
import resource
import time
from typing import Dict, Optional, Union

now = time.perf_counter

Usage = Dict[str, Union[int, float]]


def usage(process_id: Optional[int] = None) -> Usage:
    """What a process, this one by default, all its threads together, has used so far.

    Another process is asked through ``/proc`` (Linux), which counts time in ticks of 10 ms.
    """
    if process_id is not None:
        return _usage_of(process_id)
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "user_seconds": own.ru_utime,
        "system_seconds": own.ru_stime,
        "minor_faults": own.ru_minflt,
        "major_faults": own.ru_majflt,
    }


def used_since(before: Usage, process_id: Optional[int] = None) -> Usage:
    """The difference to an earlier ``usage(process_id)``, rounded to microseconds."""
    return {key: round(value - before[key], 6) for key, value in usage(process_id).items()}


def processor_seconds(process_id: Optional[int] = None) -> float:
    """Processor time of this process and of its children that have ended, all threads together.

    ``process_id``: of a child that does the work, whose time so far is added.
    """
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    if process_id is not None:
        child = _usage_of(process_id)
        seconds += child["user_seconds"] + child["system_seconds"]
    return seconds


def _usage_of(process_id: int) -> Usage:
    with open("/proc/{}/stat".format(process_id), encoding="utf-8", errors="replace") as file:
        # The name of the program, in brackets, may hold blanks. After it comes field 3 of proc(5).
        fields = file.read().rpartition(")")[2].split()
    tick = os.sysconf("SC_CLK_TCK")
    return {
        "user_seconds": int(fields[11]) / tick,
        "system_seconds": int(fields[12]) / tick,
        "minor_faults": int(fields[7]),
        "major_faults": int(fields[9]),
    }
