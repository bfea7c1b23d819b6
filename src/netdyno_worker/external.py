"""What is found of a framework that is no Python package and that netdyno does not install."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping, NamedTuple


class Installation(NamedTuple):
    """What a framework's ``installation.look_for(named, environ)`` returns.

    ``named``: the folder or program that the person named, or None for what is on the path.

    Attributes:
        program: what is started; empty if there is none.
        root: the folder that holds it; empty where it is spread over the system.
        version: for people; empty if it does not work.
        parts: changes whenever something changes that results rest on.
        problem: what is missing, in one line; empty if nothing is.
    """

    program: str = ""
    root: str = ""
    version: str = ""
    parts: Mapping[str, str] = MappingProxyType({})
    problem: str = ""
