"""Tables of the catalog: every figure of one GPU, and all GPUs side by side."""

from typing import Any, Final

from roofline.hardware.catalog import gpu as find
from roofline.hardware.catalog import gpu_names
from roofline.hardware.machine import Fact, Gpu
from roofline.records import replace
from roofline.table import BASES, Table, table
from roofline.units import show

LABELS: Final = {
    "memory.nominal": "memory, as sold",
    "memory.visible": "memory, visible",
    "hbm": "memory bandwidth",
    "cache.l2": "L2 cache",
    "cache.l2_bytes_per_clock": "L2 per clock",
    "cache.l2_bandwidth": "L2 bandwidth",
    "compute.multiprocessors": "multiprocessors",
    "compute.l1": "L1 and shared memory, each",
    "compute.shared_memory": "shared memory, each",
    "compute.shared_memory_per_block": "shared memory, per block",
    "compute.shared_bytes_per_clock": "shared memory, per clock",
    "compute.shared_bandwidth": "shared memory bandwidth, all",
    "compute.clock": "boost clock",
    "sparsity.factor": "gain of 2:4 sparsity, not applied",
    "power.tdp": "board power",
    "price.per_hour": "price",
}

LISTING_UNITS: Final = {
    "memory": "B",
    "bandwidth": "B/s",
    "dense16": "FLOP/s",
    "dense8": "FLOP/s",
    "ridge": "FLOP/B",
    "power": "W",
    "price": "$/h",
}


def describe(gpu: Gpu) -> Table:
    """Every figure of a GPU with its source, as text.

    Returns:
        Table: ``figure``, ``value`` (with its unit), ``basis``, ``source``, ``where``, ``note``.
            Rates are dense and links are per direction. Ridge points follow from the rates.
    """
    order = list(LABELS)

    def position(entry: tuple[str, Fact]) -> int:
        """Arithmetic and links stand in the order of the file, between what `LABELS` orders."""
        if entry[0] in LABELS:
            return order.index(entry[0]) * 2
        arithmetic = entry[0].split(".")[0] in ("arithmetic", "sustained")
        return order.index("compute.clock" if arithmetic else "sparsity.factor") * 2 + 1

    rows = [_row(_label(name), fact) for name, fact in sorted(gpu.facts.items(), key=position)]
    rows += [_ridge(gpu, arithmetic) for arithmetic in gpu.flops_per_s]
    return table(rows, {})


def listing() -> Table:
    """All GPUs of the catalog, one row each, in base units.

    Returns:
        Table: ``name``, ``memory`` (as sold) [B], ``bandwidth`` [B/s], dense rates ``dense16``
            (bf16, else fp16) and ``dense8`` (fp8, else int8) [FLOP/s], ``ridge`` of the former
            [FLOP/B], ``power`` [W], ``price`` [$/h], ``confidence``. None where there is no figure.
    """
    rows = []

    for gpu in map(find, gpu_names()):
        sixteen = next((name for name in ("bf16", "fp16") if name in gpu.flops_per_s), "")
        eight = next((name for name in ("fp8", "int8") if name in gpu.flops_per_s), "")
        row: dict[str, Any] = {
            "name": gpu.name,
            "memory": gpu.nominal_bytes,
            "bandwidth": gpu.hbm_bytes_per_s,
            "dense16": gpu.flops_per_s.get(sixteen),
            "dense8": gpu.flops_per_s.get(eight),
            "ridge": gpu.ridge(sixteen) if sixteen else None,
            "power": gpu.tdp_w or None,
            "price": gpu.usd_per_hour or None,
            "confidence": gpu.confidence,
        }
        rows.append(row)

    made = table(rows, LISTING_UNITS, basis="datasheet")
    # Prices are nobody's datasheet.
    return Table({**made.columns, "price": replace(made.columns["price"], basis="assumed")})


def _label(name: str) -> str:
    if name in LABELS:
        return LABELS[name]
    group, *rest = name.split(".")
    if group == "arithmetic":
        return f"{rest[0]}, dense"
    if group == "sustained":
        return f"{rest[0]}, large products in a public benchmark"
    return " ".join(rest).replace("peer", "each further peer")  # links.nvlink.bandwidth


def _row(label: str, fact: Fact) -> dict[str, str]:
    note = f"{fact.date}: {fact.note}" if fact.date else fact.note
    return {
        "figure": label,
        "value": fact.text,
        "basis": fact.basis,
        "source": fact.source,
        "where": fact.where,
        "note": note,
    }


def _ridge(gpu: Gpu, arithmetic: str) -> dict[str, str]:
    facts = [gpu.facts[name] for name in (f"arithmetic.{arithmetic}", "hbm") if name in gpu.facts]
    return {
        "figure": f"ridge, {arithmetic}",
        "value": show(gpu.ridge(arithmetic), "FLOP/B", digits=4),
        "basis": max((fact.basis for fact in facts), key=BASES.index, default=""),
        "source": "; ".join(dict.fromkeys(fact.source for fact in facts)),
        "where": f"arithmetic.{arithmetic} / memory.bandwidth",
        "note": "",
    }
