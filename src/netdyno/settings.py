"""What the person has configured: where environments live, which interpreters are given.

Sources, first one wins: the command line (``--python``), the environment (``NETDYNO_HOME``,
``NETDYNO_CONFIG``, ``NETDYNO_LOCK``, ``NETDYNO_TORCH7``), the configuration file, the defaults of
the platform.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import platformdirs

from netdyno.errors import NetdynoError, unknown_name
from netdyno.frameworks import frameworks

__all__ = ["Settings", "config_path", "load_settings", "location_variable"]

_KEYS = ("home", "python", "external")


@dataclass(frozen=True)
class Settings:
    """``home`` holds environments and logs; ``python`` maps a framework to an interpreter.

    ``external`` maps a framework that is no Python package to where it was said to be; whether it
    is there is found out when it is looked for. ``lock`` is the file that keeps two runs from
    measuring at once: see host/lock.py.
    """

    home: Path
    python: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    external: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    lock: Path = field(default_factory=lambda: _lock())

    @property
    def environments(self) -> Path:
        return self.home / "environments"

    @property
    def logs(self) -> Path:
        return self.home / "logs"


def config_path() -> Path:
    """The configuration file; it need not exist unless ``NETDYNO_CONFIG`` names it."""
    named = os.environ.get("NETDYNO_CONFIG")
    return _absolute(named) if named else platformdirs.user_config_path("netdyno") / "config.toml"


def location_variable(name: str) -> str:
    """The environment variable that says where an external framework is: ``NETDYNO_TORCH7``."""
    return f"NETDYNO_{name.upper()}"


def load_settings(overrides: Iterable[str] = ()) -> Settings:
    """Read the configuration; ``overrides`` are ``FRAMEWORK=PATH`` words of ``--python``.

    Raises NetdynoError naming the file, line and key (or the option) that is wrong.
    """
    path = config_path()
    text = _text(path)
    data = _parse(text, path)
    home = os.environ.get("NETDYNO_HOME") or _home(data, text, path)
    python = _python_table(data, text, path)
    python.update(_override(word) for word in overrides)
    return Settings(
        home=_absolute(home) if home else platformdirs.user_cache_path("netdyno"),
        python=MappingProxyType(python),
        external=MappingProxyType({**_external_table(data, text, path), **_external_variables()}),
    )


def _absolute(text: str, base: Path | None = None) -> Path:
    """An absolute path that keeps symbolic links: a venv's python must not become its target."""
    return Path(os.path.normpath((base or Path.cwd()) / Path(text).expanduser()))


def _lock() -> Path:
    """One file for all users of the machine, which a home folder or a job's TMPDIR would not be."""
    named = os.environ.get("NETDYNO_LOCK")
    if named:
        return _absolute(named)
    shared = Path("/tmp")
    return (shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())) / "netdyno.lock"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if os.environ.get("NETDYNO_CONFIG"):
            raise NetdynoError(
                f"NETDYNO_CONFIG names {path}, which does not exist: create or unset it"
            ) from None
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise NetdynoError(f"cannot read the configuration {path}: {error}") from None


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NetdynoError(f"{path} is not valid TOML: {error}; correct it or remove it") from None
    for key in data:
        if key not in _KEYS:
            raise NetdynoError(f"{_where(path, text, key)}: {unknown_name('key', key, _KEYS)}")
    return data


def _home(data: Mapping[str, Any], text: str, path: Path) -> str | None:
    home = data.get("home")
    if home is not None and (not isinstance(home, str) or not home):
        raise NetdynoError(
            f'{_where(path, text, "home")}: home must be a folder in quotes: home = "/path"'
        )
    return str(_absolute(home, path.parent)) if home else None


def _python_table(data: Mapping[str, Any], text: str, path: Path) -> dict[str, Path]:
    table = data.get("python", {})
    example = 'a table:\n[python]\nmxnet = "/path/to/python"'
    if not isinstance(table, dict):
        raise NetdynoError(f"{_where(path, text, 'python')}: python must be {example}")
    found: dict[str, Path] = {}
    for name, value in table.items():
        where = f"{_where(path, text, name)}: python.{name}"
        if not isinstance(value, str) or not value:
            raise NetdynoError(f"{where} must be the path of a Python executable, in quotes")
        found[name] = _interpreter(name, _absolute(value, path.parent), where)
    return found


def _external_table(data: Mapping[str, Any], text: str, path: Path) -> dict[str, Path]:
    table = data.get("external", {})
    known = [name for name, spec in frameworks().items() if spec.external]
    if not isinstance(table, dict):
        raise NetdynoError(
            f"{_where(path, text, 'external')}: external must be a table:\n"
            f'[external]\n{known[0]} = "/path/to/installation"'
        )
    found: dict[str, Path] = {}
    for name, value in table.items():
        where = f"{_where(path, text, name)}: external.{name}"
        if name not in known:
            raise NetdynoError(f"{where}: {unknown_name('external framework', name, known)}")
        if not isinstance(value, str) or not value:
            raise NetdynoError(f"{where} must be the path of an installation, in quotes")
        found[name] = _absolute(value, path.parent)
    return found


def _external_variables() -> dict[str, Path]:
    named = {
        name: os.environ.get(location_variable(name))
        for name, spec in frameworks().items()
        if spec.external
    }
    return {name: _absolute(value) for name, value in named.items() if value}


def _override(word: str) -> tuple[str, Path]:
    name, separator, value = word.partition("=")
    if not separator or not name or not value:
        raise NetdynoError(f"--python '{word}': write FRAMEWORK=PATH, as in mxnet=/path/to/python")
    return name, _interpreter(name, _absolute(value), f"--python {name}")


def _interpreter(name: str, path: Path, where: str) -> Path:
    """``path`` if ``name`` is a framework and ``path`` can be executed."""
    if name not in frameworks():
        raise NetdynoError(f"{where}: {unknown_name('framework', name, frameworks())}")
    if frameworks()[name].external:
        raise NetdynoError(
            f"{where}: {name} is no Python package; name its installation with"
            f" {location_variable(name)} or external.{name} in the configuration file"
        )
    if not path.exists():
        raise NetdynoError(f"{where}: {path} does not exist; name a Python executable")
    if not path.is_file():
        raise NetdynoError(
            f"{where}: {path} is a folder; name the executable in it, such as {path / 'bin/python'}"
        )
    if not os.access(path, os.X_OK):
        raise NetdynoError(f"{where}: {path} is not executable; name a Python executable")
    return path


def _where(path: Path, text: str, key: str) -> str:
    """``FILE, line N`` for the first line that sets or opens ``key``."""
    word = rf"""["']?{re.escape(key)}["']?"""
    pattern = re.compile(rf"^\s*\[*\s*((python|external)\.)?{word}\s*[\]=.]")
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.match(line):
            return f"{path}, line {number}"
    return str(path)
