"""What MXNet's own planner gives a network under the strategies of its paper; nothing is run.

The plan of an executor is made when it is bound, and its buffers when they are first written:
plans of many gigabytes cost nothing.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import warnings
from typing import Any, Dict

from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.protocol import Job, PlanRequest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "no_inplace.cc")

# Op::GetAttrMap(const std::string&) as compilers before GCC 5 name it: the wheels are built so.
OLD_STRING = "_ZN4nnvm2Op10GetAttrMapERKSs"


class Planner:
    """Binds the job's network without running it, over arrays that nobody writes to."""

    def __init__(self, job: Job, request: PlanRequest) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MXNet 1.9.1 warns of its own spelling at import
            import mxnet as mx
        self.mx, self.job = mx, job
        self.symbol = self._symbol()
        if not request.in_place:
            _forbid_in_place(mx, request)
        # Both are read at each bind. A range of 0 shares with nobody.
        os.environ["NNVM_EXEC_MATCH_RANGE"] = "16" if request.share else "0"
        os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"

    def read(self, phase: str) -> Dict[str, Any]:
        """The planned bytes of ``forward`` or ``forward_backward``, with the output's in them."""
        executor = self._bind(training=phase != "forward")
        return {
            "planned_bytes": planned_bytes(executor),
            "output_bytes": sum(4 * output.size for output in executor.outputs),
            "source": "Executor.debug_str() of MXNet {}".format(self.mx.__version__),
        }

    def _symbol(self) -> Any:
        """The network as MXNet's examples end it: one SoftmaxOutput."""
        from netdyno_worker.frameworks.mxnet import symbol

        losses = [layer for layer in self.job.network.layers if layer.kind == "SoftmaxCrossEntropy"]
        if len(losses) != 1:
            raise UnsupportedError("plans are of networks with one loss")
        # As on a GPU: no copy after LRN, which mends what is computed.
        outputs = symbol.build(self.job.network, "float32", cpu=False)
        (logits,) = outputs[0].get_children()
        return self.mx.sym.SoftmaxOutput(logits, self.mx.sym.var("labels"), name="softmax")

    def _bind(self, training: bool) -> Any:
        batch = {
            "images": (self.job.batch_size,) + self.job.network.input_shape,
            "labels": (self.job.batch_size,),
        }
        shapes, _, state_shapes = self.symbol.infer_shape(**batch)
        names = self.symbol.list_arguments()
        # Never written: their pages are never there.
        arguments = [self.mx.nd.empty(shape) for shape in shapes]
        states = [self.mx.nd.empty(shape) for shape in state_shapes]
        wanted = {
            name: self.mx.nd.empty(shape)
            for name, shape in zip(names, shapes)
            if training and name not in batch
        }
        return self.symbol.bind(
            self.mx.cpu(),
            args=arguments,
            args_grad=wanted,
            grad_req={name: "write" if name in wanted else "null" for name in names},
            aux_states=states,
        )


def planned_bytes(executor: Any) -> int:
    """The plan of a bound executor, forward outputs included, rounded down to MiB by MXNet."""
    (found,) = re.findall(r"^Total (\d+) MB allocated$", executor.debug_str(), re.MULTILINE)
    return int(found) * 2**20


def _forbid_in_place(mx: Any, request: PlanRequest) -> None:
    library = os.path.join(request.folder, "no_inplace.so")
    if not os.path.exists(library):
        _compile(mx, request.compiler, library)
    if not ctypes.CDLL(library).netdyno_no_inplace():
        raise RuntimeError("MXNet declares nothing of working in place that could be taken away")


def _compile(mx: Any, compiler: Any, library: str) -> None:
    """Against the headers that the package ships.

    Raises:
        RuntimeError: with what the compiler said first.
    """
    package = os.path.dirname(mx.__file__)
    mxnet = mx.libinfo.find_lib_path()[0]
    old = hasattr(ctypes.CDLL(mxnet), OLD_STRING)
    command = [
        *compiler,
        "-std=c++11",
        "-w",
        "-shared",
        "-fPIC",
        "-D_GLIBCXX_USE_CXX11_ABI={:d}".format(not old),
        "-I" + os.path.join(package, "include"),
        SOURCE,
        mxnet,
        "-o",
        library,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        said = done.stdout.decode(errors="replace").strip().splitlines() or ["nothing said"]
        first = next((line for line in said if "error" in line), said[0])
        raise RuntimeError("{} cannot compile no_inplace.cc: {}".format(compiler[0], first))
