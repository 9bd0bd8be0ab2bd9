"""Measured collectives, and exchanges of tokens between experts, as columns of their forms.

A group of collectives is one library, release, operation and place. Sources call a place by what
joins the ranks: ``…_nvswitch_1node``; ``…_pcie_1node``; ``…_pairwise_nvlink_dpn4``; ``…_dgx_dpn4``
takes four devices of each node, so that more than four ranks are on several nodes and meet over the
network. A family is an octave of sizes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.held_out import octaves
from roofline.bench.kernel_rows import Name, RowGroup, columns, families, group_of, newest, parts
from roofline.cost.kernels import exchange
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.collective import CUSTOM, IN_SWITCH, NCCL, collective_dims, form
from roofline.cost.work import Array
from roofline.errors import LayoutError, UnknownNameError
from roofline.hardware.catalog import USUAL_BOX, default_node, gpu
from roofline.hardware.machine import Gpu

if TYPE_CHECKING:
    import pandas

COLLECTIVE: Final = ("gpu", "backend", "version", "mode", "topology", "op", "across")
OPS: Final = {"alltoall": "all_to_all", "allreduce": "all_reduce", "allgather": "all_gather"}
"""Other names of operations."""
INTEGERS: Final = ("int8", "uint8", "int32")
"""Types whose sums NCCL does not leave to the switch."""
LEAST: Final = 22
"""Rows that the form with the fewest constants needs when an octave is left out."""
FEW: Final = 64
"""Rows below which the form has the shortest algorithm and the widest, and the switch where it
adds: each has three constants, and octaves are left out of every fit that validates it."""
OF_EACH: Final = re.compile(r"dpn(\d+)$")
"""Devices of each node, at the end of a topology."""
PCIE: Final = "pcie"
"""Word in the name of a topology whose devices have no other link."""
CUSTOM_ENDS: Final = "-custom"
"""End of the name of a library that is an engine's own kernels."""
KEY: Final = ("gpu", "backend", "version", "mode", "op", "node_num")
SHAPE: Final = ("hidden", "topk", "experts")
ALLTOALL: Final = ("gpu", "backend", "version", "kernel", "op", "dtype")
FEW_SHAPES: Final = 5
"""Shapes below which multiprocessors and octaves of tokens tell families apart too."""
SENT: Final = {"bfloat16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}
"""Bytes per number of a dispatch, scales included. [B]"""
CHOICE: Final = 4.0
"""Bytes of the number of an expert that a token chose. [B]"""
NARROW: Final = 1.0
"""Bytes per number that DeepEP dispatches, as fp8; combination is in 16 bits. [B]"""
WIDE: Final = 2.0


def collective_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Collectives; a family is an octave of sizes.

    Raises:
        UnknownNameError: The library has no such operation.
        LayoutError: The catalog does not know what joins the ranks.
    """
    # Devices of each node where the ranks are on several nodes, else 0.
    each = frame.topology.str.extract(OF_EACH)[0].astype(float).fillna(np.inf)
    across = each.where(frame.n_ranks > each, 0.0).astype(int)
    named = frame.assign(op=frame.op.replace(OPS), across=across)
    sizes = named.groupby(list(COLLECTIVE), observed=True).time_s.transform("size")
    # Releases with so few rows that no octave can be left out of one are taken together.
    others = [key for key in COLLECTIVE if key != "version"]
    latest = named.groupby(others, observed=True).version.transform(newest)
    named = named.assign(version=named.version.where(sizes >= LEAST, latest))
    for name, rows in parts(named, COLLECTIVE):
        library = CUSTOM if name["backend"].endswith(CUSTOM_ENDS) else NCCL
        if name["op"] not in library:
            raise UnknownNameError(
                f"{name['backend'] or 'NCCL'} has no known algorithm of {name['op']!r:.40}",
                hint=f"known are {', '.join(library)}",
            )
        yield _group(name, rows, library)


def algorithms(
    library: Mapping[str, tuple[str, ...]], op: str, *, in_switch: bool
) -> tuple[str, ...]:
    """Algorithms of a library on a machine whose switch adds, or does not."""
    return tuple(path for path in library[op] if in_switch or path != IN_SWITCH)


def _group(
    name: Name, rows: "pandas.DataFrame", library: Mapping[str, tuple[str, ...]]
) -> RowGroup:
    device, op, across = gpu(name["gpu"]), name["op"], int(name["across"])
    ranks = rows.n_ranks.to_numpy(np.float64)
    rate, adds = _wires(device, float(ranks.max()), across, name["topology"])
    adds = adds and op == "all_reduce"
    payload = rows.bytes.to_numpy(np.float64)
    switched = adds & ~rows.dtype.isin(INTEGERS).to_numpy(np.bool_)
    rates = np.full_like(payload, rate)
    if PCIE in name["topology"].split("_"):
        # All pairs go through the host's bridge at the same time.
        rates = rates * (2.0 / ranks)
    arithmetic = "bf16" if "bf16" in device.flops_per_s else next(iter(device.flops_per_s))
    custom = "custom-" * (library is CUSTOM)
    few = FORMS.get(f"collective-{custom}few-{op.replace('_', '-')}") if len(rows) < FEW else None
    return group_of(
        {**name, "across": f"{across} a node" if across else ""},
        few or form(op, algorithms(library, op, in_switch=adds)),
        collective_dims(payload, ranks, rates, switched.astype(np.float64)),
        rows,
        octaves(payload),
        arithmetic,
    )


def _wires(device: Gpu, ranks: float, across: int, topology: str) -> tuple[float, bool]:
    """Rate of what joins the ranks [B/s], and whether its switch adds floats."""
    if across:
        network = default_node(device, 2**10).network
        if network is None:
            raise LayoutError(
                f"no node of the catalog with {device.name} has a network",
                hint="add a file to hwspecs/nodes/",
            )
        return across * network.bytes_per_s, False
    apart = {"c2c"} if PCIE not in topology.split("_") else set(device.links) - {PCIE}
    wide = (
        link
        for kind, link in device.links.items()
        if kind not in apart and (not link.devices or link.devices >= ranks)
    )
    link = next(wide, None)
    if link is None:
        raise LayoutError(
            f"the catalog knows no link that joins {ranks:.0f} × {device.name}",
            hint="add the link to the GPU's file",
        )
    node = default_node(device, int(min(ranks, link.devices or ranks)))
    joined = node.link
    return link.bytes_per_s, bool(joined and joined.kind == link.kind and joined.reduces)


def exchange_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """Dispatch and combination of tokens, inside one node or over the network of several.

    Raises:
        LayoutError: The catalog does not know what joins the devices.
    """
    for name, rows in parts(frame, KEY):
        sizes = ("num_tokens", "hidden", "topk", "experts", "sms")
        tokens, hidden, active, every, sms = columns(rows, sizes)
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
            crossing=crossing,
        )
        alike = families(rows.assign(octave=octaves(tokens)), SHAPE, ("sms", "octave"), FEW_SHAPES)
        yield group_of({**name, "dtype": "bfloat16"}, exchange.FORM, dims, rows, alike)


def alltoall_groups(frame: "pandas.DataFrame") -> Iterator[RowGroup]:
    """All-to-all of TensorRT-LLM over NVLink; a family is an octave of tokens.

    ``prepare`` sends the experts that tokens chose; ``dispatch`` sends a token once to each device.
    """
    for name, rows in parts(frame, ALLTOALL):
        sizes = ("num_tokens", "hidden", "topk", "experts", "ep")
        tokens, hidden, active, every, ep = columns(rows, sizes)
        device, op = gpu(name["gpu"]), name["op"].removeprefix("alltoall_")
        width = NARROW if op.endswith("low_precision") else WIDE
        if op == "dispatch":
            width = SENT[name["dtype"]]
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


def met(every: Array, active: Array, ranks: Array | float) -> Array:
    """Devices that have any of a token's experts, which are spread evenly, in the mean. [1]

    That is the devices times the chance that k of E drawn without replacement meet one of its E/n.
    """
    from roofline.special import gammaln

    def choose(n: Array, k: Array) -> Array:
        found: Array = gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0.0) + 1)
        return found

    others = every - every / ranks
    missed: Array = np.exp(choose(others, active) - choose(every, active))
    found: Array = ranks * (1.0 - np.where(others >= active, missed, 0.0))
    return found


def joined(device: Gpu, nodes: float) -> tuple[float, float]:
    """Devices of a node, and the rate in one direction of what joins them and others. [B/s]"""
    link = next(iter(device.links.values()), None)
    network = default_node(device, USUAL_BOX + 1).network if nodes > 1 else None
    if link is None or (nodes > 1 and network is None):
        raise LayoutError(
            f"the catalog knows no links of {device.name} that join {nodes:.0f} nodes",
            hint="add its links, or a node with a network",
        )
    return float(link.devices or USUAL_BOX), network.bytes_per_s if network else link.bytes_per_s
