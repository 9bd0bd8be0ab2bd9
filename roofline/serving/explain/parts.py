"""What derivations are made of: facts, given values, operators and steps."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from roofline.cost.collectives import FORMULAS
from roofline.cost.layers.loading import outside_bytes_per_s
from roofline.cost.work import Op
from roofline.hardware.links import kind
from roofline.hardware.machine import Fact, Gpu, Node
from roofline.model.precision import named
from roofline.serving.static import OpTime, StaticBatch
from roofline.table import BASES, Derivation
from roofline.units import show

LARGEST: Final = 5
"""Operators that a step's derivation spells out; the others are one entry."""


def worst(bases: list[str]) -> str:
    """Basis of a figure built from others: the worst one wins.

    >>> worst(["measured", "assumed", "datasheet"])
    'assumed'
    """
    known = [BASES.index(basis) for basis in bases if basis]
    return BASES[max(known)] if known else ""


def given(name: str, value: float, unit: str) -> Derivation:
    """What the user asked for, or a default."""
    return Derivation(name, value, unit, source="given")


def fact(gpu: Gpu, name: str, key: str, value: float, unit: str) -> Derivation:
    """Figure of a GPU with its source; one that its file does not have was given."""
    return _stated(gpu.facts.get(key), name, value, unit)


def _stated(known: Fact | None, name: str, value: float, unit: str) -> Derivation:
    """Figure of a file with its source; one that no file has was given."""
    if known is None:
        return given(name, value, unit)
    place = ", ".join(text for text in (known.source, known.where, known.location) if text)
    return Derivation(name, value, unit, source=place, basis=known.basis, note=known.note)


def config(batch: StaticBatch, name: str, field: str, value: float) -> Derivation:
    """Number of the network, with the line of its config."""
    network = batch.deployment.architecture
    return Derivation(name, value, "", source=network.provenance.get(field, network.name))


def rates(batch: StaticBatch) -> tuple[Derivation, ...]:
    """Arithmetic, memory and, if there are several devices, wire rates in use."""
    gpu, precision = batch.deployment.node.gpu, batch.deployment.precision
    names = dict.fromkeys((precision.linear_arithmetic, precision.attention_arithmetic))
    peaks = tuple(
        fact(gpu, f"P {name}", f"arithmetic.{name}", gpu.rate(name), "FLOP/s") for name in names
    )
    memory = fact(gpu, "BW", "hbm", gpu.hbm_bytes_per_s, "B/s")
    return (*peaks, memory, *wires(batch))


def wires(batch: StaticBatch) -> tuple[Derivation, ...]:
    """Rates and latencies of the wires in use: of the node, out of it, and to the host."""
    deployment, node = batch.deployment, batch.deployment.node
    out = []
    if batch.devices > 1 and node.link is not None:
        out.append(_link(node, "link", "W", node.link.bytes_per_s, node.link.latency_s))
    if batch.devices > node.gpus and node.network is not None:
        network = node.network
        rate = network.rate_between_nodes
        out.append(_link(node, "network", "W network", rate, network.latency_s))
    if deployment.offload.any:
        rate = outside_bytes_per_s(deployment)
        known = node.facts.get("host.bandwidth")
        if deployment.offload.to == "nvme" and (known is None or known.value > rate):
            known = kind("nvme")[1].get("bandwidth")
        out.append(_stated(known, "W host", rate, "B/s"))
    return tuple(out)


def _link(node: Node, key: str, name: str, rate: float, latency: float) -> Derivation:
    """Rate of wires, with the latency of a round of messages on them beside it."""
    wire = _stated(node.facts.get(f"{key}.bandwidth"), name, rate, "B/s")
    round_trip = _stated(node.facts.get(f"{key}.latency"), "α", latency, "s")
    note = f"α = {show(latency, 's')} a round of messages, {round_trip.basis or 'given'}"
    note += f" ({round_trip.source})" if round_trip.basis != "assumed" else ""
    return replace(
        wire,
        basis=worst([wire.basis, round_trip.basis]),
        note=f"{wire.note}; {note}" if wire.note else note,
    )


def operator(entry: OpTime) -> Derivation:
    """Time of an operator, all its executions together."""
    op = entry.op
    times = (entry.compute, entry.memory, entry.wire, entry.host)
    compute, memory, wire, host = (show(t / op.repeat, "s") for t in times)
    formula = f"{op.repeat} · max(F / P, B / BW)"
    substituted = f"{op.repeat} · max({compute}, {memory})"
    if op.kind == "collective":
        way = FORMULAS.get(op.algorithm, op.algorithm)
        formula, substituted = f"{op.repeat} · ({way})", f"{op.repeat} · {wire}"
    elif op.kind == "host":
        formula, substituted = f"{op.repeat} · loaded / W host", f"{op.repeat} · {host}"
    elif entry.wire:
        formula = f"{op.repeat} · max(F / P, B / BW, ring of wires)"
        substituted = f"{op.repeat} · max({compute}, {memory}, {wire})"
    note = f"bound by {entry.bound}"
    if (hidden := entry.wire + entry.host - entry.seconds) > 0 and op.kind in (
        "collective",
        "host",
    ):
        substituted = ""
        note += f"; {show(hidden, 's')} of it is hidden behind other operators"
    return Derivation(
        op.name,
        entry.seconds,
        "s",
        formula=formula,
        substituted=substituted,
        inputs=tuple(_counts(op)),
        basis="datasheet",
        note=note,
    )


def _counts(op: Op) -> Iterator[Derivation]:
    """FLOPs and bytes of one execution, with the formulas that the field uses for them."""
    formulas = _formulas(op)
    for name, unit, value in (
        ("F", "FLOP", op.work.flops),
        ("weights moved", "B", op.work.weight_bytes),
        ("activations moved", "B", op.work.activation_bytes),
        ("KV cache moved", "B", op.work.kv_bytes),
        ("sent", "B", op.work.wire_bytes),
        ("sent out of the node", "B", op.work.network_bytes),
        ("rounds of messages", "", op.work.messages + op.work.network_messages),
        ("loaded", "B", op.work.host_bytes),
    ):
        if float(value):
            formula, numbers = formulas.get(name, ("", ""))
            yield Derivation(
                name,
                float(value),
                unit,
                formula=formula,
                substituted=numbers,
                source="" if formula else _origin(op),
            )


def _formulas(op: Op) -> dict[str, tuple[str, str]]:
    """Formula of each count, and the same with its numbers."""
    dims = {key: float(value) for key, value in op.dims.items()}

    def numbers(*factors: float) -> str:
        return " · ".join(f"{factor:,.10g}" for factor in factors)

    if op.kind == "gemm":
        m, n, k = dims["m"], dims["n"], dims["k"]
        width = float(op.work.activation_bytes) / (m * (n + k))
        weight = named(op.formats["weights"]).width
        bias = float(op.work.weight_bytes) - n * k * weight
        stored = numbers(n, k, weight) + (f" + {bias:,.10g}" if bias else "")
        return {
            "F": ("2·m·n·k", numbers(2, m, n, k)),
            "weights moved": ("n·k·bytes" + (" + bias" if bias else ""), stored),
            "activations moved": (
                "m·(k + n)·bytes",
                f"{m:,.10g} · ({k:,.10g} + {n:,.10g}) · {width:g}",
            ),
        }
    if op.kind in ("prefill-attention", "decode-attention"):
        count, n, kv, h = (dims[key] for key in ("count", "heads", "kv_heads", "head_dim"))
        width = named(op.formats["kv"]).width
        # Over a growing context these are means: of pairs and keys, not of what they are made of.
        pairs = float(op.work.flops) / (4 * n * h * count)
        keys = float(op.work.kv_bytes) / (2 * kv * h * count * width)
        return {
            "F": ("4·N·H·B·pairs of query and key", numbers(4, n, h, count, pairs)),
            "KV cache moved": ("2·K·H·B·keys seen·bytes", numbers(2, kv, h, count, keys, width)),
        }
    if op.kind == "collective" and op.name.startswith("all-reduce") and dims["nodes"] == 1:
        return _sent(op.algorithm, dims["ranks"], dims["bytes"])
    return {}


def _origin(op: Op) -> str:
    """Where a count comes from that has no formula of its own."""
    if op.kind == "collective":
        return f"{op.algorithm}, {op.dims['ranks']:g} devices on {op.dims['nodes']:g} nodes"
    if op.kind == "host":
        return "the share that is kept outside, of what the layers read"
    return "operands and results, each moved once"


def _sent(algorithm: str, ranks: float, payload: float) -> dict[str, tuple[str, str]]:
    """Formula of what each device sends in an all-reduce of M bytes, with its numbers."""
    m, n = f"{payload:,.10g}", f"{ranks:g}"
    around = ("2·(n − 1)/n·M", f"2 · {ranks - 1:g} / {n} · {m}")
    known = {
        "ring": around,
        "two-shot": around,
        "tree": ("2·M", f"2 · {m}"),
        "one-shot": ("(n − 1)·M", f"{ranks - 1:g} · {m}"),
        "in-switch": ("(1 + 1/n)·M", f"(1 + 1 / {n}) · {m}"),
    }
    return {"sent": known[algorithm]} if algorithm in known else {}


def step(name: str, ops: Mapping[str, OpTime], batch: StaticBatch) -> Derivation:
    """Time of a step as the sum of its operators, the largest spelled out."""
    ordered = sorted(ops.values(), key=lambda entry: -entry.seconds)
    rest = ordered[LARGEST:]
    inputs = [operator(entry) for entry in ordered[:LARGEST]]
    if rest:
        inputs.append(
            Derivation(
                f"{len(rest)} smaller operators",
                sum(entry.seconds for entry in rest),
                "s",
                source="the same formula",
                note=", ".join(entry.op.name for entry in rest),
            )
        )
    used = rates(batch)
    serial = sum(entry.serial for entry in ordered)
    return Derivation(
        name,
        sum(entry.seconds for entry in ordered),
        "s",
        formula="sum over operators of repeats · max(F / P, B / BW)",
        substituted=" + ".join(show(entry.value, "s") for entry in inputs),
        inputs=(*inputs, *used),
        source="roofline: Williams, Waterman, Patterson 2009",
        basis=worst([rate.basis for rate in used]),
        note=f"each operator overlaps in itself; without any overlap {show(serial, 's')}; at "
        "these rates both are less than real kernels take",
    )
