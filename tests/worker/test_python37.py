"""The worker runs in environments of frameworks as old as Python 3.7."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netdyno.frameworks import WORKER_ROOT

FILES = sorted(WORKER_ROOT.rglob("*.py"))


def old_python() -> str | None:
    """The oldest of 3.7 and 3.8 that is installed: pyenv's own, or on the path."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for minor in ("3.7", "3.8"):
        candidates = [str(p) for p in sorted(root.glob(f"versions/{minor}.*/bin/python"))]
        on_path = shutil.which(f"python{minor}")
        for python in [*candidates, *([on_path] if on_path else [])]:
            told = subprocess.run(
                [python, "-S", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            if told.returncode == 0 and told.stdout.strip() == minor:
                return python
    return None


def test_the_grammar_is_that_of_python_37() -> None:
    for path in FILES:
        ast.parse(path.read_text("utf-8"), str(path), feature_version=(3, 7))


def test_an_old_python_compiles_every_file() -> None:
    python = old_python()
    if python is None:
        pytest.skip("neither Python 3.7 nor 3.8 is installed")
    code = "import sys\nfor path in sys.argv[1:]:\n  compile(open(path, 'rb').read(), path, 'exec')"
    done = subprocess.run(
        [python, "-S", "-c", code, *map(str, FILES)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_annotations_are_never_evaluated() -> None:
    """`list[int]` and `X | None` in them are then no error in an old Python."""
    for path in FILES:
        text = path.read_text("utf-8")
        if "def " in text and path.name != "__main__.py":
            assert "from __future__ import annotations" in text, path


def test_only_the_standard_library_and_numpy_outside_the_adapters() -> None:
    for path in FILES:
        if "frameworks" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert not name.startswith("netdyno."), path
                assert name.split(".")[0] in {
                    *sys.stdlib_module_names,
                    "numpy",
                    "netdyno_worker",
                }, (path, name)


def test_clocks_are_read_in_one_place() -> None:
    for path in FILES:
        if path.name in ("clock.py",) or path.parent.name == "null":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                assert "time" not in [alias.name for alias in node.names], path
