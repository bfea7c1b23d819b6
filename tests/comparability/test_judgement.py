"""Whether two cells may be compared, and what stands between them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from netdyno.comparability import Difference, Fingerprint, Kind, differences_summary, verdict
from netdyno.comparability.libraries import LIBRARIES
from netdyno.frameworks import frameworks
from tests.comparability.fingerprints import CPU, HOST, on_cpu, on_gpu
from tests.comparability.pairs import (
    JAX,
    MXNET,
    OTHER_HOST,
    PAIRS,
    PYTORCH,
    PYTORCH_GPU,
    cpu_of,
    elsewhere,
)


@pytest.mark.parametrize(("a", "b", "kind", "differences"), PAIRS.values(), ids=PAIRS)
def test_verdict(a: Fingerprint, b: Fingerprint, kind: Kind, differences: dict[str, Kind]) -> None:
    found = verdict(a, b)
    assert {difference.what: difference.kind for difference in found.differences} == differences
    assert len(found.differences) == len(differences)
    assert found.kind == kind


@pytest.mark.parametrize(("a", "b"), [pair[:2] for pair in PAIRS.values()], ids=PAIRS)
def test_the_order_of_two_changes_nothing_but_the_sides(a: Fingerprint, b: Fingerprint) -> None:
    there, back = verdict(a, b), verdict(b, a)
    assert there.kind == back.kind
    turned = {Difference(d.what, d.b, d.a, d.kind, d.why) for d in back.differences}
    assert set(there.differences) == turned


@pytest.mark.parametrize("found", [f for pair in PAIRS.values() for f in pair[:2]])
def test_nothing_differs_from_itself(found: Fingerprint) -> None:
    assert verdict(found, found) == verdict(PYTORCH, PYTORCH)
    assert verdict(found, found).kind == "like-for-like"
    assert verdict(found, found).differences == ()


@pytest.mark.parametrize(("a", "b"), [pair[:2] for pair in PAIRS.values()], ids=PAIRS)
def test_every_difference_can_be_read(a: Fingerprint, b: Fingerprint) -> None:
    """Values that can be told apart, and one sentence."""
    for difference in verdict(a, b).differences:
        assert difference.a != difference.b or difference.what == "host id"
        assert difference.what
        assert difference.why.endswith(".")
        assert ". " not in difference.why
        assert "\n" not in "".join((difference.what, difference.a, difference.b, difference.why))


@pytest.mark.parametrize(("a", "b"), [pair[:2] for pair in PAIRS.values()], ids=PAIRS)
def test_the_worst_comes_first(a: Fingerprint, b: Fingerprint) -> None:
    order = ["invalid", "as-shipped", "like-for-like"]
    kinds = [order.index(difference.kind) for difference in verdict(a, b).differences]
    assert kinds == sorted(kinds)


def only(a: Fingerprint, b: Fingerprint) -> Difference:
    (difference,) = verdict(a, b).differences
    return difference


def test_values_are_shown_as_people_write_them() -> None:
    memory = only(PYTORCH, elsewhere(memory_bytes=2**34))
    assert (memory.a, memory.b) == ("7.7 GiB", "16.0 GiB")
    openblas = {d.what: d for d in verdict(MXNET, on_cpu("torch7")).differences}["OpenBLAS"]
    assert openblas.a.startswith("0.3.9 ")
    assert openblas.b.startswith("0.3.21 ")
    quota = only(PYTORCH, elsewhere(cpu=cpu_of(quota_cores=1.5)))
    assert (quota.a, quota.b) == ("no limit", "1.5")
    host = only(PYTORCH, on_cpu("pytorch", ("host", OTHER_HOST)))
    assert host.b == "90be2217d5aa (Intel Xeon 8488C)"


def test_what_is_not_known_is_called_so() -> None:
    found = only(PYTORCH, on_cpu("pytorch", ("trial.threads.count", None)))
    assert (found.a, found.b) == ("2", "unknown")
    assert "does not tell" in found.why


def test_a_library_that_one_lacks_is_none_and_not_unknown() -> None:
    by_name = {d.what: d for d in verdict(JAX, PYTORCH).differences}
    assert (by_name["oneDNN"].a, by_name["oneDNN"].b) == ("none", "3.12.0")
    assert "Convolutions and matrix products on the CPU run in it" in by_name["oneDNN"].why


def test_the_name_of_a_library_that_nobody_knows_is_said_to_be_unknown() -> None:
    found = only(PYTORCH, on_cpu("pytorch", ("trial.versions.fancyblas", "1.0")))
    assert "does not know what it does" in found.why


def test_the_host_of_one_run_needs_no_identity() -> None:
    """Only another run may have been made elsewhere."""
    host = {**HOST, "id": None}
    assert verdict(on_cpu("pytorch", ("host", host)), on_cpu("pytorch", ("host", host))) == (
        verdict(PYTORCH, PYTORCH)
    )


def test_run_folders_of_strangers_reach_a_terminal_without_control_characters() -> None:
    found = on_cpu(
        "pytorch",
        ("trial.versions", {"\x1b[31mevil": "1\n2"}),
        ("trial.notes", ["a\x1b]0;title\x07"]),
        ("trial.environment", {"TF_\n": "\x00"}),
        ("cell.layout", "\x1b[2J"),
        ("trial.openmp", ["\r\n"]),
    )
    for difference in verdict(PYTORCH, found).differences:
        assert all(t.isprintable() for t in (difference.what, difference.a, difference.b))
    assert all(line.isprintable() for line in differences_summary({"a": PYTORCH, "b": found}))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("trial.versions", ["no", "mapping"]),
        ("trial.notes", "no list"),
        ("trial.environment", 3),
        ("trial.threads", "2"),
        ("trial.openmp", {}),
        ("trial.set_inside", None),
        ("trial.gpu", "H200"),
        ("host", {"cpu": 7, "gpus": "none", "memory_bytes": "much"}),
        ("host", {}),
        ("cell", {}),
        ("timed", {"phases": 3}),
    ],
)
def test_damaged_facts_are_no_error(part: str, value: Any) -> None:
    for whole, damaged in (
        (PYTORCH, on_cpu("pytorch", (part, value))),
        (PYTORCH_GPU, on_gpu("pytorch", (part, value))),
    ):
        assert verdict(whole, damaged).kind == verdict(damaged, whole).kind
        assert verdict(damaged, damaged).differences == ()


@pytest.mark.parametrize("name", CPU)
def test_adapters_versions_are_known(name: str) -> None:
    """Every library that an adapter names has its line in the table, but for the framework."""
    own = {name, "jaxlib", "luajit"}
    assert CPU[name][2]["versions"].keys() <= LIBRARIES.keys() | own
    assert name in frameworks()


def test_every_pair_of_frameworks_on_the_cpu_is_as_shipped() -> None:
    for first, second in itertools.combinations(CPU, 2):
        assert verdict(on_cpu(first), on_cpu(second)).kind == "as-shipped", (first, second)
