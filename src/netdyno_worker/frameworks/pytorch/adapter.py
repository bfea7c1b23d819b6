"""PyTorch: the network as an ``nn.Module`` traced by nobody, run eagerly or compiled."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from netdyno_worker.adapter import LOSS_SCALE, UnsupportedError
from netdyno_worker.adapter import Adapter as Base
from netdyno_worker.lazy import Lazy
from netdyno_worker.loop import DeviceEvents
from netdyno_worker.protocol import Job


class Adapter(Base):
    @classmethod
    def prepare(cls, job: Job) -> None:
        # A fresh cache: the first iteration compiles in every trial, and says what that costs.
        cache = job.compile_cache or (job.scratch and os.path.join(job.scratch, "inductor"))
        if cache:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        if job.compile_only or job.checks:
            # Others do the same beside it; each of these processes imports PyTorch first.
            os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(job.threads)

    @classmethod
    def imports(cls, job: Job) -> None:
        # What the first optimizer and torch.compile import. The backend of torch.compile is left
        # to __init__: with Triton it starts processes that compile.
        import torch._dynamo  # noqa: F401

        from netdyno_worker.frameworks.pytorch import module  # noqa: F401

    def __init__(self, job: Job) -> None:
        import torch

        from netdyno_worker.frameworks.pytorch import module

        self.torch = torch
        self.job = job
        self.device = find_device(torch, job.device)
        # Parameters, their gradients and the update are never narrower than single precision.
        self.dtype = torch.float64 if job.precision == "fp64" else torch.float32
        self.compute = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(job.precision)
        self.scale = LOSS_SCALE if job.precision == "fp16" else 1.0
        torch.set_num_threads(job.threads)
        torch.manual_seed(job.seed)
        # "fp32" means it: no TF32 in convolutions or matrix products.
        torch.backends.cuda.matmul.allow_tf32 = job.precision == "tf32"
        torch.backends.cudnn.allow_tf32 = job.precision == "tf32"
        torch.backends.cudnn.benchmark = job.autotune  # shapes never change here
        self.format = torch.channels_last if job.layout == "nhwc" else torch.contiguous_format
        with torch.device("meta"):  # load() fills it: nothing is drawn, nor copied to the device
            built = module.build(job.network).to(self.dtype)
        self.module = built.to_empty(device=self.device).to(memory_format=self.format)
        self.module.train()
        self.names = dict(
            zip(job.network.parameter_shapes(), module.parameters(self.module, job.network))
        )
        self.batch_norms = {
            layer.name: module.submodule(self.module, layer) for layer in job.network.batch_norms()
        }
        rate, momentum, decay = job.hyperparameters
        self._make_optimizer = lambda: torch.optim.SGD(
            self.module.parameters(), lr=rate, momentum=momentum, weight_decay=decay, fused=True
        )
        self.graphs = job.mode == "graphs"
        self._call = self.module
        if job.mode != "eager":
            if job.compile_cache:
                # What was compiled ahead was not alone on the GPU: its kernels' variants are timed
                # anew in each trial.
                torch._inductor.config.autotune_local_cache = False
            how = "reduce-overhead" if self.graphs else "default"
            self._call = torch.compile(self.module, mode=how)

    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        with self.torch.no_grad():
            for name, value in parameters.items():
                self.names[name].copy_(self.torch.from_numpy(value))
        for layer in self.batch_norms.values():
            layer.reset_running_stats()
        self.optimizer = self._make_optimizer()

    def set_batch(self, images: np.ndarray, labels: np.ndarray) -> None:
        torch = self.torch
        self.images = torch.from_numpy(images).to(
            device=self.device, dtype=self.dtype, memory_format=self.format
        )
        self.labels = torch.from_numpy(labels).to(device=self.device, dtype=torch.int64)

    def run(self, images: Any, labels: Any) -> Any:
        if self.graphs:
            # What the last replay left may be overwritten.
            self.torch.compiler.cudagraph_mark_step_begin()
        if self.compute is None:
            return self._call(images, labels)
        with self.torch.autocast(self.device.type, self.compute):
            return self._call(images, labels)

    def forward(self) -> None:
        logits, loss = self.run(self.images, self.labels)
        # Detached: whoever keeps the loss keeps every activation of the graph behind it.
        self._logits, self._loss = logits.detach(), loss.detach()

    def forward_backward(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        _, loss = self.run(self.images, self.labels)
        if self.scale == 1:
            loss.backward()
        else:
            (loss * self.scale).backward()
            self.torch._foreach_mul_([w.grad for w in self.names.values()], 1 / self.scale)
        self._loss = loss.detach()

    def train_step(self) -> None:
        self.forward_backward()
        self.optimizer.step()

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def device_events(self) -> Optional[DeviceEvents]:
        if self.device.type != "cuda":
            return None
        stream = self.torch.cuda.current_stream(self.device)

        def mark() -> Any:
            event = self.torch.cuda.Event(enable_timing=True)
            event.record(stream)
            return event

        return DeviceEvents(mark, lambda start, end: start.elapsed_time(end) / 1e3)  # it tells ms

    def loss(self) -> float:
        return float(self._loss)

    def logits(self) -> np.ndarray:
        return self._logits.to(self.dtype).cpu().numpy()

    def gradients(self) -> Mapping[str, np.ndarray]:
        return Lazy(self.names, lambda name: self.names[name].grad.cpu().numpy())

    def input_gradient(self) -> np.ndarray:
        images = self.images.detach().requires_grad_()
        _, loss = self.run(images, self.labels)
        (gradient,) = self.torch.autograd.grad(loss, images)
        return gradient.cpu().numpy()

    def parameters(self) -> Mapping[str, np.ndarray]:
        return Lazy(self.names, lambda name: self.names[name].detach().cpu().numpy())

    def running_statistics(self) -> Dict[str, np.ndarray]:
        found = {}
        for name, layer in self.batch_norms.items():
            found[name + ".running_mean"] = layer.running_mean.cpu().numpy()
            found[name + ".running_variance"] = layer.running_var.cpu().numpy()
        return found

    def versions(self) -> Dict[str, str]:
        torch = self.torch
        found = {"pytorch": torch.__version__, **config_versions(torch.__config__.show())}
        if self.device.type == "cuda":
            found["cuda"] = str(torch.version.cuda)
        return found

    def threads(self) -> Dict[str, Any]:
        return {"count": self.torch.get_num_threads(), "source": "torch.get_num_threads()"}

    def notes(self) -> List[str]:
        if self.job.precision != "fp16":
            return []
        return ["the loss is scaled by a constant {:.0f}".format(LOSS_SCALE)]

    def tf32(self) -> Optional[bool]:
        if self.device.type != "cuda":
            return False
        backends = self.torch.backends
        return bool(backends.cuda.matmul.allow_tf32 or backends.cudnn.allow_tf32)


def find_device(torch: Any, name: str) -> Any:
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UnsupportedError("this PyTorch ({}) sees no CUDA device".format(torch.__version__))
    return torch.device(name)


def config_versions(text: str) -> Dict[str, str]:
    """oneDNN, MKL and the compiler from what ``torch.__config__.show()`` prints."""
    patterns: Tuple[Tuple[str, str], ...] = (
        ("onednn", r"(?:oneDNN|MKL-DNN)\)? v([\d.]+)"),
        ("mkl", r"oneAPI Math Kernel Library Version ([\w.-]+)"),
        ("openmp", r"OpenMP (\d+)"),
        ("blas", r"BLAS_INFO=(\w+)"),
    )
    found = {}
    for name, pattern in patterns:
        match = re.search(pattern, text)
        if match:
            found[name] = match.group(1)
    return found
