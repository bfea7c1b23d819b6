"""The job that comes in and the events that go out: see docs/event-protocol.md."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, TextIO

from netdyno_worker.network import Network

SCHEMA = 1

PHASES = ("forward_backward", "forward", "train_step")


class Hyperparameters(NamedTuple):
    """Of plain SGD: ``v = momentum * v + (g + weight_decay * w); w -= learning_rate * v``.

    The decay applies to every parameter, biases and batch-norm scales included.
    """

    learning_rate: float
    momentum: float
    weight_decay: float


# Of the ILSVRC12 experiment of Chen et al. 2015, arXiv:1512.01274, section 4.
HYPERPARAMETERS = Hyperparameters(learning_rate=0.05, momentum=0.9, weight_decay=1e-4)


class Sampling(NamedTuple):
    """When a phase has been measured enough; see loop.py."""

    min_samples: int
    max_samples: int
    phase_seconds: float
    min_block_seconds: float
    max_warmup_iterations: int
    least_seconds: float = 0.0
    later_least_seconds: float = 0.0


class Check(NamedTuple):
    """One network to compute for a parity check, its arrays to be written to ``results``.

    ``image_scale``: images are uniform in ±image_scale. ``train_steps``: 0 for none.
    ``input_gradient``: the gradient by the images too.
    """

    name: str
    network: Network
    batch_size: int
    image_scale: float
    train_steps: int
    results: str
    input_gradient: bool = False


class MemoryRequest(NamedTuple):
    """What a trial that measures memory, and no time, is told.

    ``instrument``: the folder that holds memray for this Python; None to do without. ``problem``:
    why there is none. ``limit_bytes``: what the process may allocate; None for no limit.
    ``totals_only``: whether it fits is all that is asked.
    """

    instrument: Optional[str] = None
    problem: str = ""
    limit_bytes: Optional[int] = None
    totals_only: bool = False


class PlanRequest(NamedTuple):
    """What a trial that reads the framework's own memory plan, and runs nothing, is told.

    ``in_place`` and ``share``: the strategy; see netdyno.memory.plan. ``compiler``: the command of
    a C++ compiler, for a framework that must be told from within; None for none. ``folder``: where
    what is compiled is kept for other trials.
    """

    in_place: bool
    share: bool
    compiler: Optional[List[str]] = None
    folder: str = ""


class Job(NamedTuple):
    """One trial: one cell, measured once by one fresh process.

    ``scratch`` is a folder of the trial's own that is deleted after it. With ``checks`` nothing is
    measured: what the cell computes is written to files (see compute.py). With ``check_work`` the
    trial is asked, after its timed blocks, whether they did their work (see work.py). With
    ``memory`` nothing is timed: it is the memory of each phase that is measured (see memory.py).
    ``compile_cache``: a folder in which what is compiled stays for other trials of the cell; with
    ``compile_only`` that is all there is to do: each phase is run once.
    With ``memory_after`` what the framework tells of it is asked when all is timed.
    With ``plan`` nothing is run: the framework's own memory plan of each phase is read, by
    ``Planner`` of ``frameworks/<name>/plan.py``.
    With ``limits``, precisions, it is not the network that is measured but what the device can do
    at most (see limits.py).
    With ``turns`` it is started ahead of its turn, and waits for lines on standard input (see
    turns.py).
    """

    framework: str
    mode: str
    network: Network
    batch_size: int
    device: str
    precision: str
    layout: str
    threads: int
    seed: int
    hyperparameters: Hyperparameters
    phases: List[str]
    sampling: Sampling
    scratch: Optional[str] = None
    checks: Sequence[Check] = ()
    check_work: bool = False
    memory: Optional[MemoryRequest] = None
    memory_after: bool = False
    autotune: bool = True
    plan: Optional[PlanRequest] = None
    limits: Sequence[str] = ()
    compile_cache: Optional[str] = None
    compile_only: bool = False
    turns: bool = False

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> "Job":
        if data["schema"] != SCHEMA:
            raise ValueError(
                "job of schema {}, this worker speaks {}".format(data["schema"], SCHEMA)
            )
        values = {name: data[name] for name in cls._fields if name in data}
        values["network"] = Network(data["network"])
        values["hyperparameters"] = Hyperparameters(**data["hyperparameters"])
        values["sampling"] = Sampling(**data["sampling"])
        values["checks"] = [
            Check(**{**check, "network": Network(check["network"])})
            for check in data.get("checks", ())
        ]
        if data.get("memory") is not None:
            values["memory"] = MemoryRequest(**data["memory"])
        if data.get("plan") is not None:
            values["plan"] = PlanRequest(**data["plan"])
        return cls(**values)

    @classmethod
    def read(cls, path: str) -> "Job":
        with open(path, encoding="utf-8") as file:
            return cls.from_json(json.load(file))


# Frameworks have no common type for it; these are the words that each of them uses.
OUT_OF_MEMORY = (
    "out of memory",
    "resource_exhausted",
    "not enough memory",
    "bad_alloc",
    "failed to allocate",
    "allocate memory",  # "Cannot …" of the C library, "can't …" of PyTorch
    "could not create a memory object",  # of oneDNN, in TensorFlow
    "host allocation of size",  # of Caffe, before it aborts
)


def is_out_of_memory(text: str) -> bool:
    """Whether what a framework said as it failed is that there is no more memory."""
    return any(words in text.lower() for words in OUT_OF_MEMORY)


class Events:
    """Appends one JSON object a line, flushed, so that a crash loses nothing that was measured."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def emit(self, event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, **fields}, allow_nan=False, separators=(",", ":"))
        self._file.write(line + "\n")
        self._file.flush()

    def move(self, path: str) -> None:
        """Append to ``path`` what was emitted so far, and from now on."""
        with open(self._file.name, encoding="utf-8") as file:
            so_far = file.read()
        with open(path, "a", encoding="utf-8") as file:
            file.write(so_far)
            file.flush()
            os.dup2(file.fileno(), self._file.fileno(), inheritable=False)


def finite(value: float) -> Optional[float]:
    """JSON has no NaN and no infinity: None stands for them."""
    return value if math.isfinite(value) else None
