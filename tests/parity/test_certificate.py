"""Certificates are kept, found again, and not found once something has changed."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from netdyno.environments import Environment
from netdyno.errors import NetdynoError
from netdyno.frameworks import WORKER_ROOT
from netdyno.parity import certificate
from netdyno.parity.certificate import CertificateStore
from netdyno.parity.compare import TensorResult
from netdyno.parity.verify import CheckResult, Verification
from netdyno.plan.cell import Cell
from tests.small_network import small_network

MakeCell = Callable[..., Cell]
NOW = "2026-11-30T00:00:00+00:00"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(
        "pytorch", tmp_path / "python", "managed", "cpu", "ready", packages={"torch": "2.13.0"}
    )


@pytest.fixture
def cell(make_cell: MakeCell) -> Cell:
    return make_cell(framework="pytorch", mode="eager")


def verification(cell: Cell, relative_l2: float) -> Verification:
    tensor = TensorResult("gradient/c1.weight", relative_l2, 1e-4, (0,), 1.0, 1.0)
    status = "passed" if tensor.passed else "failed"
    return Verification(cell, (CheckResult("tiny", "fp32", status, "", (tensor,)),))


def test_it_is_found_again(cell: Cell, environment: Environment, tmp_path: Path) -> None:
    store = CertificateStore(tmp_path / "certificates")
    assert store.find(cell, environment) is None
    added = store.add(verification(cell, 1e-6), environment, NOW)
    assert added.passed
    assert store.find(cell, environment) == added
    assert added.checks[0]["worst"] == "gradient/c1.weight"


def test_a_failure_is_kept_with_its_reason(
    cell: Cell, environment: Environment, tmp_path: Path
) -> None:
    store = CertificateStore(tmp_path)
    found = store.add(verification(cell, 0.5), environment, NOW)
    assert not found.passed
    assert found.reason == "tiny (fp32): gradient/c1.weight is 5.0e-01 off (allowed 1.0e-04)"


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "compile"},
        {"precision": "fp64"},
        {"layout": "nhwc"},
        {"device": "cuda:0"},
        {"network": small_network()},
    ],
)
def test_it_is_of_one_cell(
    cell: Cell, environment: Environment, tmp_path: Path, changes: dict[str, object]
) -> None:
    store = CertificateStore(tmp_path)
    store.add(verification(cell, 1e-6), environment, NOW)
    assert store.find(dataclasses.replace(cell, **changes), environment) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes", [{"batch_size": 7}, {"threads": 1}, {"host_allocator": "retain"}]
)
def test_what_runs_the_same_code_shares_it(
    cell: Cell, environment: Environment, tmp_path: Path, changes: dict[str, object]
) -> None:
    store = CertificateStore(tmp_path)
    store.add(verification(cell, 1e-6), environment, NOW)
    assert store.find(dataclasses.replace(cell, **changes), environment)  # type: ignore[arg-type]


def test_it_ends_with_the_environment(cell: Cell, environment: Environment, tmp_path: Path) -> None:
    store = CertificateStore(tmp_path)
    store.add(verification(cell, 1e-6), environment, NOW)
    newer = dataclasses.replace(environment, packages={"torch": "2.14.0"})
    assert store.find(cell, newer) is None


def test_it_ends_with_a_build_that_was_never_installed(
    make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "build" / "caffe"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('it is only looked at')")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    existing = Environment("caffe", Path(sys.executable), "existing", "cpu", "ready")
    cell = make_cell(framework="caffe", mode="net")
    CertificateStore(tmp_path).add(verification(cell, 1e-6), existing, NOW)
    assert CertificateStore(tmp_path).find(cell, existing)
    os.utime(package / "__init__.py", (1, 1))  # as a machine does that is set up anew
    assert CertificateStore(tmp_path).find(cell, existing)
    (package / "_caffe.so").write_text("another build")
    assert CertificateStore(tmp_path).find(cell, existing) is None


def test_an_environment_is_asked_once(
    make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def listing(environment: Environment) -> str:
        asked.append(environment.framework)
        return f"what {environment.framework} has"

    monkeypatch.setattr(certificate, "_list", listing)
    store = CertificateStore(tmp_path)
    for framework in ("caffe", "pytorch"):
        existing = Environment(framework, Path(sys.executable), "existing", "cpu", "ready")
        for precision in ("fp32", "fp64"):
            assert store.find(make_cell(framework=framework, precision=precision), existing) is None
    assert asked == ["caffe", "pytorch"]


def test_it_ends_with_the_adapter(
    cell: Cell, environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    store = CertificateStore(tmp_path)
    store.add(verification(cell, 1e-6), environment, NOW)
    monkeypatch.setattr(certificate, "_code_hash", lambda name: "other")
    assert store.find(cell, environment) is None


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": 99}', "\x00"])
def test_one_that_cannot_be_read_is_none(
    cell: Cell, environment: Environment, tmp_path: Path, text: str
) -> None:
    store = CertificateStore(tmp_path)
    store.add(verification(cell, 1e-6), environment, NOW)
    (path,) = tmp_path.glob("pytorch-*.json")
    path.write_text(text)
    assert store.find(cell, environment) is None


def test_a_folder_that_cannot_be_written(
    cell: Cell, environment: Environment, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    store = CertificateStore(tmp_path / "file" / "certificates")
    with pytest.raises(NetdynoError, match="cannot keep certificates"):
        store.add(verification(cell, 1e-6), environment, NOW)


def test_only_checks_that_ran_prove_anything(cell: Cell) -> None:
    skipped = CheckResult("tiny", "fp32", "skipped", "no such layer")
    assert not Verification(cell, (skipped,)).passed
    assert not Verification(cell, ()).passed
    strict = dataclasses.replace(skipped, precision="fp64")
    assert Verification(cell, (verification(cell, 0.0).checks[0], strict)).passed


def test_the_files_that_it_rests_on_are_there() -> None:
    assert all((WORKER_ROOT / name).is_file() for name in certificate.COMPUTES)
    for name in certificate.MEASURES_ONLY:
        assert list((WORKER_ROOT / "frameworks").glob(f"*/{name}")), name
