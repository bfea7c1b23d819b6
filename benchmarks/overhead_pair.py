"""One process of overhead.py, in a framework's environment: both loops, block by block in turn.

``python overhead_pair.py SRC JOB OUT``: OUT becomes a JSON list of pairs of seconds per iteration,
netdyno's first.
"""

import importlib
import json
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent)
SRC, JOB, OUT = sys.argv[1:4]
sys.path.append(SRC)  # last: netdyno's folder holds nothing that a framework needs

from netdyno_worker import loop, trial, weights  # noqa: E402
from netdyno_worker.protocol import Job  # noqa: E402

# Either side's block takes at least this long.
BLOCK_SECONDS = 0.25


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
        run = handwritten.make(job.mode, images, labels, values)
    elif hasattr(handwritten, "make_train_step"):
        run = handwritten.make_train_step(job.mode, images, labels, values, job.hyperparameters)
    else:
        sys.exit(f"handwritten/{job.framework}.py has no train step")
    step = getattr(adapter, phase)

    def ours(iterations):
        block = loop.time_block("sample", step, adapter.synchronize, iterations)
        return block.seconds

    def by_hand(iterations):
        seconds, loss = run(iterations)
        if abs(loss - adapter.loss()) > 1e-3:
            sys.exit(f"the losses differ: {loss} and {adapter.loss()}")
        return seconds

    for _ in range(3):  # compile and warm up
        ours(1)
        iterations = max(1, round(BLOCK_SECONDS / by_hand(1)))
    adapter.synchronize()
    pairs = []
    for index in range(job.sampling.min_samples):
        # Who goes first alternates: a machine that is getting slower favours neither.
        if index % 2:
            theirs, own = by_hand(iterations), ours(iterations)
        else:
            own, theirs = ours(iterations), by_hand(iterations)
        pairs.append((own / iterations, theirs / iterations))
    Path(OUT).write_text(json.dumps(pairs))


main()
