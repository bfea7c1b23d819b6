"""The environment variables that a child process of a framework's interpreter starts with."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["clean_environ"]

# Each of these would make the child load, or take itself for, the caller's Python.
_OF_THE_CALLER = ("PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
# PYTHONWARNINGS: `error` breaks the import of frameworks that warn (MXNet 1.9.1 does).
_OF_THE_CALLER_IF_MANAGED = ("PYTHONPATH", "PYTHONWARNINGS", "PYTHONUSERBASE")


def clean_environ(
    extra: Mapping[str, str] | None = None, *, managed: bool = True
) -> dict[str, str]:
    """The caller's variables without those that leak its Python into the child, plus ``extra``.

    An interpreter that the person named keeps PYTHONPATH: on clusters and in containers the
    framework itself may come through it.
    """
    dropped = _OF_THE_CALLER + (_OF_THE_CALLER_IF_MANAGED if managed else ())
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**kept, **(extra or {})}
