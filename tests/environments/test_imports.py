"""Whether a framework can be imported, asked of an interpreter."""

from __future__ import annotations

import dataclasses
import sys
from importlib import metadata
from pathlib import Path

from netdyno.environments.imports import Import, try_import
from netdyno.environments.processes import Processes
from netdyno.frameworks import FrameworkSpec


def imported(spec: FrameworkSpec) -> Import:
    return try_import(spec, Path(sys.executable), Processes(), managed=True)


def test_version_or_problem(spec: FrameworkSpec) -> None:
    found = imported(dataclasses.replace(spec, import_name="json"))
    assert found.version == "2.0.9"
    assert found.python_version == "{}.{}.{}".format(*sys.version_info)
    assert "No module named 'toy'" in imported(spec).problem


def test_version_from_the_packages_metadata(spec: FrameworkSpec) -> None:
    found = imported(dataclasses.replace(spec, import_name="rich"))  # which has no __version__
    assert found.version == metadata.version("rich")
    assert imported(dataclasses.replace(spec, import_name="types")).version == "unknown"


def test_a_file_of_the_frameworks_folder_is_run_first(spec: FrameworkSpec) -> None:
    code = "import sys, types\nsys.modules['toy'] = types.ModuleType('toy')\n"
    (spec.folder / "before.py").write_text(code + "sys.modules['toy'].__version__ = '7'\n")
    assert imported(dataclasses.replace(spec, import_first="before.py")).version == "7"
