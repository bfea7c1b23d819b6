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
    adapter.load(weights.parameters(job.network, job.seed))
    adapter.set_batch(*weights.batch(job.network, job.batch_size, job.seed))
    handwritten = importlib.import_module("handwritten." + job.framework)
    by_hand = handwritten.make(job.mode, job.batch_size)

    def ours(iterations):
        block = loop.time_block("sample", adapter.forward_backward, adapter.synchronize, iterations)
        return block.seconds

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
