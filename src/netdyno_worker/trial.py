"""One trial: build the cell, measure each phase, report. Whatever fails becomes an event."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import platform
import resource
import signal
import sys
import traceback
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Type

from netdyno_worker import clock, device, libraries, limits, loop
from netdyno_worker.adapter import Adapter, UnsupportedError
from netdyno_worker.machine import Machine
from netdyno_worker.nvml import Gpu
from netdyno_worker.protocol import Check, Events, Job, finite, is_out_of_memory
from netdyno_worker.turns import Dismissed, Turns

# Environment variables that change what frameworks and their libraries do.
TELLING = (
    "CUDA_",
    "DNNL_",
    "GLIBC_TUNABLES",
    "GOMP_",
    "JAX_",
    "KMP_",
    "LD_PRELOAD",
    "MALLOC_",
    "MKL_",
    "MXNET_",
    "NCCL_",
    "NPROC",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "TF_",
    "TORCH",
    "XLA_",
)


def main(job_path: str, events_path: str) -> int:
    """Run the job of a file; 0 if it was measured, 1 if it failed and the events say why.

    Also 0 if it was dismissed ahead of its turn.
    """
    _die_with_parent()
    job = Job.read(job_path)
    with open(events_path, "a", encoding="utf-8") as file:
        events = Events(file)
        try:
            run(job, events, Turns.on_stdin(events) if job.turns else None)
        except Dismissed:
            return 0
        except BaseException as error:  # the reason must reach the events whatever it is
            traceback.print_exc()
            events.emit("failed", status=_status(error), reason=_reason(error))
            return 1
    return 0


def adapter_class(framework: str) -> Type[Adapter]:
    return importlib.import_module("netdyno_worker.frameworks.{}.adapter".format(framework)).Adapter


def run(job: Job, events: Events, turns: Optional[Turns] = None) -> None:
    """Measure one cell. Raises what the framework raises; events so far stay written.

    ``turns``: of a trial that is timed and was started ahead; until it has the turn, it does what
    needs no device.
    """
    events.emit("started")
    start = clock.now()
    given = dict(os.environ)
    gpu = None if turns else Gpu(job.device)
    cls = adapter_class(job.framework)
    _prepare(cls, job)
    from netdyno_worker import memory  # NumPy: not before prepare()

    drawn = None
    if turns:
        cls.imports(job)
        begun = clock.now()
        drawn = _draw(job)
        dict(drawn[0])  # each is drawn when it is asked for
        turns.wait_for_turn()
        start += clock.now() - begun  # neither drawing nor waiting is building
        gpu = Gpu(job.device)
    machine = Machine(gpu=gpu)
    if job.checks:
        for check in job.checks:
            events.emit("check", name=check.name, **_compute(cls, check, job))
        events.emit("finished")
        return
    if job.plan:
        _read_plan(job, events)
        events.emit("finished")
        return
    adapter = cls(job)
    events.emit("built", seconds=round(clock.now() - start, 6))
    if job.limits:
        limits.measure(limits.limits_class(job.framework)(adapter, job), job, events, machine)
        events.emit("fingerprint", **fingerprint(adapter, job.device, given))
        events.emit("finished")
        return
    start_from, batch = drawn or _draw(job)
    adapter.load(start_from)
    adapter.set_batch(*batch)
    if job.memory:
        memory.measure(memory.memory_class(job.framework)(adapter, job), job, events, gpu)
        events.emit("fingerprint", **fingerprint(adapter, job.device, given))
        events.emit("finished")
        return
    gate = turns.wait_for_quiet if turns else None
    for phase in job.phases:
        _measure_phase(phase, adapter, job, events, _Restart(adapter, start_from), machine, gate)
        gate = None  # once quiet, it stays quiet: no other worker is started
        if job.check_work:
            _check_work(phase, adapter, job, start_from, batch)
    loss = adapter.loss()
    # Asked last: some thread pools exist only after the first iteration.
    events.emit("fingerprint", **fingerprint(adapter, job.device, given))
    events.emit("loss", value=finite(loss))
    if finite(loss) is None:
        events.emit(
            "failed", status="diverged", reason="the loss after the last phase is not finite"
        )
        return
    events.emit("finished")


def fingerprint(
    adapter: Adapter, device_name: str = "cpu", given: Optional[Mapping[str, str]] = None
) -> Dict[str, object]:
    """What the result depends on, as seen from inside the environment.

    ``given``: the variables that the worker was started with. What differs now was set by the
    adapter or by the framework itself.
    """
    gpu = device.cuda_device(device_name)
    telling = sorted(key for key in os.environ if key.startswith(TELLING))
    return {
        "python": platform.python_version(),
        "libc": "-".join(platform.libc_ver()),
        # What is loaded wins over what the framework says it was built with.
        "versions": {**adapter.versions(), **libraries.loaded_versions()},
        "threads": adapter.threads(),
        "openmp": libraries.openmp_runtimes(adapter.process_id),
        "allocators": libraries.allocators(adapter.process_id),
        "gpu": gpu,
        "tf32": adapter.tf32() if device.has_tf32(gpu) else False,
        "notes": adapter.notes(),
        "environment": {
            # Paths belong to this machine only, and say nothing to anyone else.
            key: "<path>" if os.sep in os.environ[key] else os.environ[key]
            for key in telling
        },
        "set_inside": [
            key for key in telling if given is not None and given.get(key) != os.environ[key]
        ],
    }


def _compute(cls: Type[Adapter], check: Check, job: Job) -> Dict[str, str]:
    """Write what one check computes; what it raises costs only this check."""
    from netdyno_worker import compute

    try:
        adapter = cls(job._replace(network=check.network, batch_size=check.batch_size))
        compute.save(compute.compute(adapter, check, job.seed), check.results)
    except Exception as error:
        traceback.print_exc()
        return {"status": _status(error), "reason": _reason(error)}
    return {"status": "ok", "reason": ""}


class _Restart:
    """Puts training back to its start before it can diverge: it sees one batch again and again.

    Called before each block of train steps, outside the timed region. The step after a reload
    allocates what the optimizer keeps, so it is made here and not measured.
    """

    # With the weights of weights.py, no network of the zoo diverges within 6.
    STEPS = 4

    def __init__(self, adapter: Adapter, parameters: Mapping[str, Any]) -> None:
        self.adapter = adapter
        self.parameters = parameters
        self.steps = 0

    def __call__(self, iterations: int) -> None:
        if self.steps and self.steps + iterations > self.STEPS:
            self.adapter.load(self.parameters)
            self.adapter.train_step()
            self.steps = 1
        self.steps += iterations


def _draw(job: Job) -> Tuple[Mapping[str, Any], Tuple[Any, Any]]:
    """Parameters and the batch, on the host."""
    from netdyno_worker import weights

    batch = weights.batch(job.network, job.batch_size, job.seed)
    return weights.Parameters(job.network, job.seed), batch


def _prepare(cls: Type[Adapter], job: Job) -> None:
    """Before the framework is imported."""
    cls.prepare(job)
    if job.limits:
        limits.limits_class(job.framework).prepare(job)
    if job.memory:
        _prepare_memory(job)


def _prepare_memory(job: Job) -> None:
    from netdyno_worker import memory

    limit = job.memory.limit_bytes
    if limit is not None:
        # Private memory that can be written: what a process has asked for and may fill at any time.
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    memory.memory_class(job.framework).prepare(job)


def _read_plan(job: Job, events: Events) -> None:
    planner = importlib.import_module("netdyno_worker.frameworks.{}.plan".format(job.framework))
    assert job.plan
    reader = planner.Planner(job, job.plan)
    for phase in job.phases:
        events.emit("plan", phase=phase, **reader.read(phase))


def _measure_phase(
    phase: str,
    adapter: Adapter,
    job: Job,
    events: Events,
    restart: _Restart,
    machine: Machine,
    gate: Optional[Callable[[], None]] = None,
) -> None:
    """``gate``: waits behind the first iteration until nothing else disturbs."""
    step: Callable[[], None] = getattr(adapter, phase)
    how: Dict[str, Any] = {
        "process_id": adapter.process_id,
        "machine": machine,
        "events": adapter.device_events(),
    }
    if phase == "train_step":
        how.update(before_block=restart, max_iterations=restart.STEPS)
    blocks = loop.measure(step, adapter.synchronize, job.sampling, **how)
    for index, block in enumerate(blocks):
        events.emit("block", phase=phase, index=index, **block.fields())
        if gate and block.kind == "first":
            gate()
    # Here, when the clock is still that of the work.
    events.emit("machine", phase=phase, **machine.facts())


def _check_work(
    phase: str, adapter: Adapter, job: Job, start_from: Mapping[str, Any], batch: Tuple[Any, Any]
) -> None:
    from netdyno_worker import weights, work

    if phase == "forward_backward":
        other = weights.batch(job.network, job.batch_size, job.seed + 1)
        repeatable = all(layer.kind != "Dropout" for layer in job.network.layers)
        work.check_gradients(adapter, batch, other, repeatable)
    elif phase == "train_step":
        work.check_update(adapter, start_from)


def _status(error: BaseException) -> str:
    if isinstance(error, UnsupportedError):
        return "skipped"
    return "out_of_memory" if _is_out_of_memory(error) else "failed"


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    # MXNet's errors carry a C++ traceback with the message at its end.
    text = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return "{}: {}".format(type(error).__name__, text)


def _is_out_of_memory(error: BaseException) -> bool:
    text = "{} {}".format(type(error).__name__, error)
    return isinstance(error, MemoryError) or is_out_of_memory(text)


def _die_with_parent() -> None:
    """Ask Linux to kill this process when the controller dies, however it dies."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG
