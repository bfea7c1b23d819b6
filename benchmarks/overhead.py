"""What netdyno adds to a framework: its time against a loop written by hand.

For each framework and mode, fresh processes run both loops on AlexNet (one weird trick), block by
block in turn; the ratio is taken pair by pair: a machine whose speed drifts drifts for both.
The loops written by hand are in handwritten/, each in its framework's own documented way. The
interval is netdyno's own, of the processes' median ratios (docs/statistics.md).

    python benchmarks/overhead.py [--batch-size 8] [--blocks 20] [--processes 6] [CELL …]
    python benchmarks/overhead.py --phase train_step caffe/net

where CELL is FRAMEWORK/MODE; without, all of the frameworks that are measured by default. Phases
are forward_backward and, where a loop is written for it, train_step. Exit code 1 if a median ratio
lies outside 1/1.02 … 1.02.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from netdyno.environments import find
from netdyno.frameworks import WORKER_ROOT, framework
from netdyno.launch.local import environ
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.matrix import cells
from netdyno.plan.request import Request
from netdyno.settings import load_settings
from netdyno.stats.interval import median_interval

HERE = Path(__file__).resolve().parent
ALLOWED = 1.02
# Both sides repeat their step on one batch for as long as it takes: at the usual rate of 0.05 the
# weights would grow without bound. The arithmetic of an update is the same at any rate.
TRAIN_STEP_RATE = 1e-6
PHASES = ("forward_backward", "train_step")
Pairs = list[tuple[float, float]]


def measure(cell: Cell, phase: str, blocks: int) -> Pairs:
    """Seconds per iteration, ours and theirs, from one fresh process."""
    environment = find(framework(cell.framework), load_settings())
    data = job(cell, seed=1)
    data["phases"] = [phase]
    data["hyperparameters"] = {**data["hyperparameters"], "learning_rate": TRAIN_STEP_RATE}
    data["sampling"] = {**data["sampling"], "min_samples": blocks}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "job.json").write_text(json.dumps({**data, "scratch": folder}))
        done = subprocess.run(
            [
                environment.python,
                HERE / "overhead_pair.py",
                WORKER_ROOT.parent,
                scratch / "job.json",
                scratch / "out.json",
            ],
            env=environ(environment, cell, scratch),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{cell.key} failed:\n{done.stderr[-3000:]}")
        return [(own, theirs) for own, theirs in json.loads((scratch / "out.json").read_text())]


def interval(processes: list[Pairs]) -> tuple[float, float, float]:
    """Median over processes of each one's median ratio ours/theirs, and its 95 % interval."""
    logs = [math.log(statistics.median(own / theirs for own, theirs in one)) for one in processes]
    found = median_interval(logs)
    low, high = found if found else (-math.inf, math.inf)
    return math.exp(statistics.median(logs)), math.exp(low), math.exp(high)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cells", nargs="*", metavar="FRAMEWORK/MODE")
    parser.add_argument("--phase", choices=PHASES, default=PHASES[0])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--host-allocator", default="system")
    options = parser.parse_args()
    request = dataclasses.replace(
        Request(),
        frameworks=tuple(name.partition("/")[0] for name in options.cells),
        modes=("all",),
        networks=("alexnet_owt",),
        batch_size=(options.batch_size,),
        host_allocator=(options.host_allocator,),
    )
    chosen = [
        cell
        for cell in cells(request)
        if not options.cells or f"{cell.framework}/{cell.mode}" in options.cells
    ]
    results: dict[str, list[Pairs]] = {cell.key: [] for cell in chosen}
    for number in range(options.processes):
        for cell in random.Random(number).sample(chosen, len(chosen)):
            results[cell.key].append(measure(cell, options.phase, options.blocks))
            print(f"process {number + 1}: {cell.framework} {cell.mode}", file=sys.stderr)
    return report(chosen, results, options)


def report(chosen: list[Cell], results: dict[str, list[Pairs]], options: argparse.Namespace) -> int:
    table = Table(
        title=f"alexnet_owt, batch {options.batch_size}, {options.phase}, "
        f"{options.host_allocator} allocator: netdyno / by hand"
    )
    for column in ("framework", "mode", "netdyno ms", "by hand ms", "ratio", "95 % interval", ""):
        table.add_column(column, justify="right")
    outside = 0
    for cell in chosen:
        pairs = [pair for one in results[cell.key] for pair in one]
        own, theirs = (statistics.median(side) * 1e3 for side in zip(*pairs, strict=True))
        ratio, low, high = interval(results[cell.key])
        good = 1 / ALLOWED <= ratio <= ALLOWED
        outside += not good
        table.add_row(
            cell.framework,
            cell.mode,
            f"{own:.1f}",
            f"{theirs:.1f}",
            f"{ratio:.3f}",
            f"{low:.3f} to {high:.3f}",
            "within 1.02" if good else "OUTSIDE 1.02",
        )
    Console(width=120).print(table)
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
