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
from typing import Dict, Mapping, Optional, Type

from netdyno_worker import clock, device, libraries, limits, times
from netdyno_worker.adapter import Adapter, UnsupportedError
from netdyno_worker.machine import Machine
from netdyno_worker.nvml import Gpu
from netdyno_worker.protocol import Events, Job, finite, is_out_of_memory
from netdyno_worker.times import Drawn
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
    """Do what ``job`` asks. Raises what the framework raises; events so far stay written.

    ``turns``: of a trial that is timed and was started ahead; until it has the turn, it does what
    needs no device.
    """
    events.emit("started")
    start = clock.now()
    given = dict(os.environ)
    gpu = None if turns else Gpu(job.device)  # before the framework takes memory there
    cls = adapter_class(job.framework)
    _prepare(cls, job)
    if job.checks or job.plan:
        (_compute_checks if job.checks else _read_plan)(cls, job, events)
        events.emit("finished")
        return
    drawn = None
    if turns:
        cls.imports(job)
        begun = clock.now()
        drawn = _draw(job)
        dict(drawn.parameters)  # each is drawn when it is asked for
        turns.wait_for_turn()
        start += clock.now() - begun  # neither drawing nor waiting is building
    gpu = gpu or Gpu(job.device)
    machine = Machine(gpu=gpu)
    adapter = cls(job)
    events.emit("built", seconds=round(clock.now() - start, 6))
    timed = not (job.limits or job.memory or job.compile_only)
    if job.limits:
        limits.measure(limits.limits_class(job.framework)(adapter, job), job, events, machine)
    else:
        drawn = drawn or _draw(job)
        adapter.load(drawn.parameters)
        adapter.set_batch(*drawn.batch)
        if timed:
            times.measure(adapter, job, events, drawn, machine, turns)
        else:
            _run_untimed(adapter, job, events, gpu)
    # Asked last: some thread pools exist only after the first iteration.
    events.emit("fingerprint", **fingerprint(adapter, job.device, given))
    if not timed or _ended_well(adapter, job, events):
        events.emit("finished")


def _run_untimed(adapter: Adapter, job: Job, events: Events, gpu: Gpu) -> None:
    if job.memory:
        from netdyno_worker import memory

        memory.measure(memory.memory_class(job.framework)(adapter, job), job, events, gpu)
        return
    for phase in job.phases:
        getattr(adapter, phase)()
        adapter.synchronize()


def _ended_well(adapter: Adapter, job: Job, events: Events) -> bool:
    """Ask a trial that was timed for its loss, and for its memory; False if it diverged."""
    loss = finite(adapter.loss())
    events.emit("loss", value=loss)
    if loss is None:
        events.emit(
            "failed", status="diverged", reason="the loss after the last phase is not finite"
        )
        return False
    if job.memory_after:
        from netdyno_worker import memory

        memory.ask_after(memory.memory_class(job.framework)(adapter, job), job, events)
    return True


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


def _compute_checks(cls: Type[Adapter], job: Job, events: Events) -> None:
    """Write what each check computes; what one raises costs only that one."""
    from netdyno_worker import compute

    for check in job.checks:
        status, reason = "ok", ""
        start, before = clock.now(), clock.usage()
        try:
            adapter = cls(job._replace(network=check.network, batch_size=check.batch_size))
            folder = compute.Folder(check.results)
            compute.compute(adapter, check, job.seed, folder.put)
            folder.close()
        except Exception as error:
            traceback.print_exc()
            status, reason = _status(error), _reason(error)
        cost = {"seconds": round(clock.now() - start, 3), **clock.used_since(before)}
        events.emit("check", name=check.name, status=status, reason=reason, **cost)


def _draw(job: Job) -> Drawn:
    from netdyno_worker import weights

    batch = weights.batch(job.network, job.batch_size, job.seed)
    return Drawn(weights.Parameters(job.network, job.seed), batch)


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


def _read_plan(cls: Type[Adapter], job: Job, events: Events) -> None:
    planner = importlib.import_module("netdyno_worker.frameworks.{}.plan".format(job.framework))
    assert job.plan
    reader = planner.Planner(job, job.plan)
    for phase in job.phases:
        events.emit("plan", phase=phase, **reader.read(phase))


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
