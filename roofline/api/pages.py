"""Number of sequences that fit, by how their caches are given room."""

from roofline.api import setting
from roofline.api.parameters import Paging, shared
from roofline.api.question import question
from roofline.serving.paged import paged
from roofline.serving.paged_result import result_of
from roofline.serving.workload import Workload
from roofline.table import Result


@question(Paging)
def paging(asked: Paging) -> Result:
    """Say how many sequences fit with caches reserved whole, in pages, and in shared pages.

    Returns:
        Result: Tables ``headline`` and ``schemes``; derivations by scheme.
    """
    network = setting.network_of(asked.model)
    setting.check_share(asked.memory_utilization)
    setting.check_gpus(asked.gpus)
    device, box = setting.machine_of(asked.gpu, asked.node, None)
    layout = setting.one_replica(asked.gpus, asked.layout)
    return result_of(
        paged(
            setting.deployed_as(asked, network, device, box, layout),
            Workload(**shared(asked, Workload)),
            samples=asked.samples,
            page=asked.page,
            reserved=asked.reserved,
            utilization=asked.memory_utilization,
        )
    )
