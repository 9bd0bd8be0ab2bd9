"""Assumptions and ceilings behind the figures of a static batch, each with its source."""

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
    """Inputs and assumptions behind the figures, with the source of each."""
    gpu, network = batch.deployment.node.gpu, batch.deployment.architecture
    rows = [known(what, value, "given", "command or default") for what, value in given.items()]
    node = batch.deployment.node
    precision, figures = batch.deployment.precision, ("hbm", "memory.visible", "memory.nominal")
    used = {
        *(f"arithmetic.{precision.linear_arithmetic}", *figures),
        *(f"arithmetic.{precision.attention_arithmetic}", "cache.l2_bandwidth"),
        *("price.per_hour", "power.tdp"),
    }
    rows += [stated(f"{gpu.name} {key}", fact) for key, fact in gpu.facts.items() if key in used]
    wired = {"link": batch.devices > 1, "network": batch.devices > node.gpus}
    rows += [
        stated(f"{node.name} {key}", fact)
        for key, fact in node.facts.items()
        if wired.get(key.partition(".")[0], False)
    ]
    if batch.deployment.offload.any:
        rows += _outside(batch)
    for field, text in network.provenance.items():
        value, _, where = text.partition(", ")
        rows.append(known(f"{network.name} {field}", value, "config", where))
    engine = batch.deployment.engine
    for text in engine.notes:
        value, _, note = text.partition(": ")
        rows.append(known(f"engine {engine.name}", value, "assumed", "engine profile", note))
    return table(rows, {})


def known(what: str, value: str, basis: str, source: str, note: str = "") -> dict[str, Any]:
    """Row of an assumption, with its source."""
    return {"what": what, "value": value, "basis": basis, "source": source, "note": note}


def stated(what: str, fact: Fact) -> dict[str, Any]:
    """Row of a figure that a file states."""
    source = ", ".join(text for text in (fact.source, fact.where) if text)
    return known(what, fact.text, fact.basis, source, fact.note)


def _outside(batch: StaticBatch) -> list[dict[str, Any]]:
    """Shares kept outside device memory, and the link they are loaded over."""
    deployment, offload = batch.deployment, batch.deployment.offload
    where = "the host's memory" if offload.to == "cpu" else "storage of the host"
    how = (
        "the next layer is loaded while one computes" if offload.prefetch else "loaded when needed"
    )
    given = "command or default"
    least = "the least with which it fits" if offload.least else given
    kept = [
        known(f"{what} kept in {where}", f"{share:.0%}", "given", source, how)
        for what, share, source in (
            ("weights of the layers", offload.weights, least),
            ("KV cache", offload.kv, given),
        )
        if share
    ]
    return kept + [stated(what, fact) for what, fact in outside_facts(deployment).items()]
