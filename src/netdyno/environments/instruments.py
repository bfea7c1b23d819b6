"""memray for the Python of each environment, in folders of their own.

It watches the allocations of a trial of memory (netdyno_worker/allocations.py). No environment
holds it: what is measured stays what it is, and an interpreter that is not ours stays untouched.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from netdyno.environments.environ import clean_environ
from netdyno.environments.environment import Environment
from netdyno.environments.packages import why_pip_failed
from netdyno.environments.processes import Processes
from netdyno.errors import NetdynoError
from netdyno.settings import Settings

__all__ = ["find_or_install"]

# The last memray with wheels for Python 3.8, and what it imports.
MEMRAY = "1.19.3"
REQUIREMENTS = (
    f"memray=={MEMRAY}",
    "markdown-it-py==3.0.0",
    "mdurl==0.1.2",
    "pygments==2.19.2",
    "rich==14.2.0",
    "typing_extensions==4.13.2",
)


def find_or_install(
    environment: Environment, settings: Settings, processes: Processes | None = None
) -> Path:
    """The folder with memray for this environment's Python; installed there at the first time.

    Raises NetdynoError where it cannot be had.
    """
    version = re.match(r"(\d+)\.(\d+)", environment.python_version or "")
    if not version:
        raise NetdynoError(f"the Python of {environment.framework} does not tell its version")
    major, minor = version.groups()
    folder = settings.home / "instruments" / f"memray-{MEMRAY}-cp{major}{minor}"
    if not folder.is_dir():
        _install(folder, f"{major}.{minor}", processes or Processes())
    return folder


def _install(folder: Path, python_version: str, processes: Processes) -> None:
    """Beside its place and then moved: a folder that is there is whole."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            target = Path(scratch) / "new"
            command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-input"]
            command += ["--only-binary=:all:", "--implementation", "cp", "--target", str(target)]
            command += ["--python-version", python_version, "--disable-pip-version-check"]
            done = processes.run([*command, *REQUIREMENTS], clean_environ())
            if not done.ok:
                raise NetdynoError(
                    f"memray cannot be installed for Python {python_version}{why_pip_failed(done)}"
                )
            target.rename(folder)
    except OSError as error:
        if folder.is_dir():  # another netdyno was faster
            return
        raise NetdynoError(f"cannot write to {folder.parent}: {error.strerror}") from None
