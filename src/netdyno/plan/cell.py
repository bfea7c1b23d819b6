"""One point of the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from netdyno.networks import Network

__all__ = ["ALLOCATORS", "GROUP_AXES", "PRECISIONS", "Cell", "HostAllocator"]

HostAllocator = Literal["system", "retain"]

ALLOCATORS: tuple[HostAllocator, ...] = ("system", "retain")
# Cells are ranked together only where all of these agree: see docs/comparability.md.
GROUP_AXES = ("network_hash", "batch_size", "device", "precision", "threads", "host_allocator")
PRECISIONS = ("fp32", "fp64")


@dataclass(frozen=True)
class Cell:
    """What one trial measures.

    Args:
        network: the graph; ``network_spec`` is how it was asked for (``googlenet:lrn=on``).
        host_allocator: ``system``, the C library's own settings, or ``retain``, where freed
            memory stays with the process and is not mapped afresh in each iteration.
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

    @property
    def key(self) -> str:
        """Unique within a run, and readable: ``mxnet/symbol/alexnet_owt/b32/…``."""
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
        }
