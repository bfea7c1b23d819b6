"""How often 95 % intervals hold the truth: netdyno's, and those it was chosen over.

Simulated cells whose true median is known: lognormal processes; processes three in ten of which
are 10 % slower; blocks with heavy tails. For each number of processes, the share of intervals that
cover the truth, which should be 95 %:

- netdyno: order statistics of the processes' medians (Student's t below six processes)
- bootstrap: the processes' medians resampled, percentile interval
- hierarchical: processes resampled, then the blocks in each, percentile interval (it counts the
  blocks' noise twice: in the spread of the processes' medians, and again in each of them)
- mean of blocks: Student's t over all blocks as if they were independent

Then what a run that stops at its target does to that: ratios of a cell to itself whose rounds go on
until the interval is within ±2 %, as `netdyno run --target 2%` does, for several amounts of noise.

Usage: python benchmarks/coverage.py [--tries 1000]
"""

from __future__ import annotations

import argparse
import math
import statistics

import numpy as np
import scipy.stats

from netdyno.plan.stopping import FEWEST_ROUNDS, MOST_ROUNDS
from netdyno.stats.interval import median_interval
from netdyno.stats.ratio import Ratio, paired_ratio

BLOCKS = 5
RESAMPLES = 500
SLOW_SHARE, SLOW_BY = 0.3, 0.10
TARGET = 0.02


def lognormal(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    tries, processes, _ = shape
    return rng.normal(0, 0.02, (tries, processes, 1)) + rng.normal(0, 0.03, shape)


def bimodal(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    tries, processes, _ = shape
    slow = SLOW_BY * (rng.random((tries, processes, 1)) < SLOW_SHARE)
    return slow + rng.normal(0, 0.01, (tries, processes, 1)) + rng.normal(0, 0.01, shape)


def heavy_tails(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    tries, processes, _ = shape
    return rng.normal(0, 0.01, (tries, processes, 1)) + 0.02 * np.abs(rng.standard_t(2, shape))


def netdyno(logs: np.ndarray) -> tuple[float, float]:
    return median_interval(np.median(logs, axis=1).tolist()) or (math.nan, math.nan)


def bootstrap(logs: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    medians = np.median(logs, axis=1)
    drawn = rng.integers(0, len(medians), (RESAMPLES, len(medians)))
    low, high = np.quantile(np.median(medians[drawn], axis=1), [0.025, 0.975])
    return low, high


def hierarchical(logs: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    processes, blocks = logs.shape
    which = rng.integers(0, processes, (RESAMPLES, processes, 1))
    drawn = logs[which, rng.integers(0, blocks, (RESAMPLES, processes, blocks))]
    low, high = np.quantile(np.median(np.median(drawn, axis=2), axis=1), [0.025, 0.975])
    return low, high


def mean_of_blocks(logs: np.ndarray) -> tuple[float, float]:
    low, high = scipy.stats.ttest_1samp(logs.ravel(), 0).confidence_interval(0.95)
    return low, high


def stopped(rng: np.random.Generator, noise: float) -> tuple[int, Ratio]:
    """Rounds taken, and the ratio, of a run of two equal cells that stops at its target."""
    logs = rng.normal(0, noise, MOST_ROUNDS).tolist()
    for rounds in range(FEWEST_ROUNDS, MOST_ROUNDS + 1):
        blocks = {number: [math.exp(value)] for number, value in enumerate(logs[:rounds])}
        ratio = paired_ratio(blocks, {number: [1.0] for number in blocks})
        if ratio and ratio.half_width is not None and ratio.half_width <= TARGET:
            break
    assert ratio is not None
    return rounds, ratio


def print_stopped(rng: np.random.Generator, tries: int) -> None:
    print(f"\n{'noise of a round':>16}  {'rounds':>6}  {'covers':>6}  {'different':>9}")
    for noise in (0.01, 0.02, 0.03, 0.05):
        found = [stopped(rng, noise) for _ in range(tries)]
        rounds = statistics.fmean(count for count, _ in found)
        covers = statistics.fmean((r.low or 9) <= 1 <= (r.high or 0) for _, r in found)
        different = statistics.fmean(r.call() in ("slower", "faster") for _, r in found)
        print(f"{noise:>16.0%}  {rounds:>6.1f}  {covers:>6.1%}  {different:>9.1%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=1000, help="for each line (default: 1000)")
    tries = parser.parse_args().tries
    names = ("netdyno", "bootstrap", "hierarchical", "mean of blocks")
    print(f"{'data':<12} {'processes':>9}  " + "  ".join(f"{name:>14}" for name in names))
    rng = np.random.default_rng(1)
    for draw in (lognormal, bimodal, heavy_tails):
        truth = float(np.median(np.median(draw(rng, (1, 400_000, BLOCKS))[0], axis=1)))
        for processes in (3, 5, 6, 10, 20):
            covered = np.zeros(len(names))
            for logs in draw(rng, (tries, processes, BLOCKS)):
                intervals = (
                    netdyno(logs),
                    bootstrap(logs, rng),
                    hierarchical(logs, rng),
                    mean_of_blocks(logs),
                )
                covered += [low <= truth <= high for low, high in intervals]
            shares = "  ".join(f"{share:>14.1%}" for share in covered / tries)
            print(f"{draw.__name__:<12} {processes:>9}  {shares}", flush=True)
    print_stopped(rng, tries)


if __name__ == "__main__":
    main()
