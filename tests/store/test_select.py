"""Cells named as a person names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from netdyno.errors import NetdynoError
from netdyno.plan.cell import Cell
from netdyno.store.select import select


@pytest.fixture
def folder(write_run: Callable[..., Path], make_cell: Callable[..., Cell]) -> Path:
    cells = [
        make_cell(mode=mode, network_spec=network)
        for mode in ("steady", "drift")
        for network in ("tiny", "tiny:lrn=on")
    ]
    return write_run([cell.to_json() for cell in cells], {})


def modes(text: str) -> list[tuple[str, ...]]:
    return [tuple(key.split("/")[1:3]) for key in select(text).keys]


def test_a_run_means_all_of_its_cells(folder: Path) -> None:
    assert len(select(str(folder)).keys) == 4
    assert select(str(folder / "run.json")).keys == select(str(folder)).keys


def test_a_key_with_colons_in_it(folder: Path) -> None:
    key = select(str(folder)).keys[1]
    assert "lrn=on" in key
    assert select(f"{folder}:{key}").keys == (key,)


def test_the_beginning_of_a_key(folder: Path) -> None:
    assert modes(f"{folder}:null/drift") == [("drift", "tiny"), ("drift", "tiny:lrn=on")]
    assert modes(f"{folder}:null/drift/tiny") == [("drift", "tiny")]


def test_a_pattern(folder: Path) -> None:
    assert modes(f"{folder}:*/tiny:lrn=on/*") == [
        ("steady", "tiny:lrn=on"),
        ("drift", "tiny:lrn=on"),
    ]


def test_a_folder_with_a_colon_in_its_name(folder: Path) -> None:
    renamed = folder.rename(folder.with_name("12:30"))
    assert len(select(str(renamed)).keys) == 4
    assert len(select(f"{renamed}:null/drift").keys) == 2


def test_a_cell_that_is_not_there_names_those_that_are(folder: Path) -> None:
    with pytest.raises(NetdynoError, match=r"has no cell 'jax'; it has\n  null/steady/tiny"):
        select(f"{folder}:jax")
    # The beginning of a name is not a name.
    with pytest.raises(NetdynoError, match="has no cell"):
        select(f"{folder}:null/ste")


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NetdynoError, match="nowhere:cell does not exist: name a run folder"):
        select(f"{tmp_path}/nowhere:cell")
