"""What a person should mind of a cell's figures, and what to do about it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from netdyno.comparability import inconsistencies
from netdyno.plan.request import PRIMARY_PHASE
from netdyno.stats.diagnose import disagreement, trend
from netdyno.store.run import Run

__all__ = ["advice"]

PHASE_NAMES = {
    "forward_backward": "forward+backward",
    "forward": "forward",
    "train_step": "train step",
}

# The share of a block that passes before its last step has been called, from which on the GPU is
# taken to wait. Less says nothing: a GPU's queue may be full.
LAUNCHING = 0.9


def advice(run: Run, key: str) -> Iterator[str]:
    """One sentence for each thing that is odd; none where all is well."""
    for difference in inconsistencies(run, key):
        if difference.kind != "like-for-like":
            yield (
                f"{difference.what} changed during the run, from {difference.a} to {difference.b}: "
                "measure again, and leave the environment alone meanwhile"
            )
    for phase, name in PHASE_NAMES.items():
        processes = list(run.seconds(key, phase).values())
        if run.all_disturbed(key, phase):
            yield (
                f"{name}: the machine was disturbed during every block, so that it is not ranked; "
                "measure again when nothing else runs"
            )
        change = trend(processes)
        if change is not None:
            yield (
                f"{name}: got {'slower' if change > 0 else 'faster'} by {abs(change):.0%} from the "
                "first block to the last: it was not steady; the machine heats up or the framework "
                "still adapts"
            )
        launching = _launching(run, key, phase) if phase == PRIMARY_PHASE else 0.0
        if launching >= LAUNCHING:
            yield (
                f"{name}: {launching:.0%} of the time passed before all work was started: the GPU "
                "waits for the processor; a larger batch, or CUDA graphs where the framework has "
                "them, would show what the GPU can do"
            )
        # Of what cells are ranked by: the other phases of a process that differs differ as well.
        between = disagreement(processes) if phase == PRIMARY_PHASE else None
        if between is not None:
            yield (
                f"{name}: processes differ by {between:.0%} where the blocks in each hardly do: "
                "only more --rounds narrow its interval"
            )


def _launching(run: Run, key: str, phase: str) -> float:
    """The median share of a block in which its work was started; 0 on a processor, which waits."""
    shares = [
        block.launch_seconds / block.seconds
        for trial in run.good_trials_of(key)
        for block in trial.undisturbed(phase)
        if block.launch_seconds is not None
    ]
    on_gpu = str(run.cells[key].get("device", "cpu")).startswith("cuda")
    return statistics.median(shares) if on_gpu and shares else 0.0
