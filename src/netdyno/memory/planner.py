"""How much internal memory a network needs under each strategy of the MXNet paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from netdyno.errors import NetdynoError
from netdyno.memory.assign import assign
from netdyno.memory.buffers import Buffers, Ideal, Pooled, Separate
from netdyno.memory.rules import PLAIN, RuleSet
from netdyno.memory.schedule import expand
from netdyno.networks.graph import Network

__all__ = ["STRATEGIES", "Plan", "Strategy", "lower_bound", "plan"]

Strategy: TypeAlias = Literal["naive", "inplace", "coshare", "both"]

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

# In place or not, and where buffers come from.
_HOW: dict[Strategy, tuple[bool, Callable[[], Buffers]]] = {
    "naive": (False, Separate),
    "inplace": (True, Separate),
    "coshare": (False, Pooled),
    "both": (True, Pooled),
}


@dataclass(frozen=True)
class Plan:
    """What one pass over a batch needs beyond inputs, parameters, their gradients and outputs."""

    network: str
    rules: str
    strategy: Strategy
    training: bool
    batch_size: int
    itemsize_bytes: int
    internal_bytes: int


def plan(
    network: Network,
    *,
    batch_size: int,
    itemsize_bytes: int = 4,
    training: bool,
    strategy: Strategy,
    rules: RuleSet = PLAIN,
) -> Plan:
    """Internal bytes of one pass.

    Args:
        network: any network.
        batch_size: images in the batch.
        itemsize_bytes: bytes of one number; 4 for float32, 2 for bfloat16.
        training: forward and backward; else forward alone, in training mode.
        strategy: ``naive``: every value has its own buffer. ``inplace``: an output takes over the
            buffer of an input that nobody reads any more. ``coshare``: buffers that nobody reads
            any more serve again. ``both``: both.
        rules: what layers keep and read.

    Raises:
        NetdynoError: no such strategy, numbers that are not positive, or a layer that the rules
            do not know.
    """
    if strategy not in _HOW:
        raise NetdynoError(
            f"memory strategy '{strategy}' does not exist; there are {', '.join(STRATEGIES)}"
        )
    in_place, source = _HOW[strategy]
    total = _total(network, batch_size, itemsize_bytes, training, rules, source(), in_place)
    return Plan(network.name, rules.name, strategy, training, batch_size, itemsize_bytes, total)


def lower_bound(
    network: Network,
    *,
    batch_size: int,
    itemsize_bytes: int = 4,
    training: bool,
    rules: RuleSet = PLAIN,
) -> int:
    """Bytes in use at the worst moment of the same pass: no strategy can do with less.

    It holds for these rules and this order of operations; another order, computing values twice,
    or moving them elsewhere can need less.
    """
    return _total(network, batch_size, itemsize_bytes, training, rules, Ideal(), in_place=True)


def _total(
    network: Network,
    batch_size: int,
    itemsize_bytes: int,
    training: bool,
    rules: RuleSet,
    buffers: Buffers,
    in_place: bool,
) -> int:
    for name, value in (("batch size", batch_size), ("itemsize", itemsize_bytes)):
        if value < 1:
            raise NetdynoError(f"memory of '{network.name}': {name} must be 1 or more, not {value}")
    schedule = expand(
        network,
        batch_size=batch_size,
        itemsize_bytes=itemsize_bytes,
        training=training,
        rules=rules,
    )
    assign(schedule, buffers, in_place=in_place)
    return buffers.total_bytes
