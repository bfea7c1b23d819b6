"""A network as Caffe's prototxt, for people: what netdyno's own Caffe runs, and fillers."""

from __future__ import annotations

from netdyno.errors import NetdynoError
from netdyno.networks.graph import Network
from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.caffe.prototxt import prototxt
from netdyno_worker.network import Network as WorkerNetwork

__all__ = ["to_prototxt"]


def to_prototxt(network: Network, batch_size: int) -> str:
    """A NetParameter in text format that Caffe can train.

    Images and labels enter through Input layers called ``images`` and ``labels``. Weights start
    at random (He et al. 2015).

    Raises:
        NetdynoError: Caffe cannot express a layer, which is named.
    """
    try:
        return str(prototxt(WorkerNetwork(network.to_json()), batch_size, fillers=True).text)
    except UnsupportedError as error:
        raise NetdynoError(f"network '{network.name}': {error}") from None
