"""Whether timed calls did their work: adapters that did not are found out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from netdyno_worker import weights, work
from netdyno_worker.frameworks.numpy.adapter import Adapter
from netdyno_worker.protocol import Job
from tests.small_network import small_network

MakeJob = Callable[..., Job]


class NoBackward(Adapter):
    def forward_backward(self) -> None:
        self.forward()
        self._gradients = {name: np.zeros_like(w) for name, w in self._parameters.items()}


class KeptResult(Adapter):
    def forward_backward(self) -> None:
        if not hasattr(self, "_gradients"):
            super().forward_backward()


class OneBehind(Adapter):
    """Gives the gradients of the call before."""

    def forward_backward(self) -> None:
        late = getattr(self, "_gradients", None)
        super().forward_backward()
        self.late = late or self._gradients

    def gradients(self) -> dict[str, np.ndarray]:
        return self.late


class OneParameterForgotten(Adapter):
    def train_step(self) -> None:
        kept = self._parameters["c1.bias"].copy()
        super().train_step()
        self._parameters["c1.bias"][:] = kept


def timed(cls: type[Adapter], job: Job, steps: int = 2) -> Adapter:
    """An adapter after its timed blocks."""
    adapter = cls(job)
    adapter.load(weights.Parameters(job.network, job.seed))
    adapter.set_batch(*weights.batch(job.network, job.batch_size, job.seed))
    for _ in range(steps):
        adapter.forward_backward()
    return adapter


def check(adapter: Adapter, job: Job) -> None:
    batch, other = (
        weights.batch(job.network, job.batch_size, seed) for seed in (job.seed, job.seed + 1)
    )
    work.check_gradients(adapter, batch, other, repeatable=True)


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    return make_job(small_network(), batch_size=3)


def test_honest_work_passes(job: Job) -> None:
    check(timed(Adapter, job), job)


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (NoBackward, "left no gradient of c1.weight: it is zero"),
        (KeptResult, "does not change with the batch"),
        (OneBehind, "another gradient"),
    ],
)
def test_work_that_was_not_done(job: Job, cls: type[Adapter], words: str) -> None:
    with pytest.raises(work.WorkNotDoneError, match=words):
        check(timed(cls, job), job)


def test_every_parameter_must_move(job: Job) -> None:
    start = weights.Parameters(job.network, job.seed)
    honest, forgetful = timed(Adapter, job), timed(OneParameterForgotten, job)
    for adapter in (honest, forgetful):
        adapter.train_step()
    work.check_update(honest, start)
    with pytest.raises(work.WorkNotDoneError, match=r"did not update c1\.bias"):
        work.check_update(forgetful, start)


def test_a_distance_is_the_same_however_its_arrays_lie_in_memory() -> None:
    one = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
    other = one.copy()
    other[0, 2] += 2
    expected = 2 / np.linalg.norm(one)
    for found in (other, np.asfortranarray(other)):
        for reference in (one, np.asfortranarray(one)):
            assert work._distance(found, reference) == pytest.approx(expected)
