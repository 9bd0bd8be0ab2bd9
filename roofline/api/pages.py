"""How many sequences fit, by how their caches are given room."""

from roofline.api.setting import (
    DEFAULT_MODEL,
    Degrees,
    check_gpus,
    check_share,
    deployed,
    layout_of,
    machine_of,
    network_of,
    options_of,
)
from roofline.bench.calibrations import AUTO
from roofline.errors import InputError
from roofline.hardware.machine import Gpu, Node
from roofline.model.architecture import Architecture
from roofline.serving.paged import paged
from roofline.serving.paged_result import result_of
from roofline.serving.workload import Workload
from roofline.table import Result


def paging(
    model: str | Architecture = DEFAULT_MODEL,
    gpu: str | Gpu | None = None,
    *,
    samples: int = 1,
    page: int = 0,
    reserved: int = 0,
    node: str | Node | None = None,
    gpus: int | None = None,
    layout: str = "",
    batch: int = 256,
    prompt: int = 2048,
    output: int = 256,
    weights: str | None = None,
    kv: str = "auto",
    engine: str = "vllm",
    calibration: str = AUTO,
    cuda_graphs: bool = True,
    memory_utilization: float | None = None,
) -> Result:
    """Say how many sequences fit with caches reserved whole, in pages, and in shared pages.

    Parameters
    ----------
    model
        Catalog name, hub id, a ``config.json`` or its folder, or an architecture.
    gpu, node
        Catalog name, a YAML file, or a machine, None for that of the node or `DEFAULT_GPU`; the
        node that it is in, None for the usual one.
    samples
        Answers to each prompt. [1]
    page
        Tokens of a page; 0 for the engine's. [token]
    reserved
        Longest sequence that room is reserved for without pages; 0 for the network's. [token]
    gpus, layout
        Devices of the replica; ``"tp8"``, ``"dp8-ep8"``. [1]
    batch
        Sequences that a step keeps activations for. [1]
    prompt, output
        Tokens of each prompt and answer. [token]
    weights, kv, engine, calibration, cuda_graphs, memory_utilization
        See `analyze`.

    Returns
    -------
    Result
        Tables ``headline`` and ``schemes``; derivations by scheme.

    Raises
    ------
    RooflineError
        Anything the user can mend.
    """
    network = network_of(model)
    check_share(memory_utilization)
    check_gpus(gpus)
    device, box = machine_of(gpu, node, None)
    arranged, replicas = layout_of(gpus, Degrees(spelled=layout))
    if replicas > 1:
        raise InputError(
            f"{gpus} GPUs are {replicas} replicas of {arranged}",
            hint="ask for one replica: all of them do the same",
        )
    deployment = deployed(
        network,
        device,
        box,
        arranged,
        weights=weights,
        kv=kv,
        engine=engine,
        options=options_of(cuda_graphs=cuda_graphs),
        calibration=calibration,
    )
    return result_of(
        paged(
            deployment,
            Workload(batch, prompt, output),
            samples=samples,
            page=page,
            reserved=reserved,
            utilization=memory_utilization,
        )
    )
