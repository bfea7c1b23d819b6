"""What comes before the first trial: a look around, verification, limits, compiling ahead."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from netdyno import environments
from netdyno.cli.bench import Bench, say
from netdyno.compile_ahead import compile_ahead, compiles_ahead
from netdyno.frameworks import framework
from netdyno.host.noise import look
from netdyno.limits_runner import LimitsRunner, candidates, targets
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.request import Request
from netdyno.runner import Runner, lacking
from netdyno.store.run_folder import RunFolder

__all__ = ["compiled", "look_around", "measure_limits", "verify"]


def look_around(folder: RunFolder, plan: Sequence[Cell]) -> None:
    """Warn of what would disturb the run, and keep how the machine was."""
    seen = look(cell.device for cell in plan)
    for warning in seen.warnings:
        say(f"warning: {warning}")
    folder.conditions(seen.conditions)


def verify(plan: Sequence[Cell], running: Bench) -> dict[str, str]:
    """Why cells are refused, by key: those that do not compute what the reference computes."""
    to_verify = [c for c in plan if framework(c.framework).verifiable and not lacking(c)]
    if not to_verify:
        return {}
    # They import NumPy, which takes as long as all the rest of netdyno.
    from netdyno.parity.certificate import CertificateStore
    from netdyno.parity.gate import certify
    from netdyno.parity.verify import Verifier

    def started(cell: Cell) -> None:
        say(f"verifying {cell.framework} {cell.mode}, {cell.network_spec} {cell.precision} …")

    certificates = certify(
        to_verify,
        running.environments,
        CertificateStore(running.settings.home / "certificates", running.folder.verification),
        Verifier(environments.find(framework("numpy"), running.settings), running.redact),
        started,
        lambda key, certificate: running.folder.verified(key, certificate.summary),
        running.jobs,
    )
    return {
        key: f"not verified: {certificate.reason}"
        for key, certificate in certificates.items()
        if not certificate.passed
    }


def measure_limits(request: Request, plan: Sequence[Cell], running: Bench) -> None:
    """Keep what the devices of ``plan`` can do at most, or why nobody knows."""
    folder, found = running.folder, []
    runner = LimitsRunner(
        lambda cell: folder.new_trial(cell, 1, measures="limits"),
        folder.end_trial,
        running.redact,
        request.seed,
    )
    for target in targets(plan):
        say(f"measuring the limits of {target[0]} …")
        found.append(runner.measure(target, candidates(target[0], running.settings)))
    if found:
        folder.limits([limits.to_json() for limits in found])


@contextmanager
def compiled(cells: Sequence[Cell], runner: Runner, running: Bench) -> Iterator[Mapping[str, Path]]:
    """Compile those of ``cells`` that have trials to come; where their trials find it, by key."""
    wanted = {
        cell.key: cell
        for cell in cells
        if compiles_ahead(cell) and runner.will_measure(cell) and not lacking(cell)
    }
    if not wanted:
        yield {}
        return

    def ended(cell: Cell, outcome: Outcome) -> None:
        how = f"{outcome.seconds:.0f} s" if outcome.status == "ok" else outcome.reason
        say(f"compiled ahead: {cell.framework} {cell.mode}, {cell.network_spec}: {how}")

    say(f"{len(wanted)} cells are compiled ahead of their trials …")
    with compile_ahead(
        list(wanted.values()),
        runner.request,
        running.environments,
        running.redact,
        running.settings.home / "compiled" / _name_of(running.folder.path),
        running.jobs,
        ended,
    ) as found:
        running.folder.compiled_ahead(found)
        yield found


def _name_of(folder: Path) -> str:
    """The same for who goes on with the run in ``folder``."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
