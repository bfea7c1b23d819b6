"""What netdyno adds to a framework: its time against a loop written by hand.

For each framework and mode, fresh processes run both loops on one network, block by block in turn;
the ratio is taken pair by pair: a machine whose speed drifts drifts for both. The loops written by
hand are in handwritten/, each in its framework's own documented way. The interval is netdyno's
own, of the processes' median ratios (docs/statistics.md).

    python benchmarks/overhead.py [--batch-size 8] [--blocks 20] [--processes 6] [CELL …]
    python benchmarks/overhead.py --phase train_step caffe/net
    python benchmarks/overhead.py --device cuda:0 --network vgg_a --precision bf16 --layout nhwc \\
        --batch-size 64 --python pytorch=PATH --python jax=PATH pytorch/compile jax/jit

where CELL is FRAMEWORK or FRAMEWORK/MODE; without, all of the frameworks that are measured by
default. Phases are forward_backward and, where a loop is written for it, train_step. Exit code 1
if a median ratio lies outside 1/1.02 … 1.02, 2 for what there is no loop for.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from netdyno.errors import NetdynoError
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.settings import Settings, load_settings
from netdyno.stats.interval import median_interval
from workbench import add_options, chosen_cells, in_environment

HERE = Path(__file__).resolve().parent
ALLOWED = 1.02
# Both sides repeat their step on one batch for as long as it takes: at the usual rate of 0.05 the
# weights would grow without bound. The arithmetic of an update is the same at any rate.
TRAIN_STEP_RATE = 1e-6
PHASES = ("forward_backward", "train_step")
NETWORKS = ("alexnet_owt", "vgg_a")
# Whose loops know every network, device and precision; the others' are for PLAIN.
EVERYWHERE = ("pytorch", "jax")
PLAIN = {"network": "alexnet_owt", "device": "cpu", "precision": "fp32"}
Pairs = list[tuple[float, float]]


def measure(cell: Cell, phase: str, blocks: int, settings: Settings) -> Pairs:
    """Seconds per iteration, ours and theirs, from one fresh process."""
    data = job(cell, seed=1)
    data["phases"] = [phase]
    data["hyperparameters"] = {**data["hyperparameters"], "learning_rate": TRAIN_STEP_RATE}
    data["sampling"] = {**data["sampling"], "min_samples": blocks}
    pairs = in_environment(HERE / "overhead_pair.py", cell, data, settings)
    return [(own, theirs) for own, theirs in pairs]


def interval(processes: list[Pairs]) -> tuple[float, float, float]:
    """Median over processes of each one's median ratio ours/theirs, and its 95 % interval."""
    logs = [math.log(statistics.median(own / theirs for own, theirs in one)) for one in processes]
    found = median_interval(logs)
    low, high = found if found else (-math.inf, math.inf)
    return math.exp(statistics.median(logs)), math.exp(low), math.exp(high)


def cells_with_loops(options: argparse.Namespace) -> list[Cell]:
    """Those that were named, or all that have a loop for what was asked.

    Raises:
        NetdynoError: one has none, or a name does not exist.
    """
    plain = all(getattr(options, axis) == value for axis, value in PLAIN.items())
    for name in options.cells:
        own = name.partition("/")[0]
        if not plain and own not in EVERYWHERE:
            raise NetdynoError(
                f"{own}'s loop by hand is for alexnet_owt on the CPU in fp32: leave {name} out; "
                f"{' and '.join(EVERYWHERE)} have loops for the rest"
            )
    return chosen_cells(options.cells or (() if plain else EVERYWHERE), options)


def read_options(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cells", nargs="*", metavar="FRAMEWORK[/MODE]")
    parser.add_argument("--phase", choices=PHASES, default=PHASES[0])
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--processes", type=int, default=6)
    add_options(parser, batch_size=8, **PLAIN)
    options = parser.parse_args(words)
    if options.network not in NETWORKS:
        parser.error(f"--network: loops are written for {' and '.join(NETWORKS)}")
    return options


def main() -> int:
    options = read_options()
    try:
        chosen = cells_with_loops(options)
        settings = load_settings(options.python)
        results: dict[str, list[Pairs]] = {cell.key: [] for cell in chosen}
        with suppress(KeyboardInterrupt):  # what was measured is reported all the same
            for number in range(options.processes):
                for cell in random.Random(number).sample(chosen, len(chosen)):
                    pairs = measure(cell, options.phase, options.blocks, settings)
                    results[cell.key].append(pairs)
                    ratio = statistics.median(own / theirs for own, theirs in pairs)
                    what = f"process {number + 1}: {cell.framework} {cell.mode}"
                    print(f"{what}: {ratio:.3f}", file=sys.stderr, flush=True)
    except NetdynoError as error:
        print(f"overhead: {error}", file=sys.stderr)
        return 2
    return report([cell for cell in chosen if results[cell.key]], results, options)


def report(chosen: list[Cell], results: dict[str, list[Pairs]], options: argparse.Namespace) -> int:
    table = Table(
        title=f"{options.network}, batch {options.batch_size}, {options.precision}, "
        f"{options.device}, {options.phase}, {options.host_allocator} allocator: "
        "netdyno / by hand"
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
            f"{cell.mode} {cell.layout}",
            f"{own:.4g}",
            f"{theirs:.4g}",
            f"{ratio:.3f}",
            f"{low:.3f} to {high:.3f}",
            "within 1.02" if good else "OUTSIDE 1.02",
        )
    Console(width=120).print(table)
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
