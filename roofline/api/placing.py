"""How a network can be laid out on a number of GPUs."""

from roofline.api import setting
from roofline.api.parameters import Layouts, shared
from roofline.api.question import question
from roofline.serving.asking import check_parts, one_of
from roofline.serving.workload import Workload
from roofline.study import layout_tables
from roofline.table import Result


@question(Layouts)
def layouts(asked: Layouts) -> Result:
    """Price every layout of a network on a number of GPUs, best first.

    Returns:
        Result: Tables ``layouts`` (those that fit first, best first) and ``best`` (one for each
            objective, with the reason).
    """
    one_of("rank", asked.rank, ("steady", "static"))
    setting.check_gpus(asked.gpus)
    setting.check_share(asked.memory_utilization)
    network = setting.network_of(asked.model)
    check_parts(network, asked.mla, asked.routing)
    device, box = setting.machine_of(asked.gpu, asked.node, asked.usd_per_hour)
    base = setting.deployed_as(asked, network, device, box or setting.roomiest(device, asked.gpus))
    work = shared(asked, Workload)
    if network.is_encoder:
        work["output"] = 1
    return layout_tables.layouts(
        base, Workload(**work), asked.gpus, asked.objective, asked.memory_utilization, asked.rank
    )
