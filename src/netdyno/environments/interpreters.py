"""Finding a Python that can make an environment: run each candidate, never trust its name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from netdyno.environments.environ import clean_environ
from netdyno.environments.processes import Processes
from netdyno.errors import NetdynoError

__all__ = ["Interpreter", "find_interpreter", "running_version", "uv_executable"]

_PROBE = """
import json, platform, sys
missing = []
for name in ("venv", "ensurepip", "ssl"):
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
free = bool(getattr(sys, "abiflags", "").count("t"))
print(json.dumps([list(sys.version_info[:3]), platform.python_implementation(), free, missing]))
"""
_PROBE_SECONDS = 60.0
_INSTALL_SECONDS = 900.0


@dataclass(frozen=True)
class Interpreter:
    """A Python that was run and can make environments. ``version`` is ``3.11.7``."""

    path: Path
    version: str


@dataclass(frozen=True)
class _Rejected:
    path: Path
    reason: str


def running_version(python: Path, *, managed: bool = True) -> str | None:
    """``3.11.7`` if the interpreter runs, else None; takes some 10 ms (no ``site``)."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    done = _run([str(python), "-I", "-S", "-c", code], managed=managed)
    if done is None or done.returncode != 0:
        return None
    version = done.stdout.strip().splitlines()[-1:]
    return version[0] if version and re.fullmatch(r"\d+\.\d+\.\d+", version[0]) else None


def find_interpreter(
    versions: Sequence[str],
    processes: Processes,
    report: Callable[[str], None] = lambda _: None,
) -> Interpreter:
    """The first that works, for ``versions`` such as ``3.11`` in order of preference.

    Any installed one is preferred to a download. Raises NetdynoError with all that was tried.
    """
    rejected: list[_Rejected] = []
    for version in versions:
        seen: set[Path] = set()
        for candidate in _installed(version):
            if candidate in seen:
                continue
            seen.add(candidate)
            found = _probe(candidate, version)
            if isinstance(found, Interpreter):
                return found
            rejected.append(found)
    download = _download(versions[0], processes, report)
    if isinstance(download, Interpreter):
        return download
    tried = "".join(f"\n    {entry.path}: {entry.reason}" for entry in (*rejected, download))
    wanted = f"Python {' or '.join(versions)}"
    raise NetdynoError(
        f"no {wanted} was found. Install one (with its venv module) so that"
        f" `python{versions[0]}` runs, or name an interpreter that already holds the framework"
        f" with --python FRAMEWORK=PATH. Tried:{tried}"
    )


def uv_executable() -> Path | None:
    """The uv that came with netdyno, else one on PATH."""
    try:
        import uv

        return Path(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
        return Path(found) if found else None


def _installed(version: str) -> Iterator[Path]:
    """Candidates already on this host. Lazily, so that a later source is asked only if needed."""
    if sys.executable and version == "{}.{}".format(*sys.version_info):
        yield Path(sys.executable)
    for folder in os.get_exec_path():
        candidate = Path(folder) / f"python{version}"
        if candidate.is_file() and os.access(candidate, os.X_OK):
            yield candidate
    yield from _of_pyenv(version)
    managed = _of_uv(version)
    if managed:
        yield managed


def _of_pyenv(version: str) -> Iterator[Path]:
    """Versions that pyenv holds but may not have activated, newest patch release first."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = []
    for folder in root.glob(f"{version}.*"):
        match = re.fullmatch(rf"{re.escape(version)}\.(\d+)", folder.name)
        if match:
            found.append((int(match[1]), folder / "bin" / f"python{version}"))
    for _, candidate in sorted(found, reverse=True):
        if candidate.exists():
            yield candidate


def _of_uv(version: str) -> Path | None:
    """An interpreter that uv has installed earlier.

    Only those: asked for any, uv gives up at the first one on PATH that does not run.
    """
    uv = uv_executable()
    if uv is None:
        return None
    words = ["python", "find", version, "--managed-python", "--no-python-downloads", "--no-project"]
    done = _run([str(uv), *words])
    if done is None or done.returncode != 0 or not done.stdout.strip():
        return None
    return Path(done.stdout.strip().splitlines()[-1])


def _download(
    version: str, processes: Processes, report: Callable[[str], None]
) -> Interpreter | _Rejected:
    uv = uv_executable()
    if uv is None:
        return _Rejected(Path("uv"), "not found, so no Python can be downloaded")
    report(f"no Python {version} here: downloading one with uv")
    # --no-bin: put nothing on the person's PATH.
    command = [str(uv), "python", "install", version, "--no-bin"]
    done = processes.run(command, clean_environ(), timeout_seconds=_INSTALL_SECONDS)
    found = _of_uv(version) if done.ok else None
    if found is None:
        causes = [line.strip() for line in done.lines if line.strip()]
        why = f"{causes[0]} ({causes[-1]})" if causes else f"exit code {done.returncode}"
        return _Rejected(Path("uv python install"), f"could not download Python {version}: {why}")
    return _probe(found, version)


def _probe(candidate: Path, version: str) -> Interpreter | _Rejected:
    done = _run([str(candidate), "-I", "-c", _PROBE])
    if done is None:
        return _Rejected(candidate, "does not run")
    try:
        numbers, implementation, free_threaded, missing = json.loads(done.stdout)
    except ValueError:
        words = (done.stderr or done.stdout).strip().splitlines()
        return _Rejected(candidate, f"does not run ({words[0] if words else done.returncode})")
    text = ".".join(map(str, numbers))
    if not text.startswith(version + "."):
        return _Rejected(candidate, f"is Python {text}")
    if implementation != "CPython" or free_threaded:
        return _Rejected(candidate, f"is {implementation}, not the standard CPython build")
    if missing:
        return _Rejected(candidate, f"lacks the standard module {', '.join(missing)}")
    return Interpreter(candidate, text)


def _run(argv: Sequence[str], *, managed: bool = True) -> subprocess.CompletedProcess[str] | None:
    """None if it could not be started or did not answer."""
    environ = clean_environ(managed=managed)
    try:
        return subprocess.run(
            argv,
            env=environ,
            cwd=os.sep,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
