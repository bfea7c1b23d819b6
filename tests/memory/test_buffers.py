from __future__ import annotations

from netdyno.memory.buffers import Ideal, Pooled, Separate


def test_separate_buffers_never_serve_twice() -> None:
    buffers = Separate()
    buffers.release(buffers.request(10))
    buffers.request(10)
    assert buffers.total_bytes == 20


def test_the_smallest_large_enough_buffer_is_taken() -> None:
    buffers = Pooled()
    small, large, exact = (buffers.request(size) for size in (60, 200, 100))
    for buffer in (large, exact, small):
        buffers.release(buffer)
    assert buffers.request(100) == exact
    assert buffers.request(100) == large
    assert buffers.request(100) == small  # it grows
    assert buffers.total_bytes == 100 + 200 + 100


def test_a_grown_buffer_keeps_its_size() -> None:
    buffers = Pooled()
    buffers.release(buffers.request(50))
    buffers.release(buffers.request(100))
    buffers.release(buffers.request(70))
    assert buffers.total_bytes == 100


def test_buffers_beyond_the_range_are_left_alone() -> None:
    buffers = Pooled(match_range=16)
    buffers.release(buffers.request(1600))
    assert buffers.request(99) == 1
    assert buffers.request(100) == 0
    buffers = Pooled(match_range=16)
    buffers.release(buffers.request(10))
    assert buffers.request(176) == 1  # 176 // 16 is 11
    assert buffers.request(175) == 0


def test_of_equal_buffers_the_first_released_is_taken_unless_it_must_grow() -> None:
    buffers = Pooled()
    first, second = buffers.request(10), buffers.request(10)
    buffers.release(second)
    buffers.release(first)
    assert buffers.request(10) == second
    buffers.release(second)  # now released last
    assert buffers.request(20) == second


def test_ideal_memory_is_the_peak_of_what_is_in_use() -> None:
    buffers = Ideal()
    first = buffers.request(30)
    buffers.release(buffers.request(50))
    buffers.release(first)
    buffers.request(60)
    assert buffers.total_bytes == 80
