"""Figure 7 of the MXNet paper beside the planner and beside a real MXNet's plans.

Four sources answer the same question, how much internal memory a pass needs under each
allocation strategy: the paper, the planner with the rules of MXNet in 2015 and in 1.9, and the
MXNet that is installed. Ablation, one rule at a time, says why the two planners differ.
"""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from netdyno.environments import Environment
from netdyno.host.compiler import Compiler
from netdyno.memory import MXNET_1_9, MXNET_2015, STRATEGIES, RuleSet, Strategy, plan
from netdyno.memory.figure7 import BATCH_SIZE, PUBLISHED_GIB, networks
from netdyno.networks import Network
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.redact import Redactor
from netdyno.session import run_trial

__all__ = [
    "PHASES",
    "SOURCES",
    "Cause",
    "Figure7",
    "Key",
    "Reason",
    "Source",
    "causes",
    "images_gradient_gib",
    "mxnet_plans",
    "planned",
    "published",
]

GIB = 2**30
# A plan is made in seconds; the first also compiles.
TRIAL_SECONDS = 300.0

Phase = Literal["forward", "forward_backward"]
PHASES: tuple[Phase, ...] = ("forward", "forward_backward")

Source = Literal["published", "planned_2015", "planned_1_9", "mxnet"]
SOURCES: tuple[Source, ...] = ("published", "planned_2015", "planned_1_9", "mxnet")

# Network, phase, strategy.
Key = tuple[str, Phase, Strategy]

# In place, shared: what a strategy is made of.
_MADE_OF: Mapping[Strategy, tuple[bool, bool]] = {
    "naive": (False, False),
    "inplace": (True, False),
    "coshare": (False, True),
    "both": (True, True),
}


@dataclass(frozen=True)
class Reason:
    """Why a source has nothing to say of some strategies. ``failed``: it should have had."""

    source: Source
    where: str
    text: str
    failed: bool = False


@dataclass(frozen=True)
class Figure7:
    """``gib``: internal memory by source; a source lacks what ``reasons`` tell of.

    ``mxnet_version`` is that of the MXNet whose plans were read.
    """

    batch_size: int
    gib: Mapping[Source, Mapping[Key, float]]
    reasons: tuple[Reason, ...] = ()
    mxnet_version: str | None = None

    def saving(self, source: Source, network: str, phase: Phase) -> float | None:
        """How many times more the naive strategy needs than both others together."""
        values = self.gib[source]
        naive, both = (values.get((network, phase, s)) for s in ("naive", "both"))
        return naive / both if naive and both else None

    def largest_difference_gib(self, one: Source, other: Source) -> float | None:
        """Over all that both have."""
        common = self.gib[one].keys() & self.gib[other].keys()
        return max((abs(self.gib[one][k] - self.gib[other][k]) for k in common), default=None)


@dataclass(frozen=True)
class Cause:
    """What a rule of 1.9, in place of that of 2015, changes in a forward and backward pass.

    By network, GiB: ``naive`` and ``both`` strategies.
    """

    kind: str
    naive: Mapping[str, float]
    both: Mapping[str, float]


def published(batch_size: int) -> tuple[dict[Key, float], list[Reason]]:
    """The paper's values; it has them for one batch size only."""
    if batch_size != BATCH_SIZE:
        text = f"the paper has batch size {BATCH_SIZE} only"
        return {}, [Reason("published", "", text)]
    return {
        (name, phase, strategy): PUBLISHED_GIB[phase != "forward"][strategy][name]
        for name in networks()
        for phase in PHASES
        for strategy in STRATEGIES
    }, []


def planned(batch_size: int, rules: RuleSet) -> dict[Key, float]:
    """The planner's values."""
    return {
        (name, phase, strategy): _gib(network, batch_size, phase, strategy, rules)
        for name, network in networks().items()
        for phase in PHASES
        for strategy in STRATEGIES
    }


def mxnet_plans(
    batch_size: int,
    environment: Environment,
    compiler: Compiler | None,
    redact: Redactor,
    started: Callable[[str, Strategy], None] = lambda network, strategy: None,
    trial: Callable[..., Outcome] = run_trial,
) -> tuple[dict[Key, float], list[Reason]]:
    """The plans of the MXNet of ``environment``: one fresh process a network and strategy.

    What a process does not give is a reason, and costs the other strategies nothing. MXNet's
    figures are rounded down to MiB and hold the output.
    """
    values: dict[Key, float] = {}
    reasons: list[Reason] = []
    with tempfile.TemporaryDirectory(prefix="netdyno-") as folder:
        for strategy in STRATEGIES:
            in_place, share = _MADE_OF[strategy]
            if not in_place and compiler is None:
                text = "without in-place needs a C++ compiler: install g++ or clang++, or set CXX"
                reasons.append(Reason("mxnet", strategy, text))
                continue
            request = {
                "in_place": in_place,
                "share": share,
                "compiler": shlex.split(compiler.command) if compiler else None,
                "folder": folder,
            }
            for name, network in networks().items():
                started(name, strategy)
                events = Path(folder) / f"{name}-{strategy}.jsonl"
                found, outcome = _trial(
                    trial, _cell(name, network, batch_size), environment, request, events, redact
                )
                for phase, size in found.items():
                    values[name, phase, strategy] = size / GIB
                if outcome.status != "ok":
                    where = f"{name}, {strategy}"
                    reasons.append(Reason("mxnet", where, outcome.reason, failed=True))
    return values, reasons


def causes(batch_size: int) -> list[Cause]:
    """Rules that make a difference, those that change the naive strategy most first."""
    found = []
    for kind in MXNET_1_9.rules:
        if MXNET_1_9.rules[kind] == MXNET_2015.rules[kind]:
            continue
        changed = dataclasses.replace(
            MXNET_2015, rules={**MXNET_2015.rules, kind: MXNET_1_9.rules[kind]}
        )
        naive, both = (dict(_changes(batch_size, changed, s)) for s in ("naive", "both"))
        if any([*naive.values(), *both.values()]):
            found.append(Cause(kind, naive, both))
    return sorted(found, key=lambda cause: -max(map(abs, cause.naive.values())))


def images_gradient_gib(batch_size: int) -> float:
    """Of the gradient of the images, which every source holds in training (224x224)."""
    shapes = {network.input_shape for network in networks().values()}
    (shape,) = shapes
    return 4 * batch_size * shape[0] * shape[1] * shape[2] / GIB


def _changes(batch_size: int, rules: RuleSet, strategy: Strategy) -> Iterator[tuple[str, float]]:
    for name, network in networks().items():
        before, after = (
            _gib(network, batch_size, "forward_backward", strategy, r) for r in (MXNET_2015, rules)
        )
        yield name, after - before


def _gib(
    network: Network, batch_size: int, phase: Phase, strategy: Strategy, rules: RuleSet
) -> float:
    done = plan(
        network,
        batch_size=batch_size,
        training=phase != "forward",
        strategy=strategy,
        rules=rules,
    )
    return done.internal_bytes / GIB


def _cell(name: str, network: Network, batch_size: int) -> Cell:
    return Cell("mxnet", "symbol", name, network, batch_size, "fp32", "nchw", "cpu", 1, "system")


def _trial(
    trial: Callable[..., Outcome],
    cell: Cell,
    environment: Environment,
    request: Mapping[str, Any],
    events: Path,
    redact: Redactor,
) -> tuple[dict[Phase, int], Outcome]:
    """Planned bytes by phase: all that was told before it ended, however it ended."""
    found: dict[Phase, int] = {}

    def listen(event: Mapping[str, Any]) -> None:
        if event.get("event") == "plan":
            found[event["phase"]] = event["planned_bytes"]

    outcome = trial(
        cell,
        environment,
        {**job(cell, 1, phases=PHASES), "plan": dict(request)},
        events,
        timeout_seconds=TRIAL_SECONDS,
        redact=redact,
        listener=listen,
    )
    return found, outcome
