"""``roofline analyze``: what a deployment costs, what binds it, and why."""

from typing import Annotated

import typer

from roofline.cli import options
from roofline.cli.answer import answered, print_result
from roofline.cli.page import write_page
from roofline.cli.render import Format


def analyze(
    context: typer.Context,
    model: options.Model = "llama-3.1-8b",
    gpu: options.Gpu = None,
    node: options.Node = None,
    gpus: options.Gpus = None,
    layout: options.LayoutOf = "",
    objective: options.ObjectiveOf = options.Objective.LATENCY,
    tp: options.Tp = None,
    pp: options.Pp = None,
    ep: options.Ep = None,
    dp: options.Dp = None,
    cp: options.Cp = None,
    sp: options.Sp = False,
    stages: options.Stages = "",
    microbatches: options.Microbatches = 0,
    ring_attention: options.RingAttention = False,
    overlap: options.Overlap = 0.0,
    offload_weights: options.OffloadWeights = "0",
    offload_kv: options.OffloadKv = 0.0,
    offload_to: options.OffloadTo = options.Outside.CPU,
    prefetch: options.Prefetch = True,
    batch: options.Batch = 16,
    prefill_batch: options.PrefillBatch = 0,
    prompt: options.Prompt = 2048,
    prefix_hit: options.PrefixHit = 0.0,
    output: options.Output = 256,
    weights: options.Weights = None,
    kv: options.Kv = "auto",
    engine: options.Engine = "vllm",
    convention: options.ConventionOf = options.Convention.ENGINE,
    calibration: options.Calibrated = "auto",
    kv_cache: options.KvCache = True,
    attention: options.AttentionOf = options.Attention.FLASH,
    mask: options.MaskOf = options.Mask.CAUSAL,
    mla: options.MlaOf = options.Mla.AUTO,
    routing_skew: options.RoutingSkew = 0.0,
    expert_loads: options.ExpertLoads = None,
    denoising_steps: Annotated[
        int, typer.Option(help="Steps of a diffusion language model; 0 decodes token by token.")
    ] = 0,
    block: Annotated[
        int, typer.Option(help="Tokens denoised together, with a cache; 0 for the whole answer.")
    ] = 0,
    cuda_graphs: options.CudaGraphs = True,
    memory_utilization: options.MemoryUtilization = None,
    price: options.Price = None,
    explain: Annotated[
        str | None,
        typer.Option(
            help="Derive ttft, tpot, latency, throughput, memory, weights, kv, cost, energy, ridge."
        ),
    ] = None,
    report: options.Report = None,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Say what a static batch costs: memory, TTFT, TPOT, throughput, price, and what binds it."""
    from roofline import api
    from roofline.cli.inputs import asked

    result = api.analyze(**asked(context))
    derivation = api.explain(result, explain) if explain else None
    if report is not None:
        from roofline.api.exploring import around

        write_page(context, around(result), report)
    answered("analyze", result, derivation, format_, print_result)
