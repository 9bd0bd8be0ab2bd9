"""What the figures of a static batch rest on, each with its source."""

from collections.abc import Mapping
from typing import Any

from roofline.hardware.machine import Fact, Gpu
from roofline.serving.explain.wires import outside_facts
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
    node = batch.deployment.node
    rows += [
        _row(f"{gpu.name} {key}", fact) for key, fact in gpu.facts.items() if _used(key, batch)
    ]
    rows += [
        _row(f"{node.name} {key}", fact) for key, fact in node.facts.items() if _wired(key, batch)
    ]
    if batch.deployment.offload.any:
        rows += _outside(batch)
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


def _row(what: str, fact: Fact) -> dict[str, Any]:
    source = ", ".join(text for text in (fact.source, fact.where) if text)
    return {
        "what": what,
        "value": fact.text,
        "basis": fact.basis,
        "source": source,
        "note": fact.note,
    }


def _outside(batch: StaticBatch) -> list[dict[str, Any]]:
    """What is kept outside device memory, and what it is loaded over."""
    deployment, offload = batch.deployment, batch.deployment.offload
    where = "the host's memory" if offload.to == "cpu" else "storage of the host"
    how = (
        "the next layer is loaded while one computes" if offload.prefetch else "loaded when needed"
    )
    kept = [
        {
            "what": f"{what} kept in {where}",
            "value": f"{share:.0%}",
            "basis": "given",
            "source": "the least with which it fits" if found else "command or default",
            "note": how,
        }
        for what, share, found in (
            ("weights of the layers", offload.weights, offload.least),
            ("KV cache", offload.kv, False),
        )
        if share
    ]
    return kept + [_row(what, fact) for what, fact in outside_facts(deployment).items()]


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
    }.get(part, False)
