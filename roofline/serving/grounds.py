"""What the figures of a static batch rest on, each with its source."""

from collections.abc import Mapping
from typing import Any

from roofline.hardware.machine import Gpu
from roofline.serving.static import StaticBatch
from roofline.table import Table, table


def roofs(batch: StaticBatch) -> Table:
    """Ceilings of the roofline: arithmetic rates, and bandwidth of each level."""
    gpu, precision = batch.deployment.node.gpu, batch.deployment.precision
    rows = [
        _roof(gpu, "arithmetic", name, f"arithmetic.{name}", gpu.rate(name))
        for name in dict.fromkeys((precision.linear_arithmetic, precision.attention_arithmetic))
    ]
    for level, key, rate in (
        ("HBM", "hbm", gpu.hbm_bytes_per_s),
        ("L2", "cache.l2_bandwidth", gpu.l2_bytes_per_s),
        ("on-chip", "compute.shared_bandwidth", gpu.shared_bytes_per_s),
    ):
        if rate:
            rows.append(_roof(gpu, "bandwidth", level, key, rate))
    return table(rows, {})


def _roof(gpu: Gpu, kind: str, name: str, key: str, rate: float) -> dict[str, Any]:
    fact = gpu.facts.get(key)
    return {
        "kind": kind,
        "name": name,
        "rate": rate,
        "unit": "FLOP/s" if kind == "arithmetic" else "B/s",
        "basis": fact.basis if fact else "datasheet",
        "source": fact.source if fact else gpu.name,
    }


def assumptions(batch: StaticBatch, given: Mapping[str, str]) -> Table:
    """What the figures rest on, with the source of each."""
    gpu, network = batch.deployment.node.gpu, batch.deployment.architecture
    rows = [
        {"what": what, "value": value, "basis": "given", "source": "command or default", "note": ""}
        for what, value in given.items()
    ]
    for key, fact in gpu.facts.items():
        if _used(key, batch):
            source = ", ".join(text for text in (fact.source, fact.where) if text)
            rows.append(
                {
                    "what": f"{gpu.name} {key}",
                    "value": fact.text,
                    "basis": fact.basis,
                    "source": source,
                    "note": fact.note,
                }
            )
    node = batch.deployment.node
    for key, fact in node.facts.items():
        if _wired(key, batch):
            rows.append(
                {
                    "what": f"{node.name} {key}",
                    "value": fact.text,
                    "basis": fact.basis,
                    "source": ", ".join(text for text in (fact.source, fact.where) if text),
                    "note": fact.note,
                }
            )
    for field, text in network.provenance.items():
        value, _, where = text.partition(", ")
        rows.append(
            {
                "what": f"{network.name} {field}",
                "value": value,
                "basis": "config",
                "source": where,
                "note": "",
            }
        )
    engine = batch.deployment.engine
    rows += [
        {
            "what": f"engine {engine.name}",
            "value": note.partition(": ")[0],
            "basis": "assumed",
            "source": "engine profile",
            "note": note.partition(": ")[2],
        }
        for note in engine.notes
    ]
    return table(rows, {})


def _used(key: str, batch: StaticBatch) -> bool:
    precision = batch.deployment.precision
    return key in {
        f"arithmetic.{precision.linear_arithmetic}",
        f"arithmetic.{precision.attention_arithmetic}",
        "hbm",
        "memory.visible",
        "memory.nominal",
        "price.per_hour",
        "power.tdp",
        "cache.l2_bandwidth",
    }


def _wired(key: str, batch: StaticBatch) -> bool:
    """Whether a figure of the node's wires is used."""
    node, part = batch.deployment.node, key.partition(".")[0]
    return {
        "link": batch.devices > 1,
        "network": batch.devices > node.gpus,
        "host": batch.deployment.offload.any,
    }.get(part, False)
