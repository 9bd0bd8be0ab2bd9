"""What derivations are made of: facts, given values, operators and steps."""

from collections.abc import Iterator, Mapping
from typing import Final

from roofline.cost.work import Op
from roofline.hardware.machine import Gpu
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
    known = gpu.facts.get(key)
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
    link = batch.deployment.node.link
    if batch.devices == 1 or link is None:
        return (*peaks, memory)
    wire = fact(gpu, "wire", f"links.{link.kind}.bandwidth", link.bytes_per_s, "B/s")
    return (*peaks, memory, wire)


def operator(entry: OpTime) -> Derivation:
    """Time of an operator, all its executions together."""
    op = entry.op
    each = [show(t / op.repeat, "s") for t in (entry.compute, entry.memory, entry.wire)]
    limits, shown = ("F / P, B / BW", each[:2]) if not entry.wire else ("sent / wire", each[2:])
    return Derivation(
        op.name,
        entry.seconds,
        "s",
        formula=f"{op.repeat} · max({limits})",
        substituted=f"{op.repeat} · max({', '.join(shown)})",
        inputs=tuple(_counts(op)),
        basis="datasheet",
        note=f"bound by {entry.bound}",
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
    ):
        if float(value):
            formula, numbers = formulas.get(name, ("", ""))
            yield Derivation(
                name,
                float(value),
                unit,
                formula=formula,
                substituted=numbers,
                source="" if formula else "operands and results, each moved once",
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
    if op.kind == "collective" and op.name.startswith("all-reduce"):
        ranks = dims["ranks"]
        payload = float(op.work.wire_bytes) * ranks / (2 * (ranks - 1))
        return {
            "sent": (
                "2·(n − 1)/n·tensor, around a ring",
                f"2 · {ranks - 1:g} / {ranks:g} · {payload:,.10g}",
            )
        }
    return {}


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
        "datasheet rates both are less than real kernels take",
    )
