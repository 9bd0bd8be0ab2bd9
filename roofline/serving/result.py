"""A priced static batch as a result: what the command line prints, JSON carries, reports draw."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofline.errors import RooflineError
from roofline.serving import advice, room, tables
from roofline.serving.adapters import adapter_derivations, adapter_table, load_notes
from roofline.serving.asking import asked_of
from roofline.serving.explain.figures import explain_all
from roofline.serving.explain.parts import worst
from roofline.serving.notes import latent_forms, notes, steady_notes
from roofline.serving.static import (
    CENTRAL,
    OpTime,
    StaticBatch,
    StaticBatches,
    batch_axis,
    micro,
    static_batches,
)
from roofline.serving.steady import SteadyState, steady_state
from roofline.table import Result, Table, table, units_of

if TYPE_CHECKING:
    from roofline.serving.facility import Facility

SOFTWARE: Final = "scheduling, sampling, launches: fitted to serving measured end to end"
UNMEASURED: Final = "nothing like it was measured: the least that published rates allow"
SHARED: Final = "its time is in the kernel of another operator"
COLUMNS: Final = (
    *("kernel", "of", "measured on", "note", "source"),
    *("basis", "operators", "prefill", "decode"),
)


def kernels(batch: StaticBatch) -> Table:
    """Fits by what they price, those that take most time first; no rows at datasheet rates.

    Columns ``prefill`` and ``decode`` are shares of the time of a step.
    """
    units = dict.fromkeys(COLUMNS, "")
    if not batch.calibrated:
        return table([], units)
    phases = {"prefill": batch.prefill, "decode": batch.decode}
    totals = {name: sum(e.seconds for e in ops.values()) for name, ops in phases.items()}
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for phase, ops in phases.items():
        for name, entry in ops.items():
            told = _told(entry)
            row = rows.setdefault(
                tuple(told.values()),
                {**told, "basis": "", "operators": [], "prefill": 0.0, "decode": 0.0},
            )
            row["basis"] = worst([row["basis"], entry.basis])
            row["operators"] = list(dict.fromkeys([*row["operators"], name]))
            row[phase] += entry.seconds / totals[phase] if totals[phase] else 0.0
    ordered = sorted(rows.values(), key=lambda row: -max(row["prefill"], row["decode"]))
    return table([{**row, "operators": ", ".join(row["operators"])} for row in ordered], units)


def _told(entry: OpTime) -> Mapping[str, str]:
    """Kernel, device and source of a fit, and how far it is from the operator."""
    if entry.op.kind == "engine":
        told = dict.fromkeys(("kernel", "of", "measured on", "source"), "")
        return {**told, "kernel": "engine", "note": SOFTWARE}
    known = entry.measured
    found = known.found if known else None
    if known is None or found is None:
        note = UNMEASURED if known is None else known.assumed or SHARED
        return {"kernel": "", "of": "", "measured on": "", "note": note, "source": ""}
    distance = []
    if found.foreign:
        alike = "another generation" if found.far else "a device of the same generation"
        distance.append(f"carried over from {alike} by published rates")
    elif found.fit.model.transferred:
        distance.append("form of a like device, scaled to a sample of this one")
    if found.borrowed:
        distance.append("another engine's, in place of one that was not measured")
    label = found.fit.label
    return {
        "kernel": f"{label.kind} {label.variant}",
        "of": label.provider,
        "measured on": label.device,
        "note": "; ".join([*distance, known.assumed] if known.assumed else distance),
        "source": found.fit.model.source,
    }


def batches_of(batch: StaticBatch, most: int) -> StaticBatches:
    """Batches of a `curve`."""
    deployment, work = batch.deployment, batch.workload
    asked = work.prefill_batch
    if deployment.layout.pp > 1 and micro(deployment, replace(work, prefill_batch=0)) == work:
        asked = 0  # nobody said how many prompts go together
    return static_batches(deployment, work, batch_axis(work.batch, most), asked)


def curve(batch: StaticBatch, most: int, found: StaticBatches | None = None) -> Table:
    """TTFT, TPOT and throughput against batch, powers of two to beyond the most that fits.

    Those are the batches of `batches_of`, which may have been priced already.
    """
    found = batches_of(batch, most) if found is None else found
    output = batch.workload.samples * batch.workload.output
    columns = (found.batch, found.ttft_s, found.tpot_s, found.latency_s)
    rows = [
        {
            "batch": int(b),
            "ttft_s": start,
            "tpot_s": each,
            "latency_s": whole,
            "throughput_tok_s": b * output / whole,
            "user_tok_s": 1 / each if each else 0.0,
            "fits": bool(b <= most),
        }
        for b, start, each, whole in zip(*(column.tolist() for column in columns), strict=True)
    ]
    if batch.calibrated:
        for place, row in enumerate(rows):
            for name, sds in (
                ("ttft_s", found.ttft_log_sd),
                ("tpot_s", found.tpot_log_sd),
                ("throughput_tok_s", found.latency_log_sd),
            ):
                factor = float(np.exp(CENTRAL * sds[place]))
                row[f"{name}_low"], row[f"{name}_high"] = row[name] / factor, row[name] * factor
    basis = "interpolated" if batch.calibrated else "datasheet"
    return table(rows, units_of(rows[0]), basis)


def result_of(
    batch: StaticBatch, replicas: int, reason: str = "", facility: "Facility | None" = None
) -> Result:
    """Tables, derivations, notes and inputs of a static batch in so many replicas. [1]

    The reason is why the layout was taken, where it was chosen. With a facility there is a table
    ``facility`` of what the replicas draw.
    """
    deployment, work = batch.deployment, batch.workload
    steady, no_steady = None, ""
    try:
        steady = steady_state(batch)
    except RooflineError as error:
        no_steady = error.message
    most = room.largest_batch(deployment, work, batch.utilization)
    batches, forms = batches_of(batch, most), latent_forms(batch)
    beside = [step for form in forms.values() for step in form.steps]
    changes = advice.changes(batch, [*batches.steps, *beside])
    derivations = explain_all(batch, replicas, steady) | adapter_derivations(batch)
    prefix = "static_" if steady else ""
    sampling = deployment.options.sampling
    least = tables.at_published_rates(batch) if batch.calibrated else None
    headline = tables.headline(batch, steady, replicas, derivations, least)
    lora = deployment.options.lora
    drawn, drawn_notes = ({}, ()) if facility is None else _drawn(batch, steady, replicas, facility)
    given = {
        "GPU": f"{replicas * deployment.devices} × {deployment.node.gpu.title}",
        "layout": str(deployment.layout) + (f" × {replicas} replicas" if replicas > 1 else ""),
        "weights, KV cache": f"{deployment.weights_name}, {deployment.precision.kv.name}",
        "batch": f"{work.batch} (prefill {work.together})",
        "prompt → output": f"{work.prompt} → {work.output} tokens",
        "prefix hit": f"{work.prefix_hit:.0%}",
        "engine": deployment.engine.title,
        "node": deployment.node.title,
        "overlap of the interconnect": f"{deployment.options.overlap:.0%}",
    }
    return Result(
        kind="analyze",
        tables={
            "headline": headline,
            "static_batch": tables.static_table(batch, replicas, derivations, prefix, least),
            "memory": room.memory_table(batch.memory),
            "capacity": tables.capacity(batch, most),
            "ops": tables.operators(batch),
            **({"adapters": adapter_table(batch, headline["value"][0])} if lora.adapters else {}),
            "what_if": tables.what_if(changes),
            "batch_curve": curve(batch, most, batches),
            "roofs": tables.roofs(batch),
            "assumptions": tables.assumptions(batch, given),
            "kernels": kernels(batch),
            **drawn,
        },
        derivations=derivations,
        notes=(
            *steady_notes(batch, steady, no_steady),
            *notes(batch, replicas, forms),
            *load_notes(deployment, float(batch.sequences)),
            *drawn_notes,
            *deployment.precision.notes,
            *deployment.architecture.notes,
        ),
        metadata={
            **asked_of(deployment),
            "node": deployment.node.name,
            "gpus": replicas * deployment.devices,
            "tp": int(deployment.tp),
            "layout_title": str(deployment.layout),
            "replicas": replicas,
            "arithmetic": deployment.precision.linear_arithmetic,
            "batch": work.batch,
            "prefill_batch": work.together,
            "prompt": work.prompt,
            "output": work.output,
            "prefix_hit": work.prefix_hit,
            "kv_cache": work.kv_cache,
            **({"samples": work.samples} if work.samples > 1 else {}),
            **(asdict(sampling) if sampling.given else {}),
            **(asdict(lora) if lora.adapters else {}),
            "convention": "engine",
            "basis": "calibrated" if batch.calibrated else "datasheet",
            "calibration": deployment.calibration.name if deployment.calibration else "none",
            "fits": room.fits(deployment, batch.memory, replicas),
            "offload_weights": deployment.offload.weights,
            "offload_kv": deployment.offload.kv,
            "host_bytes": batch.memory.host,
            "summary": advice.sentences(batch, changes, most, reason),
        },
    )


def _drawn(
    batch: StaticBatch, steady: SteadyState | None, replicas: int, facility: "Facility"
) -> tuple[dict[str, Table], tuple[str, ...]]:
    """Table of power and energy of replicas that are kept full, by its name, and its notes.

    Without a steady state they are of the batch.
    """
    from roofline.serving.facility import Consumption, consumption
    from roofline.serving.facility import notes as facility_notes
    from roofline.serving.running_cost import request_energy

    energy, work = request_energy(batch), batch.workload
    each = batch.throughput_tok_s if steady is None else steady.output_tok_s
    rate = each / (work.output * work.samples)
    drawn = Consumption(
        facility,
        batch.deployment.node,
        energy.power(rate),
        replicas * batch.devices,
        replicas * rate,
        replicas * each,
        batch.latency_log_sd if steady is None else steady.rate_log_sd,
    )
    found = consumption([drawn], energy.phases)
    return {"facility": found}, facility_notes(facility, batch.deployment)
