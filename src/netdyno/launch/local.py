"""One process on this machine."""

from __future__ import annotations

from pathlib import Path

from netdyno.environments import Environment
from netdyno.frameworks import WORKER_ROOT
from netdyno.plan.cell import Cell

__all__ = ["command", "environ"]

# glibc: one arena, nothing mapped on its own, nothing ever given back. What was freed in one
# iteration is what the next one gets, with its pages in place.
RETAIN = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
}

# Both ways to set glibc's malloc from outside.
MALLOC_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES")

# Read by OpenMP, MKL and OpenBLAS when they are loaded. Frameworks that obey none of them set
# their own in ``Adapter.prepare``.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def command(environment: Environment, job: Path, events: Path) -> list[str]:
    """The worker's command line. ``-u``: what it prints before a crash is not lost."""
    return [str(environment.python), "-u", str(WORKER_ROOT / "__main__.py"), str(job), str(events)]


def environ(environment: Environment, cell: Cell, scratch: Path) -> dict[str, str]:
    """All variables of the worker. The caller's own malloc settings never reach it."""
    extra = dict.fromkeys(THREAD_VARIABLES, str(cell.threads))
    extra["TMPDIR"] = str(scratch)
    extra["PYTHONDONTWRITEBYTECODE"] = "1"
    found = {
        key: value
        for key, value in environment.environ(extra).items()
        if not key.startswith(MALLOC_VARIABLES)
    }
    return {**found, **RETAIN} if cell.host_allocator == "retain" else found
