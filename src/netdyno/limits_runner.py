"""Measures what a device can do at most, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from netdyno import environments
from netdyno.device_limits import DeviceLimits, limits_of_trial
from netdyno.environments import Environment
from netdyno.frameworks import FrameworkSpec, framework, frameworks
from netdyno.networks import Network
from netdyno.networks.builder import Builder
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.job import limits_job
from netdyno.redact import Redactor
from netdyno.session import run_trial
from netdyno.settings import Settings
from netdyno.store.trial import events_in

__all__ = ["LimitsRunner", "Target", "candidates", "targets"]

# A trial takes some ten seconds, more where XLA compiles each size of five precisions for a GPU.
# One that hangs must not hold a run up for long.
TIMEOUT_SECONDS = 180.0

# A device, with threads that count on a CPU only, and the precisions to measure there.
Target = tuple[str, int, tuple[str, ...]]


def candidates(device: str, settings: Settings) -> list[Environment]:
    """Environments that are ready and can measure the limits of ``device``, the best first."""
    kind = device.partition(":")[0]
    specs = [
        spec
        for spec in frameworks().values()
        if spec.limits_preference is not None and kind in spec.devices
    ]
    found = (environments.inspect(spec, settings) for spec in sorted(specs, key=_preference))
    return [environment for environment in found if environment.ready]


def _preference(spec: FrameworkSpec) -> float:
    return spec.limits_preference or 0.0


def targets(plan: Iterable[Cell]) -> list[Target]:
    """What ``plan`` needs; a framework that computes nothing needs nothing."""
    found: dict[tuple[str, int], dict[str, None]] = {}
    for cell in plan:
        if framework(cell.framework).verifiable:
            threads = cell.threads if cell.device == "cpu" else 0
            found.setdefault((cell.device, threads), {})[cell.precision] = None
    # Of a GPU's host one thread is enough: it starts operations, and waits.
    return [(device, threads or 1, tuple(p)) for (device, threads), p in found.items()]


class LimitsRunner:
    """Args: where a trial's events go, what is to be done when it has ended.

    ``seed``: of the numbers in the matrices.
    """

    def __init__(
        self,
        new: Callable[[Cell], Path],
        end: Callable[[Path, Outcome], None],
        redact: Redactor,
        seed: int = 1,
    ) -> None:
        self._new = new
        self._end = end
        self._redact = redact
        self._seed = seed

    def measure(self, target: Target, found: Sequence[Environment]) -> DeviceLimits:
        """With the first of ``found`` that gets ceilings; the last one's failure if none does."""
        limits = DeviceLimits(*target[:2], "", "skipped", "no framework that can is ready")
        for environment in found:
            limits = self._trial(target, environment)
            if limits.usable:
                break
        return limits

    def _trial(self, target: Target, environment: Environment) -> DeviceLimits:
        device, threads, precisions = target
        cell = _cell(environment.framework, device, threads)
        path = self._new(cell)
        try:
            outcome = run_trial(
                cell,
                environment,
                limits_job(cell, self._seed, precisions),
                path,
                timeout_seconds=TIMEOUT_SECONDS,
                redact=self._redact,
            )
        except KeyboardInterrupt:
            self._end(path, Outcome("interrupted", "interrupted by the person"))
            raise
        events = list(events_in(path)) if path.exists() else []
        self._end(path, outcome)
        return limits_of_trial(cell, outcome, events, self._redact)


def _cell(name: str, device: str, threads: int) -> Cell:
    """The adapter's, which brings the framework up: of a network that takes no time to build."""
    spec = framework(name)
    mode = spec.modes[spec.default_mode]
    precision = "fp32" if "fp32" in spec.precisions else spec.precisions[0]
    return Cell(
        framework=name,
        mode=mode.name,
        network_spec="limits",
        network=_least_network(),
        batch_size=1,
        precision=precision,
        layout=mode.layouts[0],
        device=device,
        threads=threads,
        host_allocator="system",
    )


def _least_network() -> Network:
    net = Builder((1, 1, 1))
    net.flatten()
    net.dense("dense", 2)
    net.loss()
    return net.network("limits", options={}, source="the least that there is; it is not run")
