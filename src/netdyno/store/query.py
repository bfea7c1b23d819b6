"""Queries over many run folders at once, through DuckDB."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netdyno.errors import NetdynoError
from netdyno.store.folders import UnusableError, trial_files
from netdyno.store.run_folder import SCHEMA
from netdyno.store.trial import trial_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["Found", "Measurement", "measurements"]

# Text that is no UTF-8, and what is no JSON, become null.
RUNS = """
WITH texts AS (SELECT filename, try(decode(content)) AS text FROM read_blob($files)),
documents AS (SELECT filename, CASE WHEN json_valid(text) THEN text::JSON END AS data FROM texts)
SELECT
    filename,
    json_extract_string(data, ['schema', 'started', 'netdyno']),
    json_extract(data, ['host', 'cells', 'verification'])
FROM documents
"""

# Lines that are no JSON become null; a field of the wrong kind becomes null when it is cast.
TRIALS = """
WITH lines AS (
    SELECT filename, json, json_extract_string(
        json, ['event', 'phase', 'kind', 'seconds', 'iterations', 'cell', 'round', 'status']
    ) AS fields
    FROM read_json_objects(
        $files, format = 'newline_delimited', ignore_errors = true, filename = true
    )
), events AS (
    SELECT
        filename,
        json,
        fields[1] AS event,
        fields[2] = $phase AND fields[3] = 'sample' AS counts,
        try_cast(fields[4] AS DOUBLE) / try_cast(fields[5] AS BIGINT) AS seconds,
        fields[6] AS cell,
        try_cast(fields[7] AS BIGINT) AS round,
        fields[8] AS status
    FROM lines
)
SELECT
    filename,
    any_value(cell) FILTER (event = 'trial') AS cell,
    any_value(round) FILTER (event = 'trial') AS round,
    list(json) FILTER (event = 'block' AND counts AND seconds BETWEEN 1e-12 AND 1e12) AS blocks,
    list(json) FILTER (event IN ('gpu', 'machine')) AS meanwhile,
    any_value(json) FILTER (event = 'fingerprint') AS fingerprint
FROM events
GROUP BY filename
HAVING bool_and(status = 'ok') FILTER (event = 'outcome')
    AND cell IS NOT NULL AND round IS NOT NULL AND blocks IS NOT NULL
ORDER BY round, filename
"""


@dataclass(frozen=True)
class Measurement:
    """One cell in one run: the median seconds per iteration of each good trial, by round.

    ``fingerprint`` is the first good trial's; ``host`` and ``netdyno``, its version, are those of
    ``run.json``; ``verified``: the cell passed its parity checks before it was timed.
    """

    run: Path
    started: datetime
    cell: str
    network_hash: str
    seconds: tuple[float, ...]
    netdyno: str
    verified: bool
    host: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What was read, in the order in which the runs started.

    ``skipped``: by folder, why it could not be read as a run.
    """

    measurements: tuple[Measurement, ...]
    skipped: Mapping[Path, str]
    runs: int


def measurements(runs: Sequence[Path], phase: str) -> Found:
    """The medians of ``phase`` for each run, cell and round, and what they may depend on.

    Only ``sample`` blocks that nothing disturbed count, and only trials that ended well. Lines
    that are no event, such as the one in which a killed worker was cut off, are passed over. A run
    whose ``run.json`` cannot be used, or with a trial that cannot be read, is skipped.
    """
    import duckdb

    skipped: dict[Path, str] = {}
    trials: dict[str, Path] = {}
    for run in runs:
        try:
            trials.update(dict.fromkeys(trial_files(run), run))
        except UnusableError as error:
            skipped[run] = str(error)
    # All that is needed is built in: it shall not look for more.
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    try:
        with duckdb.connect(":memory:", config=config) as connection:
            heads = _heads(connection, [run for run in runs if run not in skipped], skipped)
            files = [file for file, run in trials.items() if run in heads]
            rows = _rows(connection, TRIALS, files, phase=phase)
    except duckdb.Error as error:
        raise NetdynoError(f"cannot read the runs: {str(error).splitlines()[0]}") from None
    found = _joined([(trials[file], *rest) for file, *rest in rows], heads)
    return Found(
        tuple(sorted(found, key=lambda m: (m.started, m.run.name, m.cell))),
        {run: skipped[run] for run in runs if run in skipped},
        len(heads),
    )


@dataclass(frozen=True)
class _Head:
    """What ``run.json`` says; ``cells`` are the networks' hashes by cell key.

    ``axes``: its list of cells, as it stands there.
    """

    started: datetime
    netdyno: str
    host: Mapping[str, Any]
    cells: Mapping[str, str]
    verified: frozenset[str]
    axes: Sequence[Mapping[str, Any]]


def _heads(
    connection: DuckDBPyConnection, runs: Sequence[Path], skipped: dict[Path, str]
) -> dict[Path, _Head]:
    """By run; what cannot be used goes to ``skipped``."""
    files = {str(run.absolute() / "run.json"): run for run in runs}
    heads = {}
    for file, *columns in _rows(connection, RUNS, files):
        try:
            heads[files[file]] = _head(*columns)
        except UnusableError as error:
            skipped[files[file]] = str(error)
    return heads


def _head(words: Sequence[str | None] | None, documents: Sequence[str | None] | None) -> _Head:
    """From the columns of ``RUNS``, which are null where there is no JSON."""
    if words is None or documents is None:
        raise UnusableError("its run.json is not valid JSON")
    schema, started, netdyno = words
    host, cells, verification = (json.loads(text) if text else None for text in documents)
    if not (schema and re.fullmatch(r"\d{1,6}", schema, re.ASCII) and isinstance(cells, list)):
        raise UnusableError("its run.json is not that of a netdyno run")
    if int(schema) > SCHEMA:
        raise UnusableError(
            f"its schema is {schema}, this netdyno reads up to {SCHEMA}: update netdyno"
        )
    try:
        start = datetime.fromisoformat(started or "")
        start = start.astimezone(UTC) if start.tzinfo else start.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UnusableError("its run.json does not say when it was started") from None
    checks = verification if isinstance(verification, dict) else {}
    return _Head(
        start,
        netdyno or "unknown",
        host if isinstance(host, dict) else {},
        {
            cell["key"]: str(cell.get("network_hash", ""))
            for cell in cells
            if isinstance(cell, dict) and isinstance(cell.get("key"), str)
        },
        frozenset(
            key
            for key, check in checks.items()
            if isinstance(check, dict) and check.get("passed") is True
        ),
        [cell for cell in cells if isinstance(cell, dict)],
    )


def _rows(
    connection: DuckDBPyConnection, query: str, files: Iterable[str], **values: str
) -> list[tuple[Any, ...]]:
    # What looks like a pattern is a name here. DuckDB refuses a list without any file.
    names = [re.sub(r"[\[*?]", r"[\g<0>]", file) for file in files]
    return connection.execute(query, {"files": names, **values}).fetchall() if names else []


def _joined(
    rows: Iterable[tuple[Path, str, int, list[str], list[str] | None, str | None]],
    heads: Mapping[Path, _Head],
) -> list[Measurement]:
    trials: dict[tuple[Path, str], list[tuple[float, str | None]]] = {}
    for run, cell, number, blocks, meanwhile, fingerprint in rows:
        head = heads[run]
        if cell not in head.cells:
            continue
        seconds = _undisturbed(cell, number, [*blocks, *(meanwhile or ())], head)
        if seconds:
            found = (statistics.median(seconds), fingerprint)
            trials.setdefault((run, cell), []).append(found)
    return [
        Measurement(
            run=run,
            started=heads[run].started,
            cell=cell,
            network_hash=heads[run].cells[cell],
            seconds=tuple(seconds for seconds, _ in good),
            netdyno=heads[run].netdyno,
            verified=cell in heads[run].verified,
            host=heads[run].host,
            fingerprint=json.loads(good[0][1] or "{}"),
        )
        for (run, cell), good in trials.items()
    ]


def _undisturbed(cell: str, number: int, lines: Iterable[str], head: _Head) -> list[float]:
    """Seconds per iteration of the samples among ``lines``, which are events of one trial."""
    events = sorted(map(json.loads, lines), key=_index)
    trial = trial_of(
        [
            {"event": "trial", "cell": cell, "round": number},
            *events,
            {"event": "outcome", "status": "ok", "reason": ""},
        ],
        {"cells": head.axes, "host": head.host},
    )
    return [
        block.seconds_per_iteration
        for block, marks in zip(trial.blocks, trial.disturbances, strict=True)
        if not marks
    ]


def _index(event: Mapping[str, Any]) -> int:
    """Of a block in its phase: DuckDB reads lines in any order, and windows are of neighbours."""
    index = event.get("index")
    return index if isinstance(index, int) else 0
