"""The networks that come with netdyno: one module per family, one function per network.

To add one, write a function in a module of this folder (a new module is found by itself)::

    @network("lenet", source="LeCun et al. 1998, Proceedings of the IEEE 86(11)")
    def lenet(*, size: Size = 28, classes: Classes = 10, dropout: bool = False) -> Builder:
        ...

Its keyword parameters are the network's options, with their defaults.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from netdyno.errors import NetdynoError, unknown_name
from netdyno.networks.builder import Builder
from netdyno.networks.graph import Network
from netdyno.networks.options import Option, OptionValue, options_of

__all__ = ["Entry", "entries", "network"]

BuilderFunction = Callable[..., Builder]


@dataclass(frozen=True)
class Entry:
    """One network of the zoo: where it was published, its options, and how it is built."""

    name: str
    source: str
    options: tuple[Option, ...]
    function: BuilderFunction

    def build(self, written: Mapping[str, str | None]) -> Network:
        """The network with these options, as they were written.

        Raises:
            NetdynoError: an option does not exist, or does not accept its value.
            ShapeError: the layers do not fit this input size.
        """
        known = {option.name: option for option in self.options}
        values: dict[str, OptionValue] = {option.name: option.default for option in self.options}
        for name, text in written.items():
            if name not in known:
                raise unknown_name(f"option of network '{self.name}':", name, known)
            try:
                values[name] = known[name].parse(text)
            except NetdynoError as error:
                raise NetdynoError(f"network '{self.name}': {error}") from None
        return self.function(**values).network(self.name, options=values, source=self.source)


_entries: dict[str, Entry] = {}


def network(name: str, *, source: str) -> Callable[[BuilderFunction], BuilderFunction]:
    """Puts the decorated function into the zoo under this name."""

    def register(function: BuilderFunction) -> BuilderFunction:
        assert name not in _entries, f"two networks are called '{name}'"
        _entries[name] = Entry(name, source, options_of(function), function)
        return function

    return register


def entries() -> dict[str, Entry]:
    """Every network by name, in alphabetical order."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(_entries.items()))
