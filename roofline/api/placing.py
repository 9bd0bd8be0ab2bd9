"""How a network can be laid out on a number of GPUs."""

from typing import Literal

from roofline.api.setting import (
    DEFAULT_MODEL,
    Attending,
    Form,
    Masking,
    check_gpus,
    check_share,
    deployed,
    machine_of,
    network_of,
    options_of,
    roomiest,
)
from roofline.bench.calibrations import AUTO
from roofline.cost.moe import UNIFORM, Routing
from roofline.hardware.machine import Gpu, Node
from roofline.model.architecture import Architecture
from roofline.serving.asking import check_parts, one_of
from roofline.serving.workload import Workload
from roofline.study import layout_tables
from roofline.table import Result


def layouts(
    model: str | Architecture = DEFAULT_MODEL,
    gpu: str | Gpu | None = None,
    *,
    gpus: int = 8,
    node: str | Node | None = None,
    objective: layout_tables.Objective = "latency",
    batch: int = 16,
    prefill_batch: int = 0,
    prompt: int = 2048,
    prefix_hit: float = 0.0,
    output: int = 256,
    weights: str | None = None,
    kv: str = "auto",
    engine: str = "vllm",
    calibration: str = AUTO,
    kv_cache: bool = True,
    attention: Attending = "flash",
    mask: Masking = "causal",
    mla: Form = "auto",
    routing: Routing = UNIFORM,
    ring_attention: bool = False,
    overlap: float = 0.0,
    cuda_graphs: bool = True,
    memory_utilization: float | None = None,
    usd_per_hour: float | None = None,
    rank: Literal["steady", "static"] = "steady",
) -> Result:
    """Price every layout of a network on a number of GPUs, best first.

    Parameters
    ----------
    model, gpu, node
        As for `roofline.api.analyze`.
    gpus
        Devices in all; as many replicas as they are enough for. [1]
    objective
        What the order is by: ``"latency"``, ``"throughput"`` of all GPUs, ``"cost"`` of a token.
    batch, prefill_batch, prompt, prefix_hit, output, weights, kv, engine, calibration, kv_cache, \
    attention, mask, mla, routing, ring_attention, overlap, cuda_graphs, \
    memory_utilization, usd_per_hour
        As for `roofline.api.analyze`; the batch is that of one replica.
    rank
        ``"steady"`` adds TTFT of one prompt on an idle server, and TPOT and throughput of a batch
        that is kept full; ``"static"`` has the batch alone whose prompts all arrive at once. Both
        have the same order.

    Returns
    -------
    Result
        Tables ``layouts`` (those that fit first, best first) and ``best`` (one for each objective,
        with the reason).

    Raises
    ------
    RooflineError
        Anything the user can mend.
    """
    one_of("rank", rank, ("steady", "static"))
    check_gpus(gpus)
    check_share(memory_utilization)
    network = network_of(model)
    check_parts(network, mla, routing)
    device, box = machine_of(gpu, node, usd_per_hour)
    base = deployed(
        network,
        device,
        box or roomiest(device, gpus),
        weights=weights,
        kv=kv,
        engine=engine,
        options=options_of(
            attention=attention,
            mask=mask,
            mla=mla,
            routing=routing,
            ring_attention=ring_attention,
            overlap=overlap,
            cuda_graphs=cuda_graphs,
        ),
        calibration=calibration,
    )
    output = 1 if network.is_encoder else output
    work = Workload(batch, prompt, output, prefill_batch, prefix_hit, kv_cache)
    return layout_tables.layouts(base, work, gpus, objective, memory_utilization, rank)
