"""The lower bound again, by trying every combination of buffers that may be taken over."""

from __future__ import annotations

from itertools import combinations

import pytest

from netdyno.memory import MXNET_1_9, MXNET_2015, PLAIN, RuleSet, lower_bound
from netdyno.memory.schedule import Reuse, Schedule, expand
from netdyno.networks import Network
from netdyno.networks.builder import Builder

Chosen = tuple[tuple[int, Reuse], ...]  # with the step at which each happens


class Attempt:
    """A schedule with exactly these buffers taken over."""

    def __init__(self, schedule: Schedule, chosen: Chosen) -> None:
        self.schedule = schedule
        self.chosen = chosen
        self.buffer_of = list(range(len(schedule.value_bytes)))
        for _, reuse in chosen:
            self.buffer_of[reuse.target] = self.buffer_of[reuse.source]
        self.written: dict[int, int] = {}
        self.last_read: dict[int, int] = {}
        for step, operation in enumerate(schedule.operations):
            for value in operation.writes:
                self.written[value] = self.last_read[value] = step
            for value in operation.reads:
                self.last_read[value] = step

    def is_possible(self) -> bool:
        sizes = self.schedule.value_bytes
        sources = [(step, reuse.source) for step, reuse in self.chosen if not reuse.view]
        return (
            len(sources) == len(set(sources))
            and all(sizes[reuse.source] == sizes[reuse.target] for _, reuse in self.chosen)
            and not any(self.loses(step, reuse) for step, reuse in self.chosen if not reuse.view)
        )

    def loses(self, step: int, reuse: Reuse) -> bool:
        """Whether what was in the buffer is read again later."""
        return any(
            buffer == self.buffer_of[reuse.source]
            and self.written[value] < step < self.last_read[value]
            for value, buffer in enumerate(self.buffer_of)
        )

    def peak_bytes(self) -> int:
        return max(self.bytes_in_use(step) for step in range(len(self.schedule.operations)))

    def bytes_in_use(self, step: int) -> int:
        in_use = {
            self.buffer_of[value]
            for value, written in self.written.items()
            if written <= step <= self.last_read[value]
        }
        return sum(self.schedule.value_bytes[buffer] for buffer in in_use)


def by_brute_force(schedule: Schedule) -> int:
    reuses = [
        (step, reuse)
        for step, operation in enumerate(schedule.operations)
        for reuse in operation.reuses
    ]
    assert 0 < len(reuses) <= 12
    attempts = [
        Attempt(schedule, chosen)
        for count in range(len(reuses) + 1)
        for chosen in combinations(reuses, count)
        if len({reuse.target for _, reuse in chosen}) == count
    ]
    return min(attempt.peak_bytes() for attempt in attempts if attempt.is_possible())


def chain() -> Network:
    net = Builder((2, 6, 6))
    net.conv("conv", 3, 3)
    net.relu()
    net.lrn("norm")
    net.pool("pool", "max", 2, 2)
    net.flatten()
    net.dense("dense", 5)
    net.dropout()
    net.dense("end", 4)
    net.loss()
    return net.network("chain", options={}, source="")


def residual() -> Network:
    net = Builder((2, 4, 4))
    net.conv("stem", 3, 3, padding=1)
    source = net.relu()
    net.conv("body", 3, 1)
    net.add_together("sum", [net.batch_norm(), source])
    net.relu()
    net.global_average_pool("pool")
    net.flatten()
    net.loss()
    return net.network("residual", options={}, source="")


def branches() -> Network:
    net = Builder((2, 4, 4))
    stem = net.conv("stem", 3, 3, padding=1)
    net.conv("left", 2, 1)
    left = net.relu()
    right = net.pool("right", "max", 3, 1, padding=1, reads=stem)
    net.concat("all", [left, right])
    net.flatten()
    net.dense("dense", 3)
    net.loss()
    return net.network("branches", options={}, source="")


@pytest.mark.parametrize("network", [chain(), residual(), branches()], ids=lambda n: n.name)
@pytest.mark.parametrize("rules", [PLAIN, MXNET_2015, MXNET_1_9], ids=lambda rules: rules.name)
@pytest.mark.parametrize("training", [False, True])
def test_no_combination_needs_less(network: Network, rules: RuleSet, training: bool) -> None:
    schedule = expand(network, batch_size=1, itemsize_bytes=4, training=training, rules=rules)
    bound = lower_bound(network, batch_size=1, training=training, rules=rules)
    assert bound == by_brute_force(schedule)
