"""Gives every value of a schedule a buffer, by counting who still reads it."""

from __future__ import annotations

from collections import Counter

from netdyno.memory.buffers import Buffers
from netdyno.memory.schedule import Operation, Schedule

__all__ = ["assign"]


def assign(schedule: Schedule, buffers: Buffers, *, in_place: bool) -> list[int]:
    """The buffer of each value, by the value's number.

    An operation's outputs get theirs before its inputs are released. With ``in_place``, an output
    takes over an input's buffer where a rule allows it, both have the same size, and the
    operation is the last to read it; a view shares it in any case. This is ``MXAllocMemory`` in
    ``src/nnvm/plan_memory.cc`` of apache/mxnet 1.9.1.
    """
    readers = Counter(value for operation in schedule.operations for value in operation.reads)
    buffer_of = [-1] * len(schedule.value_bytes)
    pending: Counter[int] = Counter()  # by buffer: reads to come
    for operation in schedule.operations:
        if in_place:
            _take_over(operation, schedule, readers, buffer_of, pending)
        for value in operation.writes:
            if buffer_of[value] < 0:
                buffer_of[value] = buffers.request(schedule.value_bytes[value])
                pending[buffer_of[value]] = readers[value]
        for value in operation.reads:
            pending[buffer_of[value]] -= 1
            if not pending[buffer_of[value]]:
                buffers.release(buffer_of[value])
        for value in operation.writes:
            if not readers[value]:
                buffers.release(buffer_of[value])
    return buffer_of


def _take_over(
    operation: Operation,
    schedule: Schedule,
    readers: Counter[int],
    buffer_of: list[int],
    pending: Counter[int],
) -> None:
    taken = set()
    for reuse in operation.reuses:
        buffer = buffer_of[reuse.source]
        last = pending[buffer] == 1 and reuse.source not in taken
        same_size = schedule.value_bytes[reuse.source] == schedule.value_bytes[reuse.target]
        free = buffer_of[reuse.target] < 0 and readers[reuse.target] > 0
        if free and same_size and (last or reuse.view):
            taken.add(reuse.source)
            buffer_of[reuse.target] = buffer
            pending[buffer] += readers[reuse.target]
