"""Attention instances for each pool of feed-forward parts, and micro-batches between them.

A micro-batch visits both pools once a layer. With times a and f of the pools and c, c' of the
transfers for all layers of one, m of them take

    max(a + c + f + c', m · max(a, c, f, c'))

for a step: the slowest resource sets the pace where enough take turns, else each waits for itself.
Both pools are always busy where a = f ≥ c and m ≥ 2·(1 + c / f); a transfer that takes less than
half as long is hidden by three.
Source: MegaScale-Infer, Zhu et al. 2025 (arXiv 2504.02263), ping-pong pipeline parallelism; cyclic
flow shop of equal jobs, `roofline.serving.stages.period`.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.ffn_pool import with_ffn_pool
from roofline.cost.layout import Layout
from roofline.cost.memory import MemoryBudget, budget
from roofline.errors import InputError, LayoutError, RooflineError
from roofline.records import replace
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.workload import Workload
from roofline.units import counted

MOST_TURNS: Final = 4
"""Micro-batches that are tried at most. [1]"""
WIDEST: Final = 4
"""Devices of the attention pool that are tried at most, over those of the other one. [1]"""
VISITS: Final = ("attention", "to FFN", "FFN", "from FFN")
"""Resources that a micro-batch visits in every layer, in order."""


class Ratio(Struct, frozen=True):
    """Instances of attention beside a pool of feed-forward parts, and what comes of them."""

    deployment: Deployment
    """Both pools."""
    batch: StaticBatch
    """The batch of both, without its operators."""
    ffn_memory: MemoryBudget
    """Memory of a device of the feed-forward pool."""

    @property
    def groups(self) -> int:
        """Instances of attention. [1]"""
        return int(self.deployment.layout.dp)

    @property
    def fits(self) -> bool:
        """True where devices of both pools have enough memory."""
        return self.batch.memory.fits and self.ffn_memory.fits

    @property
    def tok_s_per_gpu(self) -> float:
        """Tokens while decoding, for each device of both pools. [token/s]"""
        return self.batch.decode_tok_s / self.deployment.devices

    @property
    def binds(self) -> str:
        """One of `VISITS` that is always busy, or ``"latency"`` where none is."""
        stages = self.batch.decode_stages
        number, _ = self.batch.workload.turns(self.deployment)
        slowest = max(range(len(stages)), key=lambda place: stages[place])
        return VISITS[slowest] if number * stages[slowest] >= sum(stages) else "latency"


def ratio_of(deployment: Deployment, workload: Workload, utilization: float | None) -> Ratio:
    """Batch and memory of a deployment with a feed-forward pool."""
    batch = static_batch(deployment, workload, utilization=utilization, operators=False)
    return Ratio(deployment, batch, ffn_memory(deployment, workload, utilization))


def ffn_memory(
    deployment: Deployment, workload: Workload, utilization: float | None
) -> MemoryBudget:
    """Memory of a device of the feed-forward pool, which keeps no cache."""
    assert deployment.ffn is not None, "everything is in one pool"
    _, size = workload.turns(deployment)
    return budget(
        deployment.ffn.deployment,
        batch=1,
        context=workload.longest,
        step_tokens=float(size),
        step_rows=1.0,
        utilization=utilization,
        cached=False,
    )


def ratios(
    whole: Deployment,
    layout: Layout,
    workload: Workload,
    *,
    groups: int = 1,
    microbatches: int = 0,
    room: int | None = None,
    utilization: float | None = None,
    **pool: Any,
) -> list[Ratio]:
    """Numbers of attention instances and of micro-batches, those with most tokens a GPU first.

    Those that fit go before others; what is refused is left out.

    Args:
        whole: The network on an instance of attention.
        layout: Of the feed-forward pool.
        workload: The batch of all instances, and its lengths.
        groups: Instances of attention; 1 to try `numbers` of them. [1]
        microbatches: That take turns; 0 to try 1 to `MOST_TURNS`. [1]
        room: Devices of both pools that there are; None for no limit. [1]
        utilization: Share of device memory that the engine takes; None for its default. [1]
        pool: Node, calibration and interconnect, as of `with_ffn_pool`.

    Raises:
        RooflineError: None of them can be; that of the first one.
    """
    found, refused = [], []
    some = [groups]
    if groups == 1:
        some = numbers(whole.devices, int(layout.devices), room, workload.batch)
    turns = [microbatches] if microbatches else range(1, MOST_TURNS + 1)
    for number, each in product(some, turns):
        if each > workload.batch:
            continue
        try:
            both = with_ffn_pool(whole, number, layout, microbatches=each, **pool)
            found.append(ratio_of(both, workload, utilization))
        except RooflineError as error:
            refused.append(error)
    if refused and not found:
        raise refused[0]
    if not found:
        raise InputError(
            f"{counted(workload.batch, 'sequence')} in {microbatches} micro-batches",
            hint="give a larger `batch`, or fewer `microbatches`",
        )
    return sorted(found, key=lambda each: (not each.fits, -each.tok_s_per_gpu))


def attention_of(layout: Layout) -> tuple[Layout, int]:
    """Layout of one instance of attention, and how many there are by a layout of all of them.

    InputError where it has experts.
    """
    if layout.ep > 1:
        raise InputError(
            "experts of attention instances whose feed-forward parts have a pool of their own",
            hint="say `ep` in `ffn`",
        )
    return replace(layout, dp=1), int(layout.dp)


def numbers(devices: int, ffn_devices: int, room: int | None, batch: int) -> list[int]:
    """Numbers of attention instances to try: powers of two and halfway between them. [1]

    Args:
        devices, ffn_devices: Devices of an attention instance, and of the feed-forward pool. [1]
        room: Devices of both pools that there are; None for no limit. [1]
        batch: Sequences; an instance has at least one. [1]

    Raises:
        LayoutError: They do not hold one instance beside that pool.

    Examples:
        >>> numbers(2, 4, None, 64)
        [1, 2, 3, 4, 6, 8]
    """
    most = WIDEST * ffn_devices // devices or 1
    if room is not None:
        most = min(most, (room - ffn_devices) // devices)
    if most < 1:
        raise LayoutError(
            f"{room} GPUs do not hold an attention instance of {devices} beside a feed-forward "
            f"pool of {ffn_devices}",
            hint="give more `gpus`, or smaller layouts",
        )
    return list(_halfway(min(most, batch)))


def _halfway(most: int) -> Iterator[int]:
    power = 1
    while power <= most:
        yield power
        if power > 1 and power * 3 // 2 <= most:
            yield power * 3 // 2
        power *= 2
