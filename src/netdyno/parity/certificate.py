"""What was verified is remembered, for as long as nothing it rests on has changed."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from netdyno.environments import Environment
from netdyno.errors import NetdynoError
from netdyno.frameworks import WORKER_ROOT, framework
from netdyno.parity.verify import Verification
from netdyno.plan.cell import Cell

__all__ = ["Certificate", "CertificateStore"]

SCHEMA = 1

# Of the worker, what a check runs through; the rest measures what was computed.
COMPUTES = (
    "adapter.py",
    "compute.py",
    "lazy.py",
    "network.py",
    "pooling.py",
    "protocol.py",
    "trial.py",
    "weights.py",
)
# Of a framework's folder, what no check runs through.
MEASURES_ONLY = (
    "allocator_trace.py",
    "limits.py",
    "memory.lua",
    "memory.py",
    "own_model.py",
    "plan.py",
    "traced.py",
)

# Name and version of everything installed, and what is in the files of the framework's own folder,
# which may be a build that was never installed (Caffe's): without importing any of it. Times of
# files are another machine's business: the same wheel is the same build wherever it is unpacked.
_LIST = """
import hashlib, importlib.util, json, os, sys
try:
    from importlib.metadata import distributions
except ImportError:  # Python 3.7
    from pkg_resources import working_set
    found = [(d.project_name, d.version) for d in working_set]
else:
    found = [(d.metadata["Name"], d.version) for d in distributions()]
spec = importlib.util.find_spec(sys.argv[1])
folder = os.path.dirname(spec.origin) if spec and spec.origin else None
files = [entry for entry in os.scandir(folder) if entry.is_file()] if folder else []
build = hashlib.sha256()
for name, path in sorted((e.name, e.path) for e in files):
    build.update(name.encode())
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(2**20), b""):
            build.update(part)
print(json.dumps([sorted(map(list, found), key=str), build.hexdigest()]))
"""


@dataclass(frozen=True)
class Certificate:
    """How the verification of one framework, mode, network, precision, layout, device ended."""

    passed: bool
    reason: str
    created: str
    checks: tuple[Mapping[str, Any], ...]
    rests_on: str = ""

    @property
    def summary(self) -> dict[str, Any]:
        """What a run folder keeps of it; ``rests_on`` is a hash of all that it holds for."""
        return {
            "passed": self.passed,
            "reason": self.reason,
            "created": self.created,
            "rests_on": self.rests_on,
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "passed": self.passed,
            "reason": self.reason,
            "created": self.created,
            "checks": list(self.checks),
        }


class CertificateStore:
    """Certificates in ``folder``, a file each, named by a hash of what they rest on.

    ``kept``: summaries that a run folder has of its cells; they hold where what they rest on does.

    That is: framework and its whole environment, mode, network hash, precision, layout, device,
    the adapter's and the worker's code and this package's, which holds the bounds.
    """

    def __init__(
        self, folder: Path, kept: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    ) -> None:
        self._folder = folder
        # Of environments that are not ours: asking one takes a process, and is done for each way.
        self._listed: dict[tuple[Path, str], str] = {}
        self._kept = {
            summary["rests_on"]: summary
            for summary in kept.values()
            if summary.get("rests_on") and summary.get("passed")
        }

    def find(self, cell: Cell, environment: Environment) -> Certificate | None:
        """None if there is none, or it cannot be read."""
        rests_on = self._rests_on(cell, environment)
        try:
            path = self._path(cell, rests_on)
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["schema"] == SCHEMA:
                return Certificate(
                    bool(data["passed"]),
                    data["reason"],
                    data["created"],
                    tuple(data["checks"]),
                    rests_on,
                )
        except (OSError, ValueError, KeyError, TypeError):
            pass
        if rests_on in self._kept:
            return Certificate(True, "", str(self._kept[rests_on].get("created")), (), rests_on)
        return None

    def add(self, verification: Verification, environment: Environment, now: str) -> Certificate:
        """Keep what was found. Raises NetdynoError where the folder cannot be written."""
        rests_on = self._rests_on(verification.cell, environment)
        certificate = Certificate(
            verification.passed,
            verification.reason,
            now,
            tuple(
                {
                    "name": check.name,
                    "precision": check.precision,
                    "status": check.status,
                    "seconds": round(check.seconds, 3),
                    "worst": check.worst.name if check.worst else None,
                    "relative_l2": check.worst.relative_l2 if check.worst else None,
                    "bound": check.worst.bound if check.worst else None,
                }
                for check in verification.checks
            ),
            rests_on,
        )
        path = self._path(verification.cell, rests_on)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".new")
            temporary.write_text(json.dumps(certificate.to_json(), indent=1), encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            raise NetdynoError(
                f"cannot keep certificates in {path.parent}: {error.strerror}"
            ) from None
        return certificate

    def _path(self, cell: Cell, rests_on: str) -> Path:
        return self._folder / f"{cell.framework}-{rests_on}.json"

    def _rests_on(self, cell: Cell, environment: Environment) -> str:
        parts = [*cell.way, self._installed(environment), _code_hash(cell.framework)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]

    def _installed(self, environment: Environment) -> str:
        """What an environment itself tells, managed or external, is known; others are asked."""
        if environment.managed or environment.kind == "external":
            return json.dumps(sorted(environment.packages.items()))
        key = (environment.python, environment.framework)
        if key not in self._listed:
            self._listed[key] = _list(environment)
        return self._listed[key]


def _list(environment: Environment) -> str:
    done = subprocess.run(
        [environment.python, "-c", _LIST, framework(environment.framework).import_name],
        env=environment.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NetdynoError(
            f"cannot list what is installed for {environment.framework}: "
            f"{(done.stderr.strip().splitlines() or ['no output'])[-1]}"
        )
    return f"{environment.python_version} {done.stdout}"


@cache
def _code_hash(name: str) -> str:
    """Of everything that decides what is computed and what is allowed."""
    reference = framework("numpy").folder
    own = [path for path in framework(name).folder.glob("*") if path.name not in MEASURES_ONLY]
    files = [
        *(WORKER_ROOT / file for file in COMPUTES),
        *reference.glob("*.py"),
        *own,
        *Path(__file__).parent.glob("*.py"),
    ]
    digest = hashlib.sha256()
    for path in sorted({path for path in files if path.is_file()}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
