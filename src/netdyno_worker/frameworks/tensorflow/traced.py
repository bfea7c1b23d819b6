"""Internal memory as TensorFlow's own allocator tells it, from a process of its own."""

from __future__ import annotations

import multiprocessing
from typing import Any, Dict, Union

from netdyno_worker import allocations, memory, trial, weights
from netdyno_worker.frameworks.tensorflow import allocator_trace
from netdyno_worker.protocol import Job

# By phase: bytes, or why they are not known.
Told = Dict[str, Union[int, str]]


def in_another_process(job: Job) -> Told:
    """Internal memory of each of the job's phases.

    The process is forked from this one: before TensorFlow is imported and has threads.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(job, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        found = ours.recv()
    except EOFError:
        found = ""
    process.join()
    if isinstance(found, dict):
        return found
    ended = "the process that traces the allocator ended with {}".format(process.exitcode)
    return dict.fromkeys(job.phases, found or ended)


def _tell(job: Job, pipe: Any) -> None:
    try:
        pipe.send(trace(job))
    except Exception as error:
        pipe.send("the allocator was not traced: {}: {}".format(type(error).__name__, error))


def trace(job: Job) -> Told:
    """Build the cell, and profile one pass of each phase."""
    adapter: Any = trial.adapter_class(job.framework)(job)
    adapter.load(weights.Parameters(job.network, job.seed))
    adapter.set_batch(*weights.batch(job.network, job.batch_size, job.seed))
    return {phase: _internal_bytes(adapter, job, phase) for phase in job.phases}


def _internal_bytes(adapter: Any, job: Job, phase: str) -> Union[int, str]:
    passes = memory.Memory(adapter, job)
    for _ in range(memory.WARM_UP):
        passes.run(phase)
    name = allocator_trace.allocator(job.device)
    try:
        records = allocator_trace.records(adapter.tf, name, lambda: passes.run(phase))
    except allocator_trace.IncompleteTraceError as error:
        return "the trace of the allocator is not complete: {}".format(error)
    if not records:
        return "the pass asked the allocator {} for nothing".format(name)
    return allocations.account(records).peak_bytes
