"""Verifying through worker processes: what fails, crashes or cannot be expressed is told apart."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from netdyno.environments import Environment
from netdyno.errors import NetdynoError
from netdyno.networks.graph import Dropout
from netdyno.outcome import Outcome
from netdyno.parity import gate, verify
from netdyno.parity.certificate import CertificateStore
from netdyno.parity.subject import Check, Computed, compute
from netdyno.parity.verify import CheckResult, Verification, Verifier, checks_of
from netdyno.plan.cell import Cell
from netdyno.redact import Redactor
from tests.small_network import small_network

MakeCell = Callable[..., Cell]
REDACT = Redactor({})


@pytest.fixture
def here() -> Environment:
    return Environment("null", Path(sys.executable), "controller", "cpu", "ready")


@pytest.fixture
def verifier(here: Environment) -> Verifier:
    return Verifier(here, REDACT)


def check(name: str) -> Check:
    return Check(name, small_network(), 2, 0.02, 0)


def test_the_reference_passes_its_own_verification(
    verifier: Verifier, here: Environment, make_cell: MakeCell
) -> None:
    cell = make_cell(framework="numpy", mode="plain", precision="fp32", network=small_network())
    found = verifier.verify(cell, here)
    assert found.passed, found.reason
    assert [(c.name, c.precision) for c in found.checks] == [
        ("small layers", "fp32"),
        ("small", "fp32"),
        ("small layers", "fp64"),
        ("small", "fp64"),
    ]


def test_what_computes_nothing_fails(
    verifier: Verifier, here: Environment, make_cell: MakeCell
) -> None:
    found = verifier.verify(make_cell(network=small_network()), here)
    assert not found.passed
    assert {c.status for c in found.checks} == {"failed"}
    assert "small layers (fp32): loss is" in found.reason
    assert found.reason.endswith("; the first layer that differs: Conv 'c1'")


def test_a_reference_that_fails_to_locate_costs_only_the_location(
    verifier: Verifier, here: Environment, make_cell: MakeCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference_of = verifier._reference_of

    def fails_on_heads(check: Check) -> object:
        if check.name.endswith("every layer"):
            raise NetdynoError("out of memory")
        return reference_of(check)

    monkeypatch.setattr(verifier, "_reference_of", fails_on_heads)
    found = verifier.verify(make_cell(network=small_network()), here)
    assert "small layers (fp32): loss is" in found.reason
    assert "first layer" not in found.reason


def test_precisions_share_double_precision_and_the_reference(
    verifier: Verifier, here: Environment, make_cell: MakeCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []

    def counting(cell: Cell, *rest: Any) -> Computed:
        computed.append(f"{cell.framework} {cell.precision}")
        return compute(cell, *rest)

    monkeypatch.setattr(verify, "compute", counting)
    make = partial(make_cell, framework="numpy", mode="plain", network=small_network())
    first = verifier.verify(make(precision="fp32"), here)
    again = verifier.verify(make(precision="fp32"), here)
    assert first.passed
    assert [c.tensors for c in again.checks] == [c.tensors for c in first.checks]
    # Of the reference, which is in double precision: the sheet of layers and the network.
    assert Counter(computed) == {"numpy fp32": 2, "numpy fp64": 1 + 2}
    verifier.forget(small_network())
    verifier.verify(make(precision="fp32"), here)
    assert Counter(computed) == {"numpy fp32": 3, "numpy fp64": 1 + 2 + 2}


@pytest.mark.parametrize(
    ("framework", "mode", "device", "own", "strict"),
    [
        ("pytorch", "eager", "cpu", "on", "on"),
        ("pytorch", "eager", "cuda:0", "on", "off"),
        ("jax", "jit", "cpu", "on", "on"),
        ("jax", "jit", "cuda:0", "off", "off"),  # it tunes slowly
    ],
)
def test_what_may_be_tuned_for_a_check(
    verifier: Verifier,
    here: Environment,
    make_cell: MakeCell,
    monkeypatch: pytest.MonkeyPatch,
    framework: str,
    mode: str,
    device: str,
    own: str,
    strict: str,
) -> None:
    seen: dict[str, str] = {}

    def watching(cell: Cell, environment: Environment, checks: Any, *rest: Any) -> Computed:
        seen[cell.precision] = cell.autotune
        return Computed({}, {check.name: Outcome("skipped", "") for check in checks})

    monkeypatch.setattr(verify, "compute", watching)
    subject = make_cell(framework=framework, mode=mode, device=device, precision="bf16")
    verifier.verify(subject, here)
    assert seen == {"bf16": own, "fp64": strict}


def test_double_precision_can_be_checked_beside_the_rest(
    verifier: Verifier, here: Environment, make_cell: MakeCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []

    def counting(cell: Cell, *rest: Any) -> Computed:
        computed.append(cell.precision)
        return compute(cell, *rest)

    monkeypatch.setattr(verify, "compute", counting)
    monkeypatch.setattr(verifier, "_expected", lambda check: {})  # it all differs, then
    monkeypatch.setattr(verifier, "_first_layer", lambda *differing: "")
    make = partial(make_cell, framework="numpy", mode="plain", network=small_network())
    strict = verifier.strict(make(precision="fp32"), here)
    assert strict
    strict()
    assert computed == ["fp64"]
    verifier.verify(make(precision="fp32"), here)
    assert computed == ["fp64", "fp32"]
    assert verifier.strict(make(precision="fp64"), here) is None


def test_the_gradient_by_the_images_when_asked(here: Environment, make_cell: MakeCell) -> None:
    cell = make_cell(framework="numpy", mode="plain", precision="fp64", network=small_network())
    for asked in (False, True):
        found = Verifier(here, REDACT, input_gradient=asked).verify(cell, here)
        assert found.passed
        for result in found.checks:
            assert ("gradient/images" in {t.name for t in result.tensors}) is asked


@pytest.mark.parametrize(
    ("mode", "status", "words"),
    [
        ("crash", "failed", "SIGSEGV"),
        ("killed", "failed", "SIGKILL"),
        ("raise", "failed", "told to raise"),
        ("oom", "out_of_memory", "told to run out"),
    ],
)
def test_a_crash_costs_only_what_crashed(
    here: Environment, make_cell: MakeCell, mode: str, status: str, words: str
) -> None:
    cell = make_cell(mode=mode, network=small_network())
    computed = compute(cell, here, [check("one"), check("two")], REDACT)
    assert computed.arrays == {}
    assert computed.outcomes.keys() == {"one", "two"}
    for outcome in computed.outcomes.values():
        assert outcome.status == status
        assert words in outcome.reason


def test_a_crash_is_reported_as_such(
    verifier: Verifier, here: Environment, make_cell: MakeCell
) -> None:
    found = verifier.verify(make_cell(mode="crash", network=small_network()), here)
    assert {c.status for c in found.checks} == {"crashed"}
    assert "SIGSEGV" in found.reason


def test_dropout_is_checked_at_rate_zero(make_cell: MakeCell) -> None:
    network = small_network()
    last = network.layers[-1]
    dropped = Dropout("drop", last.inputs, 0.5)
    loss = dataclasses.replace(last, inputs=("drop",))
    network = dataclasses.replace(network, layers=(*network.layers[:-1], dropped, loss))
    (_, whole) = checks_of(network)
    rates = [layer.rate for layer in whole.network.layers if isinstance(layer, Dropout)]
    assert rates == [0.0]


class Counting(Verifier):
    """A verifier that says what it is told to, and counts how often it is asked."""

    def __init__(self, status: str) -> None:
        super().__init__(Environment("null", Path(), "controller", "cpu", "ready"), REDACT)
        self.status = status
        self.asked: list[str] = []

    def verify(self, cell: Cell, environment: Environment) -> Verification:
        self.asked.append(cell.key)
        result = CheckResult(cell.network.name, cell.precision, self.status, "because")  # type: ignore[arg-type]
        return Verification(cell, (result,))


@pytest.fixture
def torch(tmp_path: Path) -> Environment:
    return Environment("pytorch", tmp_path, "managed", "cpu", "ready", packages={"torch": "1"})


def test_the_gate_asks_once_for_all_batch_sizes_and_remembers(
    torch: Environment, make_cell: MakeCell, tmp_path: Path
) -> None:
    cells = [
        make_cell(framework="pytorch", mode="eager", batch_size=size, host_allocator=allocator)
        for size in (2, 4)
        for allocator in ("system", "retain")
    ]
    verifier, store = Counting("passed"), CertificateStore(tmp_path / "certificates")
    for _ in range(2):
        found = gate.certify(cells, {"pytorch": torch}, store, verifier)
        assert {key: c.passed for key, c in found.items()} == {c.key: True for c in cells}
    assert len(verifier.asked) == 1


def test_the_gate_refuses_with_the_reason(
    torch: Environment, make_cell: MakeCell, tmp_path: Path
) -> None:
    cell = make_cell(framework="pytorch", mode="eager")
    found = gate.certify(
        [cell],
        {"pytorch": torch},
        CertificateStore(tmp_path),
        Counting("crashed"),
    )
    assert not found[cell.key].passed
    assert "because" in found[cell.key].reason
    again = Counting("passed")
    found = gate.certify([cell], {"pytorch": torch}, CertificateStore(tmp_path), again)
    assert found[cell.key].passed
    assert len(again.asked) == 1


def test_the_gate_has_nothing_to_say_of_what_computes_nothing(
    here: Environment, make_cell: MakeCell, tmp_path: Path
) -> None:
    verifier = Counting("passed")
    cells = [make_cell()]
    assert gate.certify(cells, {"null": here}, CertificateStore(tmp_path), verifier) == {}
    assert verifier.asked == []
