"""What prefill and decode on pools of their own cost, and what share of devices each needs."""

from roofline.api.setting import (
    Form,
    check_gpus,
    check_share,
    deployed,
    machine_of,
    network_of,
    options_of,
)
from roofline.bench.calibrations import AUTO
from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout, parse
from roofline.cost.moe import UNIFORM, Routing
from roofline.errors import InputError, RooflineError
from roofline.hardware import catalog as hardware
from roofline.hardware.machine import Gpu, Node
from roofline.model.architecture import Architecture
from roofline.serving.asking import check_parts, one_of
from roofline.serving.disaggregated import disaggregated
from roofline.serving.disaggregated_result import result_of
from roofline.serving.kv_transfer import WIRES, Wires
from roofline.serving.workload import Workload
from roofline.table import Result


def disaggregate(
    model: str | Architecture,
    gpu: str | Gpu | None = None,
    *,
    prefill: str,
    decode: str,
    node: str | Node | None = None,
    decode_gpu: str | Gpu | None = None,
    decode_node: str | Node | None = None,
    gpus: int | None = None,
    over: Wires = "network",
    overlapped: bool = False,
    prefill_batch: int = 0,
    batch: int = 64,
    prompt: int = 2048,
    prefix_hit: float = 0.0,
    output: int = 256,
    weights: str | None = None,
    kv: str = "auto",
    engine: str = "vllm",
    calibration: str = AUTO,
    mla: Form = "auto",
    routing: Routing = UNIFORM,
    overlap: float = 0.0,
    cuda_graphs: bool = True,
    memory_utilization: float | None = None,
    usd_per_hour: float | None = None,
) -> Result:
    """Say what disaggregated serving costs: instances of each kind, TTFT, TPOT, transfer, price.

    Parameters
    ----------
    model
        Catalog name, hub id, a ``config.json`` or its folder, or an architecture.
    gpu, node
        Of the prefill pool: catalog name, a YAML file, or a machine, None for that of the node or
        `DEFAULT_GPU`; the node that it is in, None for the usual one.
    prefill, decode
        Layout of an instance of each kind: ``"tp4"``, ``"dp8-ep8"``.
    decode_gpu, decode_node
        The same of the decode pool; None for those of the prefill pool.
    gpus
        Devices in all; None for the fewest instances near the ratio that balances. [1]
    over
        What the cache goes over: ``"network"``, or ``"link"`` where both pools are in one node.
    overlapped
        Whether each layer's cache is sent while the next is computed.
    prefill_batch
        Prompts in a step of a prefill instance; 0 for one in each of its groups that have
        sequences of their own. [1]
    batch
        Sequences of a decode instance. [1]
    prompt, output
        Tokens of each prompt and answer. [token]
    prefix_hit
        Share of the prompt that the prefill pool has cached already. [1]
    weights, kv, engine, calibration, mla, routing, overlap, cuda_graphs, \
    memory_utilization
        Of both pools: see `analyze`.
    usd_per_hour
        Price of one device; None for the assumed one. [$/h]

    Returns
    -------
    Result
        Tables ``headline``, ``pools``, ``transfer``, ``alternatives``; derivations by metric.

    Raises
    ------
    RooflineError
        Anything the user can mend.
    """
    one_of("over", over, WIRES)
    options = options_of(mla=mla, routing=routing, overlap=overlap, cuda_graphs=cuda_graphs)
    network = network_of(model)
    check_parts(network, mla, routing)
    check_share(memory_utilization)
    check_gpus(gpus)
    if prefill_batch < 0:
        raise InputError(
            f"prefill batch is {prefill_batch}", hint="give 1 prompt or more, or 0 for the default"
        )
    if usd_per_hour is not None and (decode_gpu is not None or decode_node is not None):
        raise InputError(
            "one price for two kinds of device",
            hint="leave --price out, or state the price in a YAML file of the GPU",
        )
    device, box = machine_of(gpu, node, usd_per_hour)
    other, other_box = device, box
    if decode_gpu is not None or decode_node is not None:
        other, other_box = machine_of(decode_gpu, decode_node, None)
    layouts = {"prefill": parse(prefill), "decode": parse(decode)}
    if over == "link" and box is None and other_box is None and device.name == other.name:
        box = other_box = _one_node(device, gpus, layouts)

    def instance(phase: str, on: Gpu, where: Node | None) -> Deployment:
        try:
            return deployed(
                network,
                on,
                where,
                layouts[phase],
                weights=weights,
                kv=kv,
                engine=engine,
                options=options,
                calibration=calibration,
            )
        except RooflineError as error:
            message = f"{phase} pool: {error.message}"
            raise type(error)(message, hint=error.hint, where=error.where) from None

    priced = disaggregated(
        instance("prefill", device, box),
        instance("decode", other, other_box),
        Workload(batch, prompt, output, prefix_hit=prefix_hit),
        prefill_batch=prefill_batch,
        gpus=gpus,
        wires=over,
        overlapped=overlapped,
        utilization=memory_utilization,
    )
    return result_of(priced)


def _one_node(device: Gpu, gpus: int | None, layouts: dict[str, Layout]) -> Node:
    """The node that holds both pools, where there is one."""
    both = sum(int(layout.devices) for layout in layouts.values())
    return hardware.default_node(device, gpus or both)
