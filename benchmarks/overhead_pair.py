"""One process of overhead.py, in a framework's environment: both loops, block by block in turn.

``python overhead_pair.py SRC JOB OUT``: OUT becomes a JSON list of pairs of seconds per iteration,
netdyno's first.
"""

import importlib
import json
import sys
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent)
SRC, JOB, OUT = sys.argv[1:4]
sys.path.append(SRC)  # last: netdyno's folder holds nothing that a framework needs

from netdyno_worker import loop, trial, weights  # noqa: E402
from netdyno_worker.protocol import Job  # noqa: E402

# Either side's block takes at least this long.
BLOCK_SECONDS = 0.25
# How long a GPU computes before anything counts: until its clock is that of the load.
CLOCK_SECONDS = 1.0
# Both sides compute the same from the same values, though not always by the same kernels. All the
# rounding of bf16 together moves these losses by up to 1e-4; leaving out the convolutions' biases
# moves them by 5e-4 (alexnet_owt) and 3e-3 (vgg_a).
LOSS_BOUND = {"fp32": 1e-4, "tf32": 1e-4, "bf16": 1e-3}


def main():
    job = Job.read(JOB)
    cls = trial.adapter_class(job.framework)
    cls.prepare(job)
    adapter = cls(job)
    parameters = weights.Parameters(job.network, job.seed)
    images, labels = weights.batch(job.network, job.batch_size, job.seed)
    adapter.load(parameters)
    adapter.set_batch(images, labels)
    handwritten = importlib.import_module("handwritten." + job.framework)
    # The same values for both: max pooling branches on them, and random ones cost it 4 % more
    # than the nearly constant ones of a default initialization.
    values = list(parameters.values())
    (phase,) = job.phases
    if phase == "forward_backward":
        run = handwritten.make(job, images, labels, values)
    elif hasattr(handwritten, "make_train_step"):
        run = handwritten.make_train_step(job, images, labels, values)
    else:
        sys.exit(f"handwritten/{job.framework}.py has no train step")
    step = getattr(adapter, phase)

    def ours(iterations):
        block = loop.time_block("sample", step, adapter.synchronize, iterations)
        # Asked at once: where steps replay CUDA graphs, those of the loop by hand overwrite it.
        return block.seconds, adapter.loss()

    def pair(iterations, ours_first=True):
        """Seconds of an iteration, ours and theirs."""
        if ours_first:
            (own, loss), (theirs, by_hand) = ours(iterations), run(iterations)
        else:
            (theirs, by_hand), (own, loss) = run(iterations), ours(iterations)
        if not abs(loss - by_hand) <= LOSS_BOUND[job.precision]:  # a NaN is not either
            sys.exit(f"the losses differ: {by_hand} by hand and {loss}")
        return own / iterations, theirs / iterations

    adapter.synchronize()
    for _ in range(3):  # compile and warm up
        _, theirs = pair(1)
    iterations = max(1, round(BLOCK_SECONDS / theirs))
    if job.device != "cpu":
        start = time.perf_counter()
        while time.perf_counter() - start < CLOCK_SECONDS:
            _, theirs = pair(iterations)
        iterations = max(1, round(BLOCK_SECONDS / theirs))
    # Who goes first alternates: a machine that is getting slower favours neither.
    pairs = [pair(iterations, index % 2 == 0) for index in range(job.sampling.min_samples)]
    Path(OUT).write_text(json.dumps(pairs))


main()
