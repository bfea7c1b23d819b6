"""One point of the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from netdyno.networks import Network

__all__ = ["ALLOCATORS", "AUTOTUNE", "GROUP_AXES", "PRECISIONS", "Cell", "HostAllocator"]

HostAllocator = Literal["system", "retain"]

ALLOCATORS: tuple[HostAllocator, ...] = ("system", "retain")
# Cells are ranked together only where all of these agree: see docs/comparability.md.
GROUP_AXES = ("network_hash", "batch_size", "device", "precision", "threads", "host_allocator")
# ``tf32`` rounds the operands of products on a GPU; ``bf16`` and ``fp16`` are mixed: parameters,
# their gradients and the update stay in single precision.
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp64")
AUTOTUNE = ("on", "off")


@dataclass(frozen=True)
class Cell:
    """What one trial measures.

    Args:
        network: the graph; ``network_spec`` is how it was asked for (``googlenet:lrn=on``).
        host_allocator: ``system``, the C library's own settings, or ``retain``, where freed
            memory stays with the process and is not mapped afresh in each iteration.
        autotune: on a GPU, whether the framework may try convolution algorithms and keep the
            fastest (``on``) or takes what the library's heuristic says (``off``).
    """

    framework: str
    mode: str
    network_spec: str
    network: Network
    batch_size: int
    precision: str
    layout: str
    device: str
    threads: int
    host_allocator: HostAllocator
    autotune: str = "on"

    @property
    def key(self) -> str:
        """Unique within a run, and readable: ``mxnet/symbol/alexnet_owt/b32/…``."""
        # The default is not named, so that the keys of earlier runs stay what they are.
        untuned = () if self.autotune == "on" else ("untuned",)
        return "/".join(
            (
                self.framework,
                self.mode,
                self.network_spec,
                f"b{self.batch_size}",
                self.precision,
                self.layout,
                self.device,
                f"t{self.threads}",
                self.host_allocator,
                *untuned,
            )
        )

    @property
    def way(self) -> tuple[str, ...]:
        """What decides what is computed: equal for cells that run the same code."""
        return (
            self.framework,
            self.mode,
            self.network.hash,
            self.precision,
            self.layout,
            self.device,
            *(() if self.autotune == "on" else (self.autotune,)),
        )

    @property
    def group(self) -> tuple[Any, ...]:
        """Equal for cells that may be ranked together as far as their axes go."""
        axes = self.to_json()
        return tuple(axes[axis] for axis in GROUP_AXES)

    def to_json(self) -> dict[str, Any]:
        """The axes as plain data, with the network's hash in place of its layers."""
        return {
            "key": self.key,
            "framework": self.framework,
            "mode": self.mode,
            "network": self.network_spec,
            "network_hash": self.network.hash,
            "batch_size": self.batch_size,
            "precision": self.precision,
            "layout": self.layout,
            "device": self.device,
            "threads": self.threads,
            "host_allocator": self.host_allocator,
            "autotune": self.autotune,
        }
