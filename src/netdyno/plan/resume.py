"""A run that was not finished, as what is left to do."""

from __future__ import annotations

import dataclasses
from typing import Any

from netdyno import __version__
from netdyno.errors import NetdynoError
from netdyno.networks.document import network_from_json
from netdyno.plan.cell import Cell
from netdyno.plan.request import Request
from netdyno.store.run import Run

__all__ = ["asked_again", "cells_of", "refuse_elsewhere"]


def refuse_elsewhere(run: Run, host: dict[str, Any]) -> None:
    """Raises NetdynoError for a run that this netdyno, or this machine, did not begin.

    One table must not mix two of them, and nobody could tell afterwards.
    """
    if "max_batch" in run.data:
        raise NetdynoError(f"{run.path} is a search for the largest batch: start it anew")
    if run.data["netdyno"] != __version__:
        raise NetdynoError(
            f"{run.path} was begun by netdyno {run.data['netdyno']}, this is {__version__}: "
            "start a new run"
        )
    before = run.data["host"]
    for fact in ("id", "cpu", "gpus"):
        # A container on the same machine may have no id.
        if before.get(fact) and host.get(fact) and before[fact] != host[fact]:
            raise NetdynoError(
                f"{run.path} was begun on another machine ({fact} differs): start a new run here"
            )


def asked_again(run: Run) -> Request:
    """The request of a run. Raises NetdynoError if it is not one of this netdyno's."""
    fields = {field.name for field in dataclasses.fields(Request)}
    data = run.data["request"]
    if not isinstance(data, dict) or not data.keys() <= fields:
        raise NetdynoError(f"{run.path}: what was asked cannot be read: start a new run")
    values = _with_tuples(data)
    values["matrix"] = tuple(_with_tuples(part) for part in data.get("matrix", ()))
    return Request(**values)


def _with_tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in data.items()}


def cells_of(run: Run) -> list[Cell]:
    """The cells of a run, with its own networks: files that it was asked with may have changed."""
    networks = {name: network_from_json(data) for name, data in run.data["networks"].items()}
    names = {field.name for field in dataclasses.fields(Cell)} - {"network", "network_spec"}
    try:
        return [
            Cell(
                network=networks[cell["network"]],
                network_spec=cell["network"],
                **{name: cell[name] for name in names if name in cell},
            )
            for cell in run.data["cells"]
        ]
    except (KeyError, TypeError) as error:
        raise NetdynoError(f"{run.path}: its cells cannot be read ({error})") from None
