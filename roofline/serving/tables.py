"""A static batch as tables: what the command line prints, JSON carries and the report draws."""

from collections.abc import Mapping
from typing import Any, Final

from roofline.cost import hierarchy
from roofline.serving import room
from roofline.serving.advice import Change
from roofline.serving.static import OpTime, StaticBatch
from roofline.table import Derivation, Table, table

DATASHEET: Final = "datasheet"


def headline(batch: StaticBatch, replicas: int, derivations: Mapping[str, Derivation]) -> Table:
    """Metrics of the deployment, one row each, with the two bounds of the roofline.

    ``value`` is with perfect overlap, ``serial`` without any; both at datasheet rates.
    """
    slower = batch.latency_serial_s / batch.latency_s
    devices = replicas * batch.devices

    def row(
        metric: str, value: float, serial: float, unit: str, meaning: str, explained: str
    ) -> dict[str, Any]:
        basis = derivations[explained].basis
        return {
            "metric": metric,
            "value": value,
            "serial": serial,
            "unit": unit,
            "basis": basis,
            "meaning": meaning,
        }

    thr = batch.throughput_tok_s * replicas
    rows = [
        row(
            "ttft_s",
            batch.ttft_s,
            batch.ttft_serial_s,
            "s",
            "arrival to first token, last prompt",
            "ttft",
        ),
        row(
            "ttft_mean_s",
            batch.ttft_mean_s,
            batch.ttft_mean_s * batch.ttft_serial_s / batch.ttft_s,
            "s",
            "the same, mean over the batch",
            "ttft",
        ),
        row(
            "tpot_s",
            batch.tpot_s,
            batch.tpot_serial_s,
            "s",
            "between tokens, mean over the answer",
            "tpot",
        ),
        row(
            "latency_s",
            batch.latency_s,
            batch.latency_serial_s,
            "s",
            "arrival to last token",
            "latency",
        ),
        row(
            "throughput_tok_s",
            thr,
            thr / slower,
            "token/s",
            "output tokens, all GPUs",
            "throughput",
        ),
        row(
            "throughput_tok_s_per_gpu",
            thr / devices,
            thr / devices / slower,
            "token/s",
            "output tokens, each GPU",
            "throughput",
        ),
        row(
            "user_tok_s",
            batch.user_tok_s,
            1 / batch.tpot_serial_s if batch.tpot_serial_s else 0.0,
            "token/s",
            "one user, after the first token",
            "tpot",
        ),
        row(
            "joule_per_mtok",
            batch.joule_per_mtok,
            batch.joule_per_mtok * slower,
            "J",
            "energy per million output tokens at board power",
            "energy",
        ),
    ]
    if batch.usd_per_mtok:
        rows.append(
            row(
                "usd_per_mtok",
                batch.usd_per_mtok,
                batch.usd_per_mtok * slower,
                "$",
                "per million output tokens",
                "cost",
            )
        )
    return table(rows, {})


def _total(ops: Mapping[str, OpTime]) -> float:
    return sum(entry.seconds for entry in ops.values())


OP_UNITS: Final = {
    "seconds": "s",
    "serial_s": "s",
    "compute_s": "s",
    "memory_s": "s",
    "wire_s": "s",
    "host_s": "s",
    "flops": "FLOP",
    "hbm_bytes": "B",
    "weight_bytes": "B",
    "activation_bytes": "B",
    "kv_bytes": "B",
    "wire_bytes": "B",
    "network_bytes": "B",
    "host_bytes": "B",
    "l2_bytes": "B",
    "score_bytes": "B",
    "intensity": "FLOP/B",
}


def operators(batch: StaticBatch) -> Table:
    """Operators of both phases; counts and times are of all executions on one device."""
    precision, gpu = batch.deployment.precision, batch.deployment.node.gpu
    rows = []
    for phase, ops in (("prefill", batch.prefill), ("decode", batch.decode)):
        total = _total(ops)
        for name, entry in ops.items():
            op, work, times = entry.op, entry.op.work, float(entry.op.repeat)
            moved = hierarchy.traffic(op, gpu, precision.activations.width, precision.kv.width)
            hbm = float(work.hbm_bytes)
            rows.append(
                {
                    "phase": phase,
                    "op": name,
                    "kind": op.kind,
                    "repeat": op.repeat,
                    "seconds": entry.seconds,
                    "share": entry.seconds / total,
                    "bound": entry.bound,
                    "arithmetic": op.arithmetic,
                    "algorithm": op.algorithm,
                    "flops": float(work.flops) * times,
                    "hbm_bytes": hbm * times,
                    "intensity": float(work.flops) / hbm if hbm else 0.0,
                    "serial_s": entry.serial,
                    "compute_s": entry.compute,
                    "memory_s": entry.memory,
                    "wire_s": entry.wire,
                    "host_s": entry.host,
                    "weight_bytes": float(work.weight_bytes) * times,
                    "activation_bytes": float(work.activation_bytes) * times,
                    "kv_bytes": float(work.kv_bytes) * times,
                    "wire_bytes": float(work.wire_bytes) * times,
                    "network_bytes": float(work.network_bytes) * times,
                    "host_bytes": float(work.host_bytes) * times,
                    "l2_bytes": moved.l2 * times,
                    "score_bytes": moved.scores * times,
                }
            )
    return table(rows, OP_UNITS, basis=DATASHEET)


def memory(batch: StaticBatch) -> Table:
    """What is in the memory of one device."""
    m = batch.memory
    parts = (
        ("weights", m.weights, "derived"),
        ("KV cache", m.kv, "derived"),
        ("activations", m.activations, "derived"),
        ("runtime", m.runtime, "assumed"),
        ("CUDA graphs", m.graphs, "assumed"),
        ("layers being loaded", m.buffer, "derived"),
        ("free", m.free, "derived"),
        ("not used by the engine", m.capacity - m.budget, "setting"),
    )
    rows = [
        {"part": part, "bytes": value, "share": value / m.capacity, "known": known}
        for part, value, known in parts
    ]
    return table(rows, {"bytes": "B"})


def capacity(batch: StaticBatch) -> Table:
    """Largest batch at this context, and largest context at this batch."""
    deployment, work = batch.deployment, batch.workload
    limit = deployment.architecture.max_context
    longest = room.largest_context(deployment, work, batch.utilization)
    rows = [
        {
            "limit": "largest batch",
            "value": room.largest_batch(deployment, work, batch.utilization),
            "unit": "sequence",
            "at": f"context {work.longest}",
            "set by": "memory",
        },
        {
            "limit": "longest context",
            "value": longest,
            "unit": "token",
            "at": f"batch {work.batch}",
            "set by": "the network" if limit and longest >= limit - 1 else "memory",
        },
    ]
    return table(rows, {})


def what_if(priced: tuple[Change, ...]) -> Table:
    """Changes, each priced by itself; factors on the figures of this deployment."""
    rows = [
        {
            "change": change.name,
            "option": change.option,
            "ttft": change.ttft,
            "tpot": change.tpot,
            "throughput": change.throughput,
            "fits": change.fits,
        }
        for change in priced
    ]
    return table(rows, {})
