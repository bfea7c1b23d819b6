"""Where output goes: tables and JSON on stdout, progress and remarks on stderr."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console

__all__ = ["console", "print_json", "progress_console"]


def console() -> Console:
    """For the result. Rich obeys NO_COLOR and drops styling when stdout is no terminal.

    Without a terminal the width is fixed and wide, so that a table piped to a file never
    depends on the window it was started from.
    """
    out = Console(highlight=False, soft_wrap=False)
    return out if out.is_terminal else Console(highlight=False, width=200)


def progress_console() -> Console:
    """For progress and remarks."""
    return Console(stderr=True, highlight=False)


def print_json(data: Any) -> None:
    """One JSON document on stdout; NaN and infinity are refused since JSON has neither."""
    click.echo(json.dumps(data, indent=2, allow_nan=False))
