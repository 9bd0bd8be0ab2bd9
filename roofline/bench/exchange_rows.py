"""Measured exchanges of tokens between experts as columns of `roofline.cost.kernels.exchange`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.expert_rows import families, numbers
from roofline.bench.held_out import octaves
from roofline.bench.kernel_rows import Group, group_of, parts
from roofline.cost.kernels import exchange
from roofline.cost.work import Array
from roofline.errors import LayoutError
from roofline.hardware.catalog import USUAL_BOX, default_node, gpu
from roofline.hardware.machine import Gpu

if TYPE_CHECKING:
    import pandas

KEY: Final = ("gpu", "backend", "version", "mode", "op", "node_num")
SHAPE: Final = ("hidden", "topk", "experts")
ALLTOALL: Final = ("gpu", "backend", "version", "kernel", "op", "dtype")
SENT: Final = {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}
"""Bytes per number of a dispatch, scales included. [B]"""
CHOICE: Final = 4.0
"""Bytes of the number of an expert that a token chose. [B]"""
NARROW: Final = 1.0
"""Bytes per number that DeepEP dispatches, as fp8; combination is in 16 bits. [B]"""
WIDE: Final = 2.0


def exchange_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Dispatch and combination of tokens, inside one node or over the network of several.

    Raises:
        LayoutError: The catalog does not know what joins the devices.
    """
    for name, rows in parts(frame, KEY):
        sizes = ("num_tokens", "hidden", "topk", "experts", "sms")
        tokens, hidden, active, every, sms = (numbers(rows, each) for each in sizes)
        device = gpu(name["gpu"])
        nodes = float(name["node_num"])
        held, rate = joined(device, nodes)
        ranks = held * nodes
        once = name["mode"] == "normal"
        copies = met(every, active, ranks) if once else active
        crossing = copies
        if nodes > 1.0:
            # A token crosses once to each other node that has any of its experts, or as often as
            # it has experts there.
            crossing = (met(every, active, nodes) if once else active) * (1.0 - 1.0 / nodes)
        dims = exchange.exchange_dims(
            tokens,
            hidden,
            copies,
            every,
            sms,
            np.full_like(tokens, NARROW if name["op"] == "dispatch" else WIDE),
            np.full_like(tokens, rate),
            crossing,
        )
        alike = families(rows.assign(octave=octaves(tokens)), SHAPE, ("sms", "octave"))
        yield group_of({**name, "dtype": "bfloat16"}, exchange.FORM, dims, rows, alike)


def alltoall_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """All-to-all of TensorRT-LLM over NVLink; a family is an octave of tokens.

    What is prepared are the experts that tokens chose; a token is sent once to each device.
    """
    for name, rows in parts(frame, ALLTOALL):
        sizes = ("num_tokens", "hidden", "topk", "experts", "ep")
        tokens, hidden, active, every, ep = (numbers(rows, each) for each in sizes)
        device, op = gpu(name["gpu"]), name["op"].removeprefix("alltoall_")
        width = _width(op, name["dtype"])
        _, rate = joined(device, 1.0)
        dims = exchange.exchange_dims(
            tokens,
            hidden,
            np.minimum(active, ep),
            every,
            np.zeros_like(tokens),
            active * CHOICE / hidden if op == "prepare" else np.full_like(tokens, width),
            np.full_like(tokens, rate),
        )
        dims = {**dims, "ranks": ep}
        yield group_of({**name, "op": op}, exchange.ALLTOALL, dims, rows, octaves(tokens))


def _width(op: str, dtype: str) -> float:
    """Bytes per number that is sent: of a combination 2, or 1 in low precision. [B]"""
    if op == "dispatch":
        return SENT[dtype]
    return NARROW if op.endswith("low_precision") else WIDE


def met(every: Array, active: Array, ranks: Array | float) -> Array:
    """Devices that have any of a token's experts, which are spread evenly, in the mean. [1]"""
    found: Array = ranks * (1.0 - _none(every, every / ranks, active))
    return found


def joined(device: Gpu, nodes: float) -> tuple[float, float]:
    """Devices of a node, and the rate in one direction of what joins them and others. [B/s]"""
    link = next(iter(device.links.values()), None)
    network = default_node(device, USUAL_BOX + 1).network if nodes > 1 else None
    if link is None or (nodes > 1 and network is None):
        raise LayoutError(
            f"the catalog knows no wires of {device.name} that join {nodes:.0f} nodes",
            hint="add its links, or a node with a network",
        )
    return float(link.devices or USUAL_BOX), network.bytes_per_s if network else link.bytes_per_s


def _none(every: Array, held: Array, active: Array) -> Array:
    """Chance that k of E drawn without replacement miss a set of them."""
    from roofline.special import gammaln

    def choose(n: Array, k: Array) -> Array:
        found: Array = gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0.0) + 1)
        return found

    missed: Array = np.exp(choose(every - held, active) - choose(every, active))
    return np.where(every - held >= active, missed, 0.0)
