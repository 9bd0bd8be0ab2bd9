"""Operators that bring what is kept outside device memory to the device, once for each step."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Stage
from roofline.cost.weights import layer_bytes
from roofline.cost.work import Formula, Number, Op, Work, by, plus
from roofline.hardware.links import host_link, storage_link

CACHE: Final = "load-cache"
EXPERTS: Final = "load-experts"
"""Loads of experts are not made ahead: the router says which experts a layer needs."""


def loads(deployment: Deployment, layers: Sequence[Op], stage: Stage) -> Iterator[Op]:
    """Offloaded shares of what the layers of a step move.

    Weights once, of experts those that are touched, apart; what is read of the cache, and what is
    written to it. They pass through device memory, whose traffic is in the operators already.
    """
    offload = deployment.offload
    if offload.weights:
        read: Number = 0.0
        chosen: Number = 0.0
        for op in layers:
            moved = op.work.weight_bytes * float(op.repeat)
            if op.kind == "moe":
                chosen = plus(chosen, moved)
            else:
                read = plus(read, moved)
        stored: Number = 0.0
        for block, number in stage.layers:
            stored = stored + number * layer_bytes(deployment, block)
        read = np.minimum(read, stored)
        yield _load("load-weights", offload.weights, read, _WEIGHTS, deployment)
        if np.any(chosen):
            experts = np.minimum(chosen, stored - read)
            op = _load(EXPERTS, offload.weights, experts, _EXPERTS, deployment)
            yield replace(op, algorithm="when chosen")
    if offload.kv:
        cached: Number = 0.0
        for op in layers:
            cached = plus(cached, op.work.kv_bytes * float(op.repeat))
        yield _load(CACHE, offload.kv, cached, _CACHE, deployment)


def _load(name: str, share: float, whole: Number, says: Formula, deployment: Deployment) -> Op:
    rate, moved = outside_bytes_per_s(deployment), share * whole
    symbols = {"share kept outside": share, "what the layers move": whole, "W host": rate}
    work = Work(host_bytes=moved, made=by(says, symbols))
    return Op(name, "host", work, dims={"bytes": moved}, wire_s=moved / rate)


def _loaded(source: str) -> Formula:
    return Formula(
        host_bytes="share kept outside · what the layers move",
        seconds="loaded / W host",
        meanings=(
            ("share kept outside", "given, or the least with which it fits"),
            ("what the layers move", source),
        ),
    )


_WEIGHTS: Final = _loaded("weights moved of the operators of the layers, experts apart")
_EXPERTS: Final = _loaded("weights moved of the experts that tokens of the step touch")
_CACHE: Final = _loaded("KV cache moved of the operators of the layers, reads and writes")


def outside_bytes_per_s(deployment: Deployment) -> float:
    """Rate at which a device is loaded: of its wires to the host, or of a drive behind them. [B/s]

    Source: the slower of the two is the rate of both.
    """
    link = host_link(deployment.node.gpu)
    assert link is not None, "a device without wires to the host is refused"
    rate = link.bytes_per_s
    return min(rate, storage_link().bytes_per_s) if deployment.offload.to == "nvme" else rate
