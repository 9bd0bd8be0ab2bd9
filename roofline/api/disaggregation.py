"""What prefill and decode on pools of their own cost, and what share of devices each needs."""

from roofline.api import setting
from roofline.api.parameters import Pools
from roofline.api.question import question
from roofline.cost.deployment import Deployment
from roofline.cost.layout import parse
from roofline.errors import InputError, RooflineError
from roofline.hardware import catalog as hardware
from roofline.hardware.machine import Gpu, Node
from roofline.serving.asking import check_parts, one_of
from roofline.serving.disaggregated import disaggregated
from roofline.serving.disaggregated_result import result_of
from roofline.serving.kv_transfer import WIRES
from roofline.serving.workload import Workload
from roofline.table import Result


@question(Pools)
def disaggregate(asked: Pools) -> Result:
    """Say what disaggregated serving costs: instances of each kind, TTFT, TPOT, transfer, price.

    Returns:
        Result: Tables ``headline``, ``pools``, ``transfer``, ``alternatives``; derivations by
            metric.
    """
    one_of("over", asked.over, WIRES)
    options = setting.options_asked(asked)
    network = setting.network_of(asked.model)
    check_parts(network, asked.mla, asked.routing)
    setting.check_share(asked.memory_utilization)
    setting.check_gpus(asked.gpus)
    if asked.prefill_batch < 0:
        raise InputError(
            f"prefill batch is {asked.prefill_batch}",
            hint="give 1 prompt or more, or 0 for the default",
        )
    several = asked.decode_gpu is not None or asked.decode_node is not None
    if asked.usd_per_hour is not None and several:
        raise InputError(
            "one price for two kinds of device",
            hint="leave --price out, or state the price in a YAML file of the GPU",
        )
    device, box = setting.machine_of(asked.gpu, asked.node, asked.usd_per_hour)
    other, other_box = device, box
    if several:
        other, other_box = setting.machine_of(asked.decode_gpu, asked.decode_node, None)
    layouts = {"prefill": parse(asked.prefill), "decode": parse(asked.decode)}
    if asked.over == "link" and box is None and other_box is None and device.name == other.name:
        both = sum(int(layout.devices) for layout in layouts.values())
        box = other_box = hardware.default_node(device, asked.gpus or both)

    def instance(phase: str, on: Gpu, where: Node | None) -> Deployment:
        try:
            return setting.deployed_as(asked, network, on, where, layouts[phase], options=options)
        except RooflineError as error:
            message = f"{phase} pool: {error.message}"
            raise type(error)(message, hint=error.hint, where=error.where) from None

    priced = disaggregated(
        instance("prefill", device, box),
        instance("decode", other, other_box),
        Workload(asked.batch, asked.prompt, asked.output, prefix_hit=asked.prefix_hit),
        prefill_batch=asked.prefill_batch,
        gpus=asked.gpus,
        wires=asked.over,
        overlapped=asked.overlapped,
        utilization=asked.memory_utilization,
    )
    return result_of(priced)
