"""The errors that a person can do something about."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["NetdynoError", "unknown_name"]


class NetdynoError(Exception):
    """Bad input or a missing piece: one line for the person, exit code 2.

    The message names what was wrong, where, and what to do about it.
    """


def unknown_name(what: str, name: str, known: Iterable[str]) -> NetdynoError:
    """An error for a name that does not exist, with the nearest ones that do."""
    known = sorted(known)
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    near += [k for k in known if name and k not in near and k.startswith(name.lower())][:3]
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
    return NetdynoError(f"unknown {what} '{name}'; {hint}")
