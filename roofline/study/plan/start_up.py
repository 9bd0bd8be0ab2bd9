"""Time until a replica that is ordered serves: its weights, its CUDA graphs, its engine."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.memory import weight_bytes
from roofline.errors import InputError, QuantityError
from roofline.hardware.links import storage_link
from roofline.model.parameters import weight_bytes as stored_bytes
from roofline.units import duration, show

ENGINE_S: Final = 41.0
"""Start of an engine without weights and graphs: imports, processes, kernels from a cache of those
compiled before, a trial of the largest step. [s] Source: vLLM issue 20264, 59 s until the first
answer, of which 0.69 s loaded weights and 17 s captured graphs; taken for all engines."""
GRAPHS_S: Final = 0.61
"""Capture of a layer in the graphs of all batch sizes. [s] Source: vLLM issue 20264, 17 s for a
network of 28 layers; issue 19824 has 60 s for one of 80, 0.75 s a layer."""
LOADER: Final = 5.3e9
"""Rate from the page cache of a node to its devices, by the engine's loader. [B/s] Source: vLLM
issue 20264, 3.42 GiB in 0.69 s; issue 19824 has 70 GB in 10 s over eight devices."""
STORE: Final = 5e9
"""Rate of a store on the network to a node. [B/s] Source: ServerlessLLM (arXiv 2401.14351), 130 GB
in 26 s."""
SOURCES: Final = ("nvme", "network", "page-cache")
"""Places that weights are loaded from."""


class StartUp(Struct, frozen=True):
    """Time until a replica serves, in parts."""

    engine_s: float
    graphs_s: float = 0.0
    weights_s: float = 0.0
    """Start of the engine; capture of CUDA graphs; weights onto the devices. [s]"""
    source: str = ""
    """Place of the weights; empty where the whole time is given."""

    @property
    def seconds(self) -> float:
        """All of it. [s]"""
        return self.engine_s + self.graphs_s + self.weights_s

    def __str__(self) -> str:
        """The time and its parts."""
        if not self.source:
            return f"{show(self.seconds, 's')}, as given"
        return (
            f"{show(self.seconds, 's')}: {show(self.engine_s, 's')} the engine, "
            f"{show(self.graphs_s, 's')} its graphs, {show(self.weights_s, 's')} weights from "
            f"{self.source}"
        )


def loading_s(read: float, placed: float, source: str) -> float:
    """Time to load weights that a node needs: read, then taken over by the loader. [s]

    read / source + placed / loader: a loader that maps files waits for pages, then copies them.
    Source: `STORE`, ``hwspecs/links/nvme.yaml`` and `LOADER`.

    Args:
        read, placed: Weights of a node, and those of all of its devices together. [B]
        source: One of `SOURCES`.

    Examples:
        >>> loading_s(5.3e9, 5.3e9, "page-cache")
        1.0
    """
    rates: Mapping[str, float] = {
        "nvme": storage_link().bytes_per_s,
        "network": STORE,
        "page-cache": math.inf,
    }
    return read / rates[source] + placed / LOADER


def check_start(asked: str) -> None:
    """Refuse what is neither one of `SOURCES` nor a time like ``"90s"``."""
    if asked in SOURCES:
        return
    try:
        duration(asked)
    except QuantityError:
        raise InputError(
            f"start={asked:.40} is neither a source of weights nor a time",
            hint=f"give one of {', '.join(SOURCES)}, or a time like 90s",
        ) from None


def start_up(deployment: Deployment, asked: str) -> StartUp:
    """Start of a replica, from one of `SOURCES` or as long as ``"90s"`` says."""
    if asked not in SOURCES:
        return StartUp(duration(asked))
    nodes = math.ceil(deployment.devices / deployment.node.gpus)
    each = float(np.max(weight_bytes(deployment))) / deployment.layout.pp
    copies = each * deployment.devices / nodes
    # What several devices of a node hold is read once, and placed on each.
    read = min(copies, float(stored_bytes(deployment.architecture)))
    layers = len(deployment.architecture.layers)
    return StartUp(
        ENGINE_S,
        GRAPHS_S * layers if deployment.cuda_graphs else 0.0,
        loading_s(read, copies, asked),
        asked,
    )
