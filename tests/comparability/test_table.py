"""Many cells at once: may they be ranked, and what stands under the table."""

from __future__ import annotations

from netdyno.comparability import differences_summary, grouping
from tests.comparability.fingerprints import on_cpu
from tests.comparability.pairs import JAX, MXNET, MXNET_NOTE, PYTORCH, TENSORFLOW, again


def test_a_table_is_as_good_as_its_worst_pair() -> None:
    assert grouping([]) == grouping([PYTORCH]) == grouping([PYTORCH, again()]) == "like-for-like"
    assert grouping([PYTORCH, again(), MXNET]) == "as-shipped"
    assert grouping([PYTORCH, MXNET, on_cpu("jax", ("cell.threads", 1))]) == "invalid"


def test_what_was_not_measured_has_no_rank_and_does_not_count() -> None:
    nothing = on_cpu("jax", ("trial", {}))
    assert grouping([PYTORCH, nothing, again()]) == "like-for-like"
    assert differences_summary({"PyTorch": PYTORCH, "JAX": nothing}) == []


def test_each_difference_is_one_line_with_all_rows() -> None:
    lines = differences_summary(
        {"MXNet": MXNET, "TensorFlow": TENSORFLOW, "PyTorch": PYTORCH, "JAX": JAX}
    )
    assert (
        "oneDNN: MXNet 2.4.4, TensorFlow 3.7.3, PyTorch 3.12.0, JAX none — Convolutions and matrix "
        "products on the CPU run in it: only equal versions compare like for like." in lines
    )
    whats = [line.partition(": ")[0] for line in lines]
    assert len(set(whats)) == len(whats)
    assert set(whats) == {
        "layout",
        "oneDNN",
        "MKL",
        "OpenBLAS",
        "BLAS",
        "XLA",
        "OpenMP runtime",
        MXNET_NOTE,
    }
    xla = next(line for line in lines if line.startswith("XLA: "))
    assert "TensorFlow in tensorflow 2.21.0" in xla
    assert "JAX in jaxlib 0.10.2" in xla


def test_the_worst_line_comes_first() -> None:
    lines = differences_summary(
        {
            "A": PYTORCH,
            "B": on_cpu("pytorch", ("trial.python", "3.12")),
            "C": on_cpu("pytorch", ("trial.versions.mkl", "2025.0")),
            "D": on_cpu("pytorch", ("cell.threads", 1)),
        }
    )
    assert [line.partition(": ")[0] for line in lines] == ["threads asked for", "MKL"]
    assert lines[0].startswith("threads asked for: A 2, B 2, C 2, D 1 — ")
