"""The process of where_time_goes.py, in PyTorch's environment.

``python where_time_goes_trace.py SRC JOB OUT``: OUT becomes what ``main`` puts together, times in
seconds. ``min_samples`` of the job are the iterations that are profiled; its ``limits`` the
precision whose products are measured afterwards, if any.
"""

import io
import json
import os
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(sys.argv[1])  # last: netdyno's folder holds nothing that a framework needs

from netdyno_worker import limits, loop, trial, weights
from netdyno_worker.machine import Machine
from netdyno_worker.nvml import Gpu
from netdyno_worker.protocol import Events, Job

# How long it computes before anything counts, until the clock of a GPU is that of the load; and
# how long its iterations are timed.
WARM_UP_SECONDS = 1.0
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def main(job_file, out):
    job = Job.read(job_file)
    machine = Machine(gpu=Gpu(job.device))
    cls = trial.adapter_class(job.framework)
    cls.prepare(job)
    adapter = cls(job)
    adapter.load(weights.Parameters(job.network, job.seed))
    adapter.set_batch(*weights.batch(job.network, job.batch_size, job.seed))
    count = job.sampling.min_samples

    def block(iterations):
        step, wait = adapter.forward_backward, adapter.synchronize
        return loop.time_block("sample", step, wait, iterations).seconds

    for _ in range(3):
        last = block(1)
    many = max(count, round(WARM_UP_SECONDS / last))
    block(many)
    seconds = block(many) / many
    events = profiled(adapter, lambda: block(count))
    told = {"seconds": seconds, "iterations": count, **spent(events)}
    if job.limits:  # last: it sets what the precision of products is
        told["flop_per_second"] = product_rate(adapter, job, machine)
    Path(out).write_text(json.dumps(told))


def profiled(adapter, work):
    """The events of the trace that the profiler exports, of which its API may change, in order."""
    torch = adapter.torch
    on_gpu = adapter.device.type == "cuda"
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CUDA if on_gpu else activity.CPU]) as profile:
        work()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    wanted = ON_DEVICE if on_gpu else ("cpu_op",)
    found = [event for event in events if event.get("cat") in wanted and event.get("ph") == "X"]
    if not found:
        sys.exit("PyTorch's profiler saw nothing run; on a GPU it needs CUPTI")
    # Of two that begin together, the outer one first.
    return sorted(found, key=lambda event: (event["ts"], -event["dur"]))


def spent(events):
    """What ran, by itself: on a CPU, operators call operators. ``busy``: when anything ran."""
    kernels, open_ones = [], {}
    first, busy, end = events[0]["ts"], 0.0, 0.0
    for event in events:
        start, stop = event["ts"], event["ts"] + event["dur"]
        busy += max(0.0, stop - max(start, end))
        end = max(end, stop)
        kernel = [event["name"], event["dur"] / 1e6]
        if event["cat"] == "cpu_op":
            outer = open_ones.setdefault(event["tid"], [])
            while outer and outer[-1][0] <= start:
                outer.pop()
            if outer:
                outer[-1][1][1] -= kernel[1]
            outer.append((stop, kernel))
        kernels.append(kernel)
    return {"kernels": kernels, "busy": busy / 1e6, "span": (end - first) / 1e6}


def product_rate(adapter, job, machine):
    """FLOP/s of the fastest large product, as `netdyno limits` measures it; None without one."""
    file = io.StringIO()
    measured = limits.limits_class(job.framework)(adapter, job)
    limits.measure(measured, job, Events(file), machine)
    told = [json.loads(line) for line in file.getvalue().splitlines()]
    return next(event["value"] for event in told if event.get("name") == "product")


if __name__ == "__main__":
    main(*sys.argv[2:4])
    # Not by way of the interpreter's end, where PyTorch 2.11's profiler has crashed on a GPU.
    os._exit(0)
