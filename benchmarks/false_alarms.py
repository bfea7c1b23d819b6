"""How often a method says 'different' of a cell compared with itself, and misses a real slowdown.

One cell is measured again and again, every trial in a fresh process, on the machine as it is and
beside another program's bursts of work. Consecutive trials make the two sides of a comparison, A
and A again. Each method judges the same comparisons:

- netdyno: every round's two trials; ratio, interval and call as `netdyno compare` makes them
- mean of 10: convnet-benchmarks; one process a side, mean of 10 iterations after warm-up
- median of 10: TorchBench; the same, their median
- mean of 40: timm's benchmark.py; one process a side, mean of 40 iterations after 10 of warm-up

The last three publish a figure without an interval, so their reader has to choose what counts as a
difference: 1, 2, 3 and 5 % are shown. 'all rounds' gives them netdyno's whole budget: the mean
over the processes of as many rounds.

Then a slowdown is put into B: a worker that works 5 % longer in each iteration. How often is it
found? These comparisons have more rounds, and overlap where fewer were measured than they take.

    python benchmarks/false_alarms.py [--keep FOLDER]          measure, then judge
    python benchmarks/false_alarms.py --judge FOLDER           judge what was measured before
"""

from __future__ import annotations

import argparse
import contextlib
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from unittest import mock

from rich.console import Console
from rich.table import Table

from netdyno.environments import Environment, find
from netdyno.frameworks import WORKER_ROOT, framework
from netdyno.host.lock import measuring
from netdyno.launch import local
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.matrix import cells
from netdyno.plan.request import Request
from netdyno.plan.sampling import Sampling
from netdyno.redact import Redactor
from netdyno.session import run_trial
from netdyno.settings import load_settings
from netdyno.stats.ratio import Ratio, paired_ratio
from netdyno.store.run import Trial, read_run
from netdyno.store.run_folder import RunFolder

HERE = Path(__file__).resolve().parent
PHASE = "forward_backward"
SLOWDOWN = 0.05
ITERATIONS = 40
# One iteration a block, since that is what the other methods time; the first blocks are warm-up.
SAMPLING = Sampling(
    min_samples=ITERATIONS,
    max_samples=ITERATIONS,
    phase_seconds=1e9,
    min_block_seconds=0,
    max_warmup_iterations=10,
)
LOADS = ("calm", "busy")
THRESHOLDS = (0.01, 0.02, 0.03, 0.05)
ALLOWED_ALARMS = 0.05
REQUIRED_POWER = 0.90
# Iterations that each method leaves out.
WARM_UP = {"mean of 10": 1, "median of 10": 1, "mean of 40": 10}

# Trials of each side, in the order of their rounds.
Comparison = tuple[Sequence[Trial], Sequence[Trial]]


def measure(cell: Cell, folder: Path, comparisons: int, rounds: int, slowed_rounds: int) -> None:
    """Write the run folders ``LOAD/a``, ``LOAD/again`` and ``calm/slowed``.

    Comparison c, from 0, is made of the rounds from c * rounds + 1. The first ``slowed_rounds``
    rounds have a slowed trial, too.
    """
    for load in LOADS:
        sides = ("a", "again", "slowed") if load == "calm" else ("a", "again")
        runs = {side: RunFolder(folder / load / side) for side in sides}
        for run in runs.values():
            run.begin(Request(rounds=comparisons * rounds), [cell], {})
        start = time.monotonic()
        with background_load() if load == "busy" else contextlib.nullcontext():
            for number in range(1, comparisons * rounds + 1):
                wanted = sides if number <= slowed_rounds else sides[:2]
                # The order changes from round to round, as in netdyno's own.
                for side in wanted if number % 2 else reversed(wanted):
                    measure_one(cell, runs[side], number, slowed=side == "slowed")
                if number % rounds == 0:
                    done = f"{load}: {number // rounds} of {comparisons} comparisons"
                    print(f"{done}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        for run in runs.values():
            run.end("complete")


def measure_one(cell: Cell, run: RunFolder, number: int, *, slowed: bool) -> None:
    environment = find(framework(cell.framework), load_settings())
    data = {**job(cell, seed=1), "phases": [PHASE], "sampling": vars(SAMPLING)}
    path = run.new_trial(cell, number)
    with slowed_worker() if slowed else contextlib.nullcontext():
        outcome = run_trial(cell, environment, data, path, timeout_seconds=120, redact=Redactor({}))
    run.end_trial(path, outcome)
    if outcome.status != "ok":
        sys.exit(f"a trial {outcome.status}: {outcome.reason}")


@contextlib.contextmanager
def background_load() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, HERE / "background_load.py", "1"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def slowed_worker() -> Iterator[None]:
    def command(environment: Environment, job_path: Path, events: Path) -> list[str]:
        own = [str(HERE / "slowed_worker.py"), str(SLOWDOWN), str(WORKER_ROOT.parent)]
        return [str(environment.python), "-u", *own, str(job_path), str(events)]

    with mock.patch.object(local, "command", command):
        yield


def comparisons_of(folder: Path, first: str, second: str, rounds: int) -> list[Comparison]:
    """One after another, whole ones only."""
    count = min(len(side) for side in sides_of(folder, first, second)) // rounds
    return overlapping(folder, first, second, rounds, count)


def overlapping(folder: Path, first: str, second: str, rounds: int, count: int) -> list[Comparison]:
    """``count`` comparisons that begin at even distances; they share rounds where they must."""
    a, b = sides_of(folder, first, second)
    measured = min(len(a), len(b))
    if measured < rounds or not count:
        return []
    starts = [round(k * (measured - rounds) / max(1, count - 1)) for k in range(count)]
    return [(a[start : start + rounds], b[start : start + rounds]) for start in starts]


def sides_of(folder: Path, first: str, second: str) -> tuple[list[Trial], list[Trial]]:
    """In the order of their rounds."""
    a, b = (
        sorted(read_run(folder / side).trials, key=lambda trial: trial.round)
        for side in (first, second)
    )
    return a, b


def netdyno(comparison: Comparison) -> Ratio | None:
    """B over A, as in a run of its own."""
    a, b = ({trial.round: trial.seconds(PHASE) for trial in side} for side in comparison)
    return paired_ratio(b, a)


def published(method: str, trials: Sequence[Trial]) -> float:
    """The figure of one side: the mean over processes of each one's mean or median."""
    count = int(method.rpartition(" ")[2])
    centre = statistics.median if method.startswith("median") else statistics.fmean
    figures = []
    for trial in trials:
        times = [b.seconds_per_iteration for b in (*trial.of(PHASE, "warmup"), *trial.of(PHASE))]
        figures.append(centre(times[WARM_UP[method] :][:count]))
    return statistics.fmean(figures)


def judge(
    folder: Path, rounds: int, slowdowns: int, slowdown_rounds: int, console: Console
) -> bool:
    """Print every method's rates; False if netdyno's are not what they must be."""
    passed = True
    for load in LOADS:
        found = comparisons_of(folder / load, "a", "again", rounds)
        table = Table(
            title=f"{load}: {len(found)} comparisons of a cell with itself, 'different'",
            title_justify="left",
        )
        table.add_column("method")
        table.add_column("processes a side", justify="right")
        for threshold in THRESHOLDS:
            table.add_column(f"by more than {threshold:.0%}", justify="right")
        ratios = [netdyno(comparison) for comparison in found]
        rates = [
            share(ratio is not None and called(ratio, t) for ratio in ratios) for t in THRESHOLDS
        ]
        passed &= rates[0] <= ALLOWED_ALARMS
        table.add_row("netdyno", str(rounds), *(f"{rate:.0%}" for rate in rates), style="bold")
        for method in WARM_UP:
            for label, count in (("", 1), (", all rounds", rounds)):
                apart = [
                    abs(math.log(published(method, b[:count]) / published(method, a[:count])))
                    for a, b in found
                ]
                rates = [share(value > math.log1p(t) for value in apart) for t in THRESHOLDS]
                table.add_row(method + label, str(count), *(f"{rate:.0%}" for rate in rates))
        console.print(table)
        widths = [r.half_width for r in ratios if r is not None and r.half_width is not None]
        console.print(f"netdyno's interval: ±{statistics.median(widths):.1%} (median)")
        console.print(disturbed(found))
    found = overlapping(folder / "calm", "a", "slowed", slowdown_rounds, slowdowns)
    ratios = [netdyno(comparison) for comparison in found]
    rate = share(ratio is not None and ratio.call() == "slower" for ratio in ratios)
    values = [ratio.value for ratio in ratios if ratio is not None]
    console.print(
        f"A slowdown of {SLOWDOWN:.0%} is called slower in {rate:.0%} of {len(found)} comparisons "
        f"of {slowdown_rounds} rounds (median ratio {statistics.median(values):.3f})."
    )
    seconds = [trial.seconds_taken for pair in found for side in pair for trial in side]
    budget = 2 * slowdown_rounds * statistics.median(seconds)
    console.print(f"Such a comparison of two cells takes {budget:.0f} s.")
    return passed and rate >= REQUIRED_POWER


def called(ratio: Ratio, margin: float) -> bool:
    return ratio.call(margin) in ("slower", "faster")


def share(hits: Iterable[bool]) -> float:
    return statistics.fmean(map(float, hits))


def disturbed(found: Sequence[Comparison]) -> str:
    trials = [trial for comparison in found for side in comparison for trial in side]
    out = sum(sum(trial.disturbed(PHASE).values()) for trial in trials)
    return f"blocks left out as disturbed: {out / sum(len(t.of(PHASE)) for t in trials):.1%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--framework", default="mxnet")
    parser.add_argument("--network", default="conv_l5")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--comparisons", type=int, default=40)
    parser.add_argument("--slowdowns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=6, help="of a comparison")
    parser.add_argument("--slowdown-rounds", type=int, default=20, help="where one is looked for")
    parser.add_argument("--slowed", type=int, default=200, help="rounds with a slowed trial")
    parser.add_argument("--keep", type=Path, help="write the run folders here")
    parser.add_argument("--judge", type=Path, help="measure nothing, read these")
    asked = parser.parse_args()
    console = Console(highlight=False, width=120)
    if asked.judge:
        return (
            0
            if judge(asked.judge, asked.rounds, asked.slowdowns, asked.slowdown_rounds, console)
            else 1
        )
    (cell,) = cells(
        Request(
            frameworks=(asked.framework,),
            networks=(asked.network,),
            batch_size=(asked.batch_size,),
        )
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        lock = load_settings().lock
        with measuring(lock, wait=True, tell=lambda text: print(text, file=sys.stderr)):
            measure(cell, folder, asked.comparisons, asked.rounds, asked.slowed)
        return (
            0 if judge(folder, asked.rounds, asked.slowdowns, asked.slowdown_rounds, console) else 1
        )


if __name__ == "__main__":
    sys.exit(main())
