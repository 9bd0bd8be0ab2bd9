"""What a deployment costs, and why."""

from dataclasses import replace
from typing import TYPE_CHECKING

import roofline
from roofline.api.setting import (
    DEFAULT_MODEL,
    Attending,
    Convention,
    Degrees,
    Form,
    Masking,
    Outside,
    check_gpus,
    check_share,
    default_format,
    deployed,
    layout_of,
    machine_of,
    network_of,
    options_of,
    roomiest,
)
from roofline.bench.calibrations import AUTO
from roofline.cost.layout import DEGREES
from roofline.cost.moe import UNIFORM, Routing
from roofline.cost.offload import Offload
from roofline.errors import UnknownNameError
from roofline.hardware.machine import Gpu, Node
from roofline.model import precision
from roofline.model.architecture import Architecture
from roofline.serving.asking import check_parts, one_of, refuse_unused
from roofline.serving.result import result_of
from roofline.serving.room import enough
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from roofline.table import Derivation, Result

if TYPE_CHECKING:
    from roofline.study.choice import Objective


def analyze(
    model: str | Architecture = DEFAULT_MODEL,
    gpu: str | Gpu | None = None,
    *,
    node: str | Node | None = None,
    gpus: int | None = None,
    layout: str = "",
    objective: "Objective" = "latency",
    tp: int | None = None,
    pp: int | None = None,
    ep: int | None = None,
    dp: int | None = None,
    cp: int | None = None,
    stages: tuple[int, ...] = (),
    sequence_parallel: bool = False,
    microbatches: int = 0,
    ring_attention: bool = False,
    overlap: float = 0.0,
    offload_weights: float | str = 0.0,
    offload_kv: float = 0.0,
    offload_to: Outside = "cpu",
    prefetch: bool = True,
    batch: int = 16,
    prefill_batch: int = 0,
    prompt: int = 2048,
    prefix_hit: float = 0.0,
    output: int = 256,
    weights: str | None = None,
    kv: str = "auto",
    engine: str = "vllm",
    convention: Convention = "engine",
    calibration: str = AUTO,
    kv_cache: bool = True,
    attention: Attending = "flash",
    mask: Masking = "causal",
    mla: Form = "auto",
    routing: Routing = UNIFORM,
    denoising_steps: int = 0,
    block: int = 0,
    cuda_graphs: bool = True,
    memory_utilization: float | None = None,
    usd_per_hour: float | None = None,
) -> Result:
    """Say what a static batch costs: memory, TTFT, TPOT, throughput, price, and what binds it.

    Parameters
    ----------
    model
        Catalog name, hub id, a ``config.json`` or its folder, or an architecture.
    gpu, node
        Catalog name, a YAML file, or a machine, None for that of the node or `DEFAULT_GPU`; the
        node that it is in, None for the usual one.
    gpus
        Devices in all; beyond those of a replica they are further replicas. [1]
    layout, objective
        ``"tp8-pp2"`` in place of degrees; ``"auto"`` for the best one for ``"latency"``,
        ``"throughput"`` or ``"cost"``.
    tp, pp, ep, dp, cp, sequence_parallel, microbatches, stages
        Degrees of parallelism and how they are used: see `roofline.cost.layout.Layout`. [1]
    ring_attention, overlap
        How context parallelism passes keys; share of wire time hidden behind compute. [1]
    offload_weights, offload_kv, offload_to, prefetch
        Shares kept on the host, ``"auto"`` for the least that fits; where; whether loaded ahead.
    batch, prefill_batch
        Sequences of one replica; prompts prefilled in one step, 0 for all. [1]
    prompt, output
        Tokens of each prompt and answer. [token]
    prefix_hit
        Share of the prompt that is cached already. [1]
    weights, kv
        Number formats; None for that of the checkpoint, ``"auto"`` for that of the activations.
    engine
        Whose memory policy: ``"vllm"``, ``"trtllm"``, ``"sglang"``, ``"ideal"``.
    convention
        ``"engine"`` counts what an engine does; ``"textbook"`` gives the lecture's closed forms.
    calibration
        ``"auto"`` for measured kernels of the device or of the one most like it, ``"none"`` for the
        datasheet's rates; or the name or file of a calibration. Closed forms have none.
    kv_cache
        False to compute the whole context again for every token.
    attention, mask, mla
        Fused or not; pairs that count as work; form of latent attention.
    routing
        How tokens spread over experts.
    denoising_steps, block
        Steps of a diffusion language model for the whole answer, and tokens that are denoised
        together; 0 for token by token, and for the whole answer. [1]
    cuda_graphs
        False where the engine is told to run without CUDA graphs.
    memory_utilization
        Share of device memory; None for the engine's default. [1]
    usd_per_hour
        Price of one device; None for the assumed one. [$/h]

    Returns
    -------
    Result
        Tables ``headline``, ``ops``, ``memory``, ``capacity``, ``what_if``, ``batch_curve``,
        ``roofs``, ``assumptions``; derivations by metric. Closed forms and denoising have
        ``headline`` only.

    Raises
    ------
    RooflineError
        Anything the user can mend.
    """
    one_of("convention", convention, ("engine", "textbook"))
    options = options_of(
        attention=attention,
        mask=mask,
        mla=mla,
        routing=routing,
        ring_attention=ring_attention,
        overlap=overlap,
        cuda_graphs=cuda_graphs,
    )
    automatic = offload_weights == "auto"
    offload = Offload(_share(offload_weights), offload_kv, offload_to, prefetch)
    network = network_of(model)
    device, box = machine_of(gpu, node, usd_per_hour)
    workload = Workload(batch, prompt, output, prefill_batch, prefix_hit, kv_cache)
    degrees = Degrees(layout, tp, cp, dp, ep, pp, tuple(stages), sequence_parallel, microbatches)
    check_share(memory_utilization)
    check_parts(network, mla, routing)
    check_gpus(gpus)
    moved = offload.any or automatic
    if network.is_encoder:
        workload = replace(workload, output=1)

    refuse_unused(
        "a layout that is not auto",
        {"--objective": objective != "latency" and not degrees.automatic},
    )
    refuse_unused(
        "a deployment that keeps nothing on the host",
        {
            "--offload-to": offload_to != "cpu" and not moved,
            "--no-prefetch": not (prefetch or moved),
        },
    )
    reason = ""
    if degrees.automatic:
        from roofline.study.choice import choose

        refuse_unused(
            "--layout auto",
            {"--convention textbook": convention == "textbook", "an offload": moved}
            | {"--denoising-steps": denoising_steps != 0}
            | {f"--{name}": getattr(degrees, name) is not None for name in DEGREES}
            | {"--stages": bool(stages), "--microbatches": microbatches != 0},
        )
        base = deployed(
            network,
            device,
            box or roomiest(device, gpus or 1),
            weights=weights,
            kv=kv,
            engine=engine,
            options=options,
            calibration=calibration,
        )
        chosen = choose(base, workload, gpus or 1, objective, memory_utilization)
        arranged, replicas, reason = chosen.layout, chosen.replicas, chosen.reason
    else:
        arranged, replicas = layout_of(gpus, degrees)
    refuse_unused(
        f"a layout of {arranged}",
        {
            "--sp": arranged.sequence_parallel and arranged.tp == 1,
            "--ring-attention": ring_attention and arranged.cp == 1,
        },
    )
    unpriced = {
        "--prefill-batch": prefill_batch != 0,
        "--prefix-hit": prefix_hit != 0,
        "replicas (--gpus beyond those of a replica)": replicas > 1,
        "--price": usd_per_hour is not None,
        "a pipeline (--pp)": arranged.pp > 1,
        "--offload-weights or --offload-kv": moved,
    }
    if convention == "textbook":
        refuse_unused(
            "--convention textbook",
            unpriced
            | {
                "--overlap": overlap != 0,
                "--sp": arranged.sequence_parallel,
                "degrees beside --tp": arranged.devices != arranged.tp or bool(arranged.ep != 1),
                "--no-kv-cache": not kv_cache,
                "--attention naive": attention == "naive",
                "--mask square": mask == "square",
                "--memory-utilization": memory_utilization is not None,
                "--no-cuda-graphs": not cuda_graphs,
                "--denoising-steps": denoising_steps != 0,
            },
        )
        from roofline.serving import lecture

        held = precision.named(weights or default_format(network))
        cache = held if kv == "auto" else precision.named(kv)
        return lecture.analyze(network, device, workload, held, cache, int(arranged.tp))
    deployment = deployed(
        network,
        device,
        box,
        arranged,
        weights=weights,
        kv=kv,
        engine=engine,
        options=options,
        offload=offload,
        calibration=calibration,
    )
    if not denoising_steps:
        refuse_unused("decoding token by token", {"--block": block != 0})
    if denoising_steps:
        from roofline.serving import denoising
        from roofline.serving.diffusion import denoise

        refuse_unused("--denoising-steps", unpriced)
        denoised = denoise(
            deployment,
            batch=batch,
            prompt=prompt,
            output=output,
            steps=denoising_steps,
            block=block or None,
            cached=kv_cache and block > 0,
            utilization=memory_utilization,
        )
        return denoising.result(denoised, roofline.__version__)
    if automatic:
        deployment = enough(deployment, workload, memory_utilization)
    batch_priced = static_batch(deployment, workload, utilization=memory_utilization)
    return result_of(batch_priced, replicas, reason)


def _share(asked: float | str) -> float:
    """Share of the weights that is kept outside; 0 where it is still to be found."""
    if asked == "auto":
        return 0.0
    try:
        return float(asked)
    except ValueError:
        one_of("offloaded share of weights", asked, ("auto", "a number from 0 to 1"))
        raise


def explain(result: Result, metric: str) -> Derivation:
    """Derivation of a metric of a result: formula, numbers put in, source of each.

    Parameters
    ----------
    result
        Answer to a question.
    metric
        ``"tpot"``, ``"kv"``: a key of its derivations.

    Returns
    -------
    Derivation
        A tree that ends in facts with sources.

    Raises
    ------
    UnknownNameError
        The result has no derivation of that name.
    """
    if metric in result.derivations:
        return result.derivations[metric]
    raise UnknownNameError(
        f"nothing called {metric!r} to explain",
        hint=f"metrics: {', '.join(result.derivations)}",
    )
