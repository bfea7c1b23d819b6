"""Frameworks that are no Python package: each folder knows how to find its own."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from netdyno.environments.environ import clean_environ
from netdyno.frameworks import FrameworkSpec
from netdyno_worker.external import Installation

__all__ = ["look_for"]


def look_for(spec: FrameworkSpec, named: Path | None) -> Installation:
    """What ``spec`` finds at ``named``, or on ``PATH`` when nothing was named."""
    # Standard library only, like the adapter beside it: no framework is imported here.
    module = importlib.import_module(f"netdyno_worker.frameworks.{spec.name}.installation")
    found: Installation = module.look_for(os.fspath(named) if named else None, clean_environ())
    return found
