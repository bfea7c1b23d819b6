"""Whether a cell computes what the reference computes: every check of one cell."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from netdyno.environments import Environment
from netdyno.errors import NetdynoError
from netdyno.frameworks import framework
from netdyno.host.cpu import cpu
from netdyno.networks import Network
from netdyno.networks.graph import Dropout
from netdyno.parity.compare import TensorResult, compare
from netdyno.parity.conditions import (
    BATCH_SIZE,
    NETWORK_IMAGE_SCALE,
    SHEET_IMAGE_SCALE,
    TRAIN_STEPS,
)
from netdyno.parity.locate import first_difference, probed
from netdyno.parity.once import Once
from netdyno.parity.sheet import network_sheet, random_sheets
from netdyno.parity.smaller import smaller
from netdyno.parity.subject import Arrays, Check, Computed, compute
from netdyno.parity.tolerance import tolerance
from netdyno.plan.cell import Cell
from netdyno.redact import Redactor

__all__ = ["CheckResult", "Verification", "Verifier", "checks_of", "describe", "layer_checks"]

STRICT = "fp64"


@dataclass(frozen=True)
class CheckResult:
    """One network in one precision.

    ``status``: ``passed``, ``failed`` (it differs; ``tensors`` say where), ``skipped`` (the
    framework cannot express it), ``crashed`` (it gave no result) or ``known bug`` (it differs, and
    the framework is known to be wrong there); ``reason`` says why. ``first_layer``: where a whole
    network that differs does so first. ``seconds`` that computing it took, without the start of
    its process.
    """

    name: str
    precision: str
    status: Literal["passed", "failed", "skipped", "crashed", "known bug"]
    reason: str = ""
    tensors: tuple[TensorResult, ...] = ()
    first_layer: str = ""
    seconds: float = 0.0

    @property
    def failures(self) -> list[TensorResult]:
        return [tensor for tensor in self.tensors if not tensor.passed]

    @property
    def worst(self) -> TensorResult | None:
        """The tensor that comes nearest to its bound, or lies farthest beyond it."""
        measured = [t for t in self.tensors if t.relative_l2 is not None]
        return max(measured, key=lambda t: (t.relative_l2 or 0) / t.bound, default=None)


@dataclass(frozen=True)
class Verification:
    """All checks of one cell."""

    cell: Cell
    checks: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing differs, and something was computed in the cell's own precision.

        A network that a framework cannot express has not passed.
        """
        own = [c for c in self.checks if c.precision == self.cell.precision]
        return (
            all(c.status in ("passed", "skipped", "known bug") for c in self.checks)
            and any(c.status == "passed" for c in own)
            and all(c.status == "passed" for c in own if c.name == self.cell.network.name)
        )

    @property
    def reason(self) -> str:
        """One line on the first check that is not passed."""
        for check in self.checks:
            if check.status == "failed":
                first = check.failures[0]
                count = len(check.failures)
                more = f" and {count - 1} more" if count > 1 else ""
                text = f"{check.name} ({check.precision}): {describe(first)}{more}"
                layers = [c.first_layer for c in self.checks if c.first_layer]
                return f"{text}; the first layer that differs: {layers[0]}" if layers else text
            if check.status == "crashed":
                return f"{check.name} ({check.precision}): {check.reason}"
        return "" if self.passed else "; ".join(c.reason for c in self.checks if c.reason)


def describe(tensor: TensorResult) -> str:
    """``gradient/conv1.weight is 3.1e-02 off (allowed 2.0e-04)``."""
    if tensor.relative_l2 is None:
        return f"{tensor.name} {tensor.problem}"
    return f"{tensor.name} is {tensor.relative_l2:.1e} off (allowed {tensor.bound:.1e})"


class Verifier:
    """Computes the reference of each network once, however many cells are held against it.

    So is double precision of a framework, which the other precisions share. Several threads may
    verify at once.

    Args:
        reference: the environment of the NumPy reference.
        redact: takes this machine's paths out of reasons.
        input_gradient: compare the gradient by the images too.
    """

    def __init__(
        self, reference: Environment, redact: Redactor, *, input_gradient: bool = False
    ) -> None:
        self._reference = reference
        self._redact = redact
        self._input_gradient = input_gradient
        self._references: Once[Arrays] = Once()
        self._strict: Once[list[CheckResult]] = Once()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End what is under way in other threads, in which KeyboardInterrupt is raised."""
        self._stopped.set()

    def forget(self, network: Network) -> None:
        """Drop the references of ``network``, which may be gigabytes: no more of it will come."""
        self._references.forget(list(self._checks_with_references(network)))

    def references(self, network: Network) -> list[Callable[[], Any]]:
        """What a verification of ``network`` will wait for: to be called beside it, in threads."""
        checks = self._checks_with_references(network).values()
        return [partial(self._expected, check) for check in checks]

    def strict(self, cell: Cell, environment: Environment) -> Callable[[], Any] | None:
        """The part in double precision of a verification of ``cell``: to be called beside it.

        None if there is no such part.
        """
        if not _has_strict_part(cell):
            return None
        return partial(self._strictly, cell, environment, checks_of(smaller(cell.network)))

    def _checks_with_references(self, network: Network) -> dict[Hashable, Check]:
        checks = self._asked([*checks_of(network), *checks_of(smaller(network))])
        return {_key(check): check for check in checks}

    def _asked(self, checks: Sequence[Check]) -> list[Check]:
        more = self._input_gradient
        return [
            dataclasses.replace(check, input_gradient=check.input_gradient or more)
            for check in checks
        ]

    def verify(self, cell: Cell, environment: Environment) -> Verification:
        """Run all checks of ``cell``: its layers and itself, in its precision and in double."""
        small = smaller(cell.network)
        results = self.run(cell, environment, checks_of(cell.network), checks_of(small))
        whole = {network.name: network for network in (cell.network, small)}
        # Once, where it is clearest: double precision comes last.
        differing = [r for r in results if r.status == "failed" and r.name in whole]
        if differing:
            last = differing[-1]
            first = self._first_layer(cell, environment, whole[last.name], last.precision)
            results[results.index(last)] = dataclasses.replace(last, first_layer=first)
        return Verification(cell, tuple(results))

    def _first_layer(
        self, cell: Cell, environment: Environment, network: Network, precision: str
    ) -> str:
        network = _without_dropout(network)
        seen = probed(network)
        check = Check(seen.name, seen, BATCH_SIZE, NETWORK_IMAGE_SCALE, train_steps=0)
        subject = dataclasses.replace(cell, precision=precision, batch_size=BATCH_SIZE)
        computed = compute(subject, environment, [check], self._redact, self._stopped)
        # Too large for one of them, perhaps; the tensors that differ are told all the same.
        if check.name not in computed.arrays:
            return ""
        try:
            expected = self._reference_of(check)  # it is large, and nobody else asks for it
        except NetdynoError:
            return ""
        bounds = tolerance(network, precision, BATCH_SIZE)
        tensors = compare(seen, computed.arrays[check.name], expected, bounds)
        return first_difference(network, tensors, bounds)

    def verify_layers(self, cell: Cell, environment: Environment, seed: int = 1) -> Verification:
        """Run single layers of random geometry the way ``cell`` runs; its network is left out.

        What fails and is known to be wrong in the framework itself is named so, and is no failure
        of the adapter; a network that has such a layer still fails its own verification.
        """
        bugs = framework(cell.framework).known_bugs
        results = self.run(cell, environment, layer_checks(seed))
        named = dataclasses.replace(cell, network_spec="single layers")
        return Verification(named, tuple(_known_bug(result, bugs) for result in results))

    def run(
        self,
        cell: Cell,
        environment: Environment,
        checks: Sequence[Check],
        strict_checks: Sequence[Check] | None = None,
    ) -> list[CheckResult]:
        """Run ``checks`` in ``cell``'s precision and, where its framework has it, in double.

        ``strict_checks``: those of double precision where it is not the cell's own; by default the
        same.
        """
        slow = framework(cell.framework).mode(cell.mode).tunes_slowly
        own = _untuned(cell) if slow else cell
        results = self._run_in(cell.precision, own, environment, checks)
        if not _has_strict_part(cell):
            return results
        strict = checks if strict_checks is None else strict_checks
        return results + self._strictly(cell, environment, strict)

    def _strictly(
        self, cell: Cell, environment: Environment, checks: Sequence[Check]
    ) -> list[CheckResult]:
        alone = dataclasses.replace(_untuned(cell), precision=STRICT)
        return self._strict.get(
            (alone.way, *map(_key, checks)),
            lambda: self._run_in(STRICT, alone, environment, checks),
            # A crash is tried again: it may have been a full memory.
            keep=lambda found: all(check.status != "crashed" for check in found),
        )

    def _run_in(
        self, precision: str, cell: Cell, environment: Environment, asked: Sequence[Check]
    ) -> list[CheckResult]:
        checks = self._asked(asked)
        subject = dataclasses.replace(cell, precision=precision, batch_size=BATCH_SIZE)
        computed = compute(subject, environment, checks, self._redact, self._stopped)
        known = framework(cell.framework).known_differences
        return [self._judge(check, precision, computed, known) for check in checks]

    def _judge(
        self,
        check: Check,
        precision: str,
        computed: Computed,
        known: Mapping[str, str],
    ) -> CheckResult:
        outcome = computed.outcomes[check.name]
        if outcome.status != "ok":
            status: Literal["skipped", "crashed"]
            status = "skipped" if outcome.status == "skipped" else "crashed"
            return CheckResult(
                check.name, precision, status, outcome.reason, seconds=outcome.seconds
            )
        bounds = tolerance(check.network, precision, check.batch_size)
        expected = self._expected(check)
        tensors = compare(check.network, computed.arrays[check.name], expected, bounds)
        differing = [t for t in tensors if not t.passed and not _is_known(t.name, known)]
        return CheckResult(
            check.name,
            precision,
            "failed" if differing else "passed",
            "",
            tuple(t for t in tensors if t.passed or not _is_known(t.name, known)),
            seconds=outcome.seconds,
        )

    def _expected(self, check: Check) -> Arrays:
        return self._references.get(_key(check), lambda: self._reference_of(check))

    def _reference_of(self, check: Check) -> Arrays:
        cell = reference_cell(check.network)
        computed = compute(cell, self._reference, [check], self._redact, self._stopped)
        outcome = computed.outcomes[check.name]
        if outcome.status != "ok":
            raise NetdynoError(f"the reference failed on {check.name}: {outcome.reason}")
        return computed.arrays[check.name]


def _has_strict_part(cell: Cell) -> bool:
    return cell.precision != STRICT and STRICT in framework(cell.framework).precisions


def _untuned(cell: Cell) -> Cell:
    """What autotuning picks for a check's few images, or in double precision, is none of what a
    trial picks for its own batch: where trying takes long, nothing is gained by it.
    """
    return cell if cell.device == "cpu" else dataclasses.replace(cell, autotune="off")


def _key(check: Check) -> str:
    return f"{check.network.hash}/{check.name}"


def _known_bug(result: CheckResult, bugs: Mapping[str, str]) -> CheckResult:
    for pattern, reason in bugs.items():
        if result.status == "failed" and re.search(pattern, result.name):
            return dataclasses.replace(result, status="known bug", reason=reason)
    return result


def checks_of(network: Network) -> list[Check]:
    """The network's distinct layers side by side, then the whole network.

    Dropout is checked at rate 0: every framework draws masks of its own.
    """
    network = _without_dropout(network)
    sheet = network_sheet(network)
    return [
        Check(sheet.name, sheet, BATCH_SIZE, SHEET_IMAGE_SCALE, train_steps=0),
        Check(network.name, network, BATCH_SIZE, NETWORK_IMAGE_SCALE, TRAIN_STEPS),
    ]


def _without_dropout(network: Network) -> Network:
    layers = tuple(
        dataclasses.replace(layer, rate=0.0) if isinstance(layer, Dropout) else layer
        for layer in network.layers
    )
    return dataclasses.replace(network, layers=layers)


def layer_checks(seed: int = 1) -> list[Check]:
    """Random geometries, a check for each kind of layer: what one cannot do hides no other."""
    return [
        Check(sheet.name, sheet, BATCH_SIZE, SHEET_IMAGE_SCALE, train_steps=0)
        for sheet in random_sheets(seed)
    ]


def reference_cell(network: Network) -> Cell:
    # On a large host others run beside it; beyond a few threads its loops gain nothing.
    threads = max(2, cpu().usable_cores // 4)
    # Its arrays are large and short-lived: memory that stays with the process serves the next ones.
    axes = (BATCH_SIZE, STRICT, "nchw", "cpu", threads)
    return Cell("numpy", "plain", network.name, network, *axes, host_allocator="retain")


def _is_known(name: str, known: Mapping[str, str]) -> bool:
    return any(name.startswith("running/") and name.endswith(suffix) for suffix in known)
