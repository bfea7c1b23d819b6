"""What a pass of MXNet takes: by its own count of storage, with a plan made anew each time."""

from __future__ import annotations

import json
import os
from typing import Any, Dict

import numpy as np

from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.frameworks.mxnet.adapter import Adapter
from netdyno_worker.memory import Memory as Plain
from netdyno_worker.memory import Reported
from netdyno_worker.protocol import Job

# Of the profiler's tables.
KILOBYTE = 1000

WITH = "with the temporary space of operators, which MXNet's static plan leaves out"
# Its own copies of weights and other arrays, in another layout, while an operator runs.
WITHOUT = "without what oneDNN takes for itself"


class Memory(Plain):
    """Common to both modes.

    The plan, which MXNet makes once and keeps, is made in each run and dropped. Temporary space
    is not: MXNet has one for each thread that binds, as large as any operator ever needed, and
    gives nothing of it back. Its size comes from MXNet's count of what is left between two runs.
    """

    @classmethod
    def prepare(cls, job: Job) -> None:
        # Of temporary space, one copy in place of four that take turns: all runs share it.
        os.environ["MXNET_CPU_TEMP_COPY"] = "1"
        os.environ["MXNET_GPU_TEMP_COPY"] = "1"
        # What is bound without gradients would be rewritten for inference, with weights copied.
        os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"

    def __init__(self, adapter: Base, job: Job) -> None:
        assert isinstance(adapter, Adapter)
        super().__init__(adapter, job)
        self.passes: Any = {"symbol": _Executor, "hybrid": _Block}[job.mode](adapter)
        self.adapter.synchronize()
        # From here on: what was allocated before is in no count.
        self.count = _Count(adapter)
        self.kept_bytes = 0

    def run(self, phase: str) -> None:
        self.passes.run(phase)

    def reported(self, phase: str) -> Reported:
        self.adapter.synchronize()
        self.count.since_last()
        self.run(phase)
        peak = self.count.since_last()["Max"]
        state = self.passes.optimizer_bytes()
        self.kept_bytes = self.count.now() - state
        return Reported(
            peak - state - self.passes.output_bytes,
            "allocator peak",
            "mxnet.profiler, {}".format(self.count.name),
            "{}; {}".format(WITH, WITHOUT) if self.job.device == "cpu" else WITH,
        )

    def foreign_bytes(self, phase: str) -> int:
        """The outputs; less the temporary space, which is internal, though it was there before."""
        return int(self.passes.output_bytes - self.kept_bytes)


class _Executor:
    """Binds over the arrays that are there: what a run allocates is the plan, with the outputs."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        executor = adapter.run.executor
        self.arguments = dict(executor.arg_dict)
        self.states = dict(executor.aux_dict)
        self.gradients = {
            name: array for name, array in executor.grad_dict.items() if array is not None
        }
        self.output_bytes = _bytes(executor.outputs)
        # Its own plan would stay in memory beside the one that is measured.
        adapter.run.executor = adapter.run.logits = adapter.run.loss = None

    def run(self, phase: str) -> None:
        training = phase != "forward"
        executor = self._bind(self.gradients if training else {})
        executor.forward(is_train=True)
        if training:
            executor.backward()
        if phase == "train_step":
            self._update()
        self.adapter.synchronize()

    def optimizer_bytes(self) -> int:
        """Of what was allocated since the count began: none, momenta are made with the batch."""
        return 0

    def _bind(self, gradients: Dict[str, Any]) -> Any:
        return self.adapter.outputs.bind(
            self.adapter.device,
            args=self.arguments,
            args_grad=gradients,
            grad_req={name: "write" if name in gradients else "null" for name in self.arguments},
            aux_states=self.states,
        )

    def _update(self) -> None:
        run = self.adapter.run
        for name, gradient in self.gradients.items():
            weight = self.arguments[name]
            self.adapter.mx.nd.sgd_mom_update(
                weight, gradient, run.momenta[name], out=weight, **run.how
            )


class _Block:
    """Makes the cached operator, which holds the plan, anew in each run."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.output_bytes = 0

    def run(self, phase: str) -> None:
        self._pass(phase)
        self.adapter.run.block._clear_cached_op()
        self.adapter.synchronize()

    def _pass(self, phase: str) -> None:
        autograd, run = self.adapter.mx.autograd, self.adapter.run
        with autograd.train_mode() if phase == "forward" else autograd.record():
            outputs = run.block(run.images, run.labels)
        self.output_bytes = _bytes(outputs)
        if phase != "forward":
            outputs[1].backward()
        if phase == "train_step":
            run.update()
        self.adapter.synchronize()

    def optimizer_bytes(self) -> int:
        """Momenta, which the trainer makes in its first step."""
        updaters = getattr(self.adapter.run.trainer, "_updaters", None) or []
        return sum(
            _bytes([state for state in updater.states.values() if state is not None])
            for updater in updaters
        )


class _Count:
    """MXNet's count of the bytes on one device, of arrays and of temporary space.

    Read from the profiler's tables, which round to four digits.
    """

    def __init__(self, adapter: Adapter) -> None:
        self.mx = adapter.mx
        device = adapter.device
        self.name = "Memory: {}/{}".format(device.device_type, device.device_id)
        self.device = device
        self.mx.profiler.set_config(
            profile_memory=True,
            profile_symbolic=False,
            profile_imperative=False,
            profile_api=False,
            aggregate_stats=True,
            filename=os.path.join(adapter.job.scratch or os.curdir, "mxnet-profile.json"),
        )
        self.mx.profiler.set_state("run")

    def since_last(self) -> Dict[str, int]:
        """Smallest and largest count after any change since this was asked last, in bytes."""
        tables = json.loads(self.mx.profiler.dumps(reset=True, format="json"))
        found = tables["Memory"].get("Device Storage", {}).get(self.name, {})
        return {what: round(found.get(what, 0) * KILOBYTE) for what in ("Min", "Max")}

    def now(self) -> int:
        """A change is needed for the count to be told: one small array."""
        self.mx.nd.waitall()
        self.since_last()
        self.mx.nd.zeros((1,), self.device)
        self.mx.nd.waitall()
        return self.since_last()["Min"]


def _bytes(arrays: Any) -> int:
    return sum(array.size * np.dtype(array.dtype).itemsize for array in arrays)
