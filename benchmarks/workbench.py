"""What benchmarks of single cells share: their options, and a script in a cell's environment."""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netdyno.environments import find
from netdyno.errors import unknown_name
from netdyno.frameworks import WORKER_ROOT, framework
from netdyno.launch.local import environ
from netdyno.plan.cell import Cell
from netdyno.plan.matrix import LAYOUTS, cells
from netdyno.plan.request import Request
from netdyno.settings import Settings

PRECISIONS = ("fp32", "tf32", "bf16")


def add_options(parser: argparse.ArgumentParser, **defaults: Any) -> None:
    """The axes of a cell, as `netdyno run` has them; ``defaults`` are those of one benchmark."""
    parser.add_argument("--network", metavar="NAME")
    parser.add_argument("--batch-size", type=int, metavar="N")
    parser.add_argument("--device", metavar="cpu|cuda:N")
    parser.add_argument("--precision", choices=PRECISIONS)
    parser.add_argument("--layout", choices=LAYOUTS, help="PyTorch's; default: its own")
    parser.add_argument("--host-allocator", default="system")
    parser.add_argument("--python", action="append", default=[], metavar="FRAMEWORK=PATH")
    parser.set_defaults(**defaults)


def chosen_cells(names: Sequence[str], options: argparse.Namespace) -> list[Cell]:
    """Of frameworks and FRAMEWORK/MODE in ``names``; of those measured by default if it is empty.

    Raises:
        NetdynoError: a name does not exist, or not on this device or in this precision.
    """
    request = Request(
        frameworks=tuple(name.partition("/")[0] for name in names),
        modes=("all",),
        networks=(options.network,),
        batch_size=(options.batch_size,),
        device=(options.device,),
        precision=(options.precision,),
        host_allocator=(options.host_allocator,),
    )
    found = {f"{cell.framework}/{cell.mode}": cell for cell in cells(request)}
    known = {*found, *(cell.framework for cell in found.values())}
    for name in names:
        if name not in known:
            raise unknown_name(f"framework and mode on {options.device}", name, known)
    return [
        dataclasses.replace(cell, layout=options.layout)
        if options.layout and cell.framework == "pytorch"
        else cell
        for name, cell in found.items()
        if not names or name in names or cell.framework in names
    ]


def in_environment(script: Path, cell: Cell, job: dict[str, Any], settings: Settings) -> Any:
    """What ``SCRIPT SRC JOB OUT`` leaves in its JSON file OUT, run like a worker of ``cell``.

    SRC holds netdyno_worker, JOB is ``job`` with a scratch folder. Ends this program, with what
    the script said, where it fails.
    """
    environment = find(framework(cell.framework), settings)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        job_file, out = scratch / "job.json", scratch / "out.json"
        job_file.write_text(json.dumps({**job, "scratch": folder}))
        done = subprocess.run(
            [environment.python, script, WORKER_ROOT.parent, job_file, out],
            env=environ(environment, cell, scratch),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{cell.key} failed:\n{done.stderr[-3000:]}")
        return json.loads(out.read_text())
