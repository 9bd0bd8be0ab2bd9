"""A priced static batch as a result: what the command line prints, JSON carries, reports draw."""

import roofline
from roofline.errors import RooflineError
from roofline.serving import advice, grounds, room, tables
from roofline.serving.curve import curve
from roofline.serving.explain import explain_all
from roofline.serving.kernels import kernels
from roofline.serving.notes import notes, steady_notes
from roofline.serving.static import StaticBatch
from roofline.serving.steady import steady_state
from roofline.table import Result


def result_of(batch: StaticBatch, replicas: int, reason: str = "") -> Result:
    """Tables, derivations, notes and inputs of a static batch.

    Parameters
    ----------
    batch, replicas
        What one replica does, and how many there are. [1]
    reason
        Why the layout was taken, where it was chosen.
    """
    deployment, work = batch.deployment, batch.workload
    steady, no_steady = None, ""
    try:
        steady = steady_state(batch)
    except RooflineError as error:
        no_steady = error.message
    changes = advice.changes(batch)
    most = room.largest_batch(deployment, work, batch.utilization)
    derivations = explain_all(batch, replicas, steady)
    prefix = "static_" if steady else ""
    given = {
        "model": deployment.architecture.name,
        "GPU": f"{replicas * deployment.devices} × {deployment.node.gpu.title}",
        "layout": str(deployment.layout) + (f" × {replicas} replicas" if replicas > 1 else ""),
        "weights, KV cache": f"{deployment.precision.weights.name}, {deployment.precision.kv.name}",
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
            "headline": tables.headline(batch, steady, replicas, derivations),
            "static_batch": tables.static_table(batch, replicas, derivations, prefix),
            "memory": tables.memory(batch),
            "capacity": tables.capacity(batch, most),
            "ops": tables.operators(batch),
            "what_if": tables.what_if(changes),
            "batch_curve": curve(batch, most),
            "roofs": grounds.roofs(batch),
            "assumptions": grounds.assumptions(batch, given),
            "kernels": kernels(batch),
        },
        derivations=derivations,
        notes=(
            *steady_notes(batch, steady, no_steady),
            *notes(batch, replicas),
            *deployment.precision.notes,
            *deployment.architecture.notes,
        ),
        metadata={
            "version": roofline.__version__,
            "model": deployment.architecture.name,
            "gpu": deployment.node.gpu.name,
            "gpu_title": deployment.node.gpu.title,
            "node": deployment.node.name,
            "gpus": replicas * deployment.devices,
            "tp": int(deployment.tp),
            "layout": deployment.layout.spelled,
            "layout_title": str(deployment.layout),
            "replicas": replicas,
            "engine": deployment.engine.name,
            "weights": deployment.precision.weights.name,
            "kv": deployment.precision.kv.name,
            "arithmetic": deployment.precision.linear_arithmetic,
            "batch": work.batch,
            "prefill_batch": work.together,
            "prompt": work.prompt,
            "output": work.output,
            "prefix_hit": work.prefix_hit,
            "kv_cache": work.kv_cache,
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
