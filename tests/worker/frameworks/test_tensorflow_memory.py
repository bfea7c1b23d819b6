"""How TensorFlow's figures of memory are read, without TensorFlow."""

from __future__ import annotations

import os

import pytest

from netdyno_worker.frameworks.tensorflow import allocator_trace, traced
from netdyno_worker.frameworks.tensorflow.allocator_trace import Event
from netdyno_worker.frameworks.tensorflow.memory import planned_bytes
from netdyno_worker.protocol import Job

# XLA's, of two convolutions with a ReLU between; shortened.
BUFFER_ASSIGNMENT = """BufferAssignment:
allocation 0: size 131072, parameter 0, shape |f32[4,32,32,8]| at ShapeIndex {}:
 value: <10 arg0.1 @0> (size=131072,offset=0): f32[4,32,32,8]{3,2,1,0}
allocation 2: size 4, output shape is |f32[]|, maybe-live-out:
allocation 3: size 4, constant:
allocation 4: size 4, thread-local:
allocation 7: size 262144, preallocated-temp:
 value: <12 Conv2D.1 @0> (size=131072,offset=131072): f32[4,32,32,8]{3,2,1,0}
 value: <14 Conv2D_1.1 @0> (size=131072,offset=0): f32[4,32,32,8]{3,2,1,0}
allocation 8: size 1000, preallocated-temp:

Total bytes used: 396540 (387.2KiB)
"""


def test_what_is_planned_for_temporaries_alone() -> None:
    assert planned_bytes(BUFFER_ASSIGNMENT) == 262144 + 1000


# Two blocks of 100 bytes for which the pool gives 256, over 512 that were there before.
EVENTS = [
    Event(1, False, 0xA, 100, 256, 768),
    Event(2, False, 0xB, 100, 256, 1024),
    Event(3, True, 0xA, 100, 256, 768),
    Event(4, True, 0xB, 100, 256, 512),
]


def test_a_trace_that_agrees_with_the_allocators_total_is_complete() -> None:
    allocator_trace.check(EVENTS)
    allocator_trace.check([])


@pytest.mark.parametrize("lost", [1, 2])
def test_an_event_that_is_lost_is_noticed(lost: int) -> None:
    with pytest.raises(allocator_trace.IncompleteTraceError):
        allocator_trace.check(EVENTS[:lost] + EVENTS[lost + 1 :])


def test_events_out_of_order_are_noticed() -> None:
    with pytest.raises(allocator_trace.IncompleteTraceError):
        allocator_trace.check([EVENTS[0], EVENTS[2], EVENTS[1], EVENTS[3]])


def test_the_allocator_of_a_device() -> None:
    assert allocator_trace.allocator("cpu") == "mklcpu"
    assert allocator_trace.allocator("cuda:1") == "GPU_1_bfc"


FORKED = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@FORKED
def test_what_the_other_process_finds(
    job_data: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job.from_json(job_data)
    here = os.getpid()
    told = dict.fromkeys(job.phases, 5)
    monkeypatch.setattr(traced, "trace", lambda job: told if os.getpid() != here else {})
    assert traced.in_another_process(job) == told


@FORKED
def test_the_other_process_fails_and_says_why(
    job_data: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job.from_json(job_data)

    def fail(job: Job) -> traced.Told:
        raise MemoryError("too large")

    monkeypatch.setattr(traced, "trace", fail)
    found = traced.in_another_process(job)
    assert list(found) == list(job.phases)
    assert set(found.values()) == {"the allocator was not traced: MemoryError: too large"}


@FORKED
def test_the_other_process_dies(
    job_data: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job.from_json(job_data)
    monkeypatch.setattr(traced, "trace", lambda job: os._exit(3))
    (reason,) = set(traced.in_another_process(job).values())
    assert reason == "the process that traces the allocator ended with 3"
