"""What a worker is started with, and what it can and cannot see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from netdyno.environments import Environment
from netdyno.launch import local
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.sampling import Sampling


@pytest.fixture(autouse=True)
def callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the caller's own that would change what is measured."""
    monkeypatch.setenv("MALLOC_ARENA_MAX", "7")
    monkeypatch.setenv("MALLOC_PERTURB_", "85")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=7")
    monkeypatch.setenv("OMP_NUM_THREADS", "64")


def malloc(environ: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in environ.items() if key.startswith("MALLOC_")}


def test_thread_variables_are_the_cells(
    make_cell: Callable[..., Cell], here: Environment, tmp_path: Path
) -> None:
    environ = local.environ(here, make_cell(threads=3), tmp_path)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        assert environ[name] == "3"


def test_the_system_allocator_is_left_alone(
    make_cell: Callable[..., Cell], here: Environment, tmp_path: Path
) -> None:
    assert malloc(local.environ(here, make_cell(host_allocator="system"), tmp_path)) == {}


def test_retain_keeps_what_was_freed_and_nothing_else_is_set(
    make_cell: Callable[..., Cell], here: Environment, tmp_path: Path
) -> None:
    assert malloc(local.environ(here, make_cell(host_allocator="retain"), tmp_path)) == {
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "100000000000",
    }


@pytest.mark.parametrize("allocator", ["system", "retain"])
def test_the_callers_glibc_tunables_do_not_reach_the_worker(
    make_cell: Callable[..., Cell], here: Environment, tmp_path: Path, allocator: str
) -> None:
    """They are the newer name of the same settings, and win over ``MALLOC_…``."""
    environ = local.environ(here, make_cell(host_allocator=allocator), tmp_path)
    assert "malloc" not in environ.get("GLIBC_TUNABLES", "")


def test_the_rest_is_the_callers(
    make_cell: Callable[..., Cell],
    here: Environment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/cuda/lib64")
    environ = local.environ(here, make_cell(), tmp_path)
    assert environ["LD_LIBRARY_PATH"] == "/opt/cuda/lib64"
    assert environ["TMPDIR"] == str(tmp_path)
    assert environ["PYTHONDONTWRITEBYTECODE"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "64"  # the controller's own stay as they were


def test_the_worker_is_started_by_its_path(here: Environment) -> None:
    words = local.command(here, Path("job.json"), Path("events.jsonl"))
    assert words[0] == str(here.python)
    assert Path(words[2]).parent.name == "netdyno_worker"
    assert words[3:] == ["job.json", "events.jsonl"]


@pytest.fixture
def bare(tmp_path: Path) -> Environment:
    """An environment that holds NumPy alone, and tells at its end what it could have imported."""
    folder = tmp_path / "bare"
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    numpy = Path(np.__file__).parent
    for package in (numpy, numpy.with_name("numpy.libs")):
        if package.exists():
            (site / package.name).symlink_to(package)
    (site / "probe.pth").write_text("import probe\n")
    (site / "probe.py").write_text(
        "import atexit, importlib.util, json, sys\n"
        "def tell():\n"
        "    names = 'netdyno', 'protocol', 'loop', 'weights', 'frameworks', 'rich', 'click'\n"
        "    seen = [name for name in names if importlib.util.find_spec(name)]\n"
        "    print('PROBE', json.dumps({'seen': seen, 'path': sys.path}))\n"
        "atexit.register(tell)\n"
    )
    return Environment("null", folder / "bin" / "python", "existing", "cpu", "ready")


def test_the_worker_sees_its_own_environment_only(
    bare: Environment,
    make_cell: Callable[..., Cell],
    quick: Sampling,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    cell = make_cell()
    job_path, events = tmp_path / "job.json", tmp_path / "events.jsonl"
    job_path.write_text(json.dumps({**job(cell, 1), "sampling": vars(quick)}))
    done = subprocess.run(
        local.command(bare, job_path, events),
        env=local.environ(bare, cell, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(events.read_text().splitlines()[-1]) == {"event": "finished"}
    (line,) = [text for text in done.stdout.splitlines() if text.startswith("PROBE ")]
    told = json.loads(line.removeprefix("PROBE "))
    assert told["seen"] == []
    root = str(local.WORKER_ROOT)
    assert not [entry for entry in told["path"] if entry in (root, os.path.dirname(root))]  # noqa: PTH120


def test_importing_the_worker_package_writes_no_bytecode_beside_it(
    here: Environment, make_cell: Callable[..., Cell], tmp_path: Path
) -> None:
    """It may be installed where the person cannot write, and be shared by many Pythons."""
    environ = local.environ(here, make_cell(), tmp_path)
    code = "import sys; print(sys.dont_write_bytecode)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
