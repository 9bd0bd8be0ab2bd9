"""Measured collectives as columns of `roofline.cost.kernels.collective`.

A group is one library, release, operation and place. Sources call a place by what joins the ranks:
``…_nvswitch_1node``; ``…_pcie_1node``; ``…_pairwise_nvlink_dpn4``; ``…_dgx_dpn4`` takes four
devices of each node, so that more than four ranks are on several nodes and meet over the network.
A family is an octave of sizes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.bench.held_out import octaves
from roofline.bench.kernel_rows import Group, Name, group_of, newest, parts
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.collective import CUSTOM, NCCL, collective_dims, form
from roofline.cost.regimes import IN_SWITCH
from roofline.errors import LayoutError, UnknownNameError
from roofline.hardware.catalog import default_node, gpu
from roofline.hardware.machine import Gpu, Link

if TYPE_CHECKING:
    import pandas

KEY: Final = ("gpu", "backend", "version", "mode", "topology", "op", "across")
OPS: Final = {"alltoall": "all_to_all", "allreduce": "all_reduce", "allgather": "all_gather"}
"""Other names of operations."""
INTEGERS: Final = ("int8", "uint8", "int32")
"""Types that NCCL does not add in the switch."""
LEAST: Final = 22
"""Rows that the form with fewest constants needs when an octave is left out."""
FEW: Final = 36
"""Rows below which the form has the shortest algorithm and the widest only: each has three
constants, and an octave is left out of every fit that validates it."""
OF_EACH: Final = re.compile(r"dpn(\d+)$")
"""Devices of each node, at the end of a topology."""
PCIE: Final = "pcie"
"""In a topology whose devices have no other link."""
CUSTOM_ENDS: Final = "-custom"
"""Of a library that is an engine's own kernels."""


def collective_groups(frame: "pandas.DataFrame") -> Iterator[Group]:
    """Collectives; a family is an octave of sizes.

    Raises:
        UnknownNameError: The library has no such operation.
        LayoutError: The catalog does not know what joins the ranks.
    """
    named = frame.assign(op=frame.op.replace(OPS), across=_across(frame))
    sizes = named.groupby(list(KEY), observed=True).time_s.transform("size")
    # Releases with so few rows that no octave can be left out of one are taken together.
    others = [key for key in KEY if key != "version"]
    latest = named.groupby(others, observed=True).version.transform(newest)
    named = named.assign(version=named.version.where(sizes >= LEAST, latest))
    for name, rows in parts(named, KEY):
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


def _group(name: Name, rows: "pandas.DataFrame", library: Mapping[str, tuple[str, ...]]) -> Group:
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


def _across(frame: "pandas.DataFrame") -> "pandas.Series":
    """Devices of each node where the ranks are on several nodes, else 0."""
    each = frame.topology.str.extract(OF_EACH)[0].astype(float).fillna(np.inf)
    return each.where(frame.n_ranks > each, 0.0).astype(int)


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
    link = _link(device, ranks, topology)
    if link is None:
        raise LayoutError(
            f"the catalog knows no link that joins {ranks:.0f} × {device.name}",
            hint="add the link to the GPU's file",
        )
    node = default_node(device, int(min(ranks, link.devices or ranks)))
    joined = node.link
    return link.bytes_per_s, bool(joined and joined.kind == link.kind and joined.reduces)


def _link(device: Gpu, ranks: float, topology: str) -> Link | None:
    for kind, link in device.links.items():
        if kind == "c2c" or (PCIE in topology.split("_") and kind != PCIE):
            continue
        if not link.devices or link.devices >= ranks:
            return link
    return None
