"""What a person should mind of a cell's figures, and what to do about it."""

from __future__ import annotations

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
        # Of what cells are ranked by: the other phases of a process that differs differ as well.
        between = disagreement(processes) if phase == PRIMARY_PHASE else None
        if between is not None:
            yield (
                f"{name}: processes differ by {between:.0%} where the blocks in each hardly do: "
                "only more --rounds narrow its interval"
            )
