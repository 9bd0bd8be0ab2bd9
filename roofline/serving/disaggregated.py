"""Prefill and decode on pools of their own, each with its layout, and the cache handed over.

Clients are answered by the decode instance, so TTFT has the transfer and a decode step in it.

Source: DistServe, Zhong et al. 2024 (arXiv 2401.09670); Splitwise, Patel et al. 2024
(arXiv 2311.18677).
"""

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.memory import MemoryBudget, budget
from roofline.cost.textbook.parallelism import kv_transfer_rate
from roofline.errors import InputError, LayoutError
from roofline.records import replace
from roofline.serving.ffn_pools import Ratio, ffn_memory
from roofline.serving.kv_transfer import KvTransfer, Wires, transfer
from roofline.serving.pools import PoolSplit, PoolTimes, divide
from roofline.serving.price import usd_per_mtok
from roofline.serving.room import memory_of
from roofline.serving.stages import fill, pace, price_step
from roofline.serving.static import CENTRAL, StaticBatch, static_batch
from roofline.serving.workload import Workload, check_decodes
from roofline.units import MILLION

UNFITTED: Final = 2.3
"""Factor on the spread of closed loops where no row of that kind was fitted to. Four fifths of the
measured rows of two pools are within 2.3 times that spread in TPOT and 2.1 in TTFT (118 rows; 1.2
in latency and throughput), of drafts within 1.9 in TPOT, of MLPerf within 1.1 to 2.0 in throughput.
[1]
"""


class PoolPair(Struct, frozen=True):
    """Two pools and what comes of them. Times at datasheet rates are the least there can be."""

    prefill: StaticBatch
    """A prefill instance: a step of its prompts, which answers with one token."""
    decode: StaticBatch
    """A decode instance's batch. With its own prefill it is what the decode layout does alone."""
    transfer: KvTransfer
    """Hand-over of the cache."""
    overlapped: bool
    """Whether layers are sent as they are computed."""
    overlap: PoolTimes
    serial: PoolTimes
    """Times as predicted, at datasheet rates with perfect overlap; and without any."""
    split: PoolSplit
    """Instances of each kind."""
    gpus: int
    """Devices that were given; those of the split where none were. [1]"""
    prefill_memory: MemoryBudget
    decode_memory: MemoryBudget
    """Memory of a device of each pool."""
    in_flight: int
    arriving: int
    """Prompts that a prefill instance holds until their cache is sent, and caches on their way
    to a decode instance. [1]"""
    ffn_memory: MemoryBudget | None = None
    """Memory of a device of the feed-forward pool of a decode instance, where it has one."""
    ratios: tuple[Ratio, ...] = ()
    """Numbers of attention instances beside that pool that were compared."""
    fast: PoolTimes | None = None
    slow: PoolTimes | None = None
    """Times at either end of the central 80 %, errors of both pools taken to go together; None at
    datasheet rates."""

    @property
    def used(self) -> int:
        """Devices of all instances. [1]"""
        return self.split.prefill * self.prefill.devices + self.split.decode * self.decode.devices

    @property
    def fits(self) -> bool:
        """Whether all pools have enough memory."""
        held = (self.prefill_memory, self.decode_memory, self.ffn_memory)
        return all(memory.fits for memory in held if memory is not None)

    def tok_s(self, phases: PoolTimes) -> float:
        """Output tokens, first ones included. [token/s]"""
        return self.split.requests_per_s(phases) * phases.output

    def wire_bytes_per_s(self, phases: PoolTimes) -> tuple[float, float]:
        """Rate of caches that is needed, and that the slower ends' wires give. [B/s]"""
        demand = self.split.demand(phases)
        needed = float(kv_transfer_rate(self.transfer.prompt_bytes, demand))
        share = self.split.utilisation(phases)
        return needed, needed / share if share else math.inf

    @property
    def usd_per_hour(self) -> float:
        """Price of the devices in use; 0 where one kind has none. [$/h]"""
        counts = (self.split.prefill, self.split.decode)
        pools = tuple(zip(counts, (self.prefill, self.decode), strict=True))
        prices = [n * batch.deployment.usd_per_hour for n, batch in pools]
        return sum(prices) if all(prices) else 0.0

    @property
    def watts(self) -> float:
        """Board power of the devices in use. [W]"""
        return sum(
            n * batch.deployment.watts
            for n, batch in ((self.split.prefill, self.prefill), (self.split.decode, self.decode))
        )

    def usd_per_mtok(self, phases: PoolTimes) -> float:
        """Price of a million output tokens. [$]"""
        return usd_per_mtok(self.usd_per_hour, 1.0, self.tok_s(phases))

    def joule_per_mtok(self, phases: PoolTimes) -> float:
        """Energy of a million output tokens at board power. [J]"""
        return self.watts / self.tok_s(phases) * MILLION


def disaggregated(
    prefill: Deployment,
    decode: Deployment,
    workload: Workload,
    *,
    prefill_batch: int = 0,
    gpus: int | None = None,
    wires: Wires = "network",
    overlapped: bool = False,
    utilization: float | None = None,
    ratios: Sequence[Ratio] = (),
) -> PoolPair:
    """Price prefill and decode pools.

    Args:
        prefill, decode: An instance of each kind, with its own layout and devices.
        workload: Lengths, and the batch of a decode instance.
        prefill_batch: Prompts in a step of a prefill instance; 0 for one in each of its groups that
            have sequences of their own. [1]
        gpus: Devices in all; None for the fewest instances near the ratio that balances, or for
            those of the node where both pools are in one. [1]
        wires: What the cache goes over: ``"network"``, or ``"link"`` inside one node.
        overlapped: Whether layers are sent as they are computed; the bound without overlap never
            does.
        utilization: Share of device memory the engine takes; None for its default. [1]
        ratios: Attention instances that were compared, where decode has a feed-forward pool.

    Raises:
        InputError, LayoutError: Nothing to decode, too few devices, no wires between the pools.
    """
    _check(prefill, decode, workload)
    together = prefill_batch or int(prefill.layout.dp)
    alone = replace(workload, batch=together, output=1, prefill_batch=0)
    first = static_batch(prefill, alone, utilization=utilization)
    own = min(prefill_batch or int(decode.layout.dp), workload.batch)
    rest = static_batch(decode, replace(workload, prefill_batch=own), utilization=utilization)
    handed = transfer(prefill, decode, workload.prompt, first.workload.together, wires)
    overlap, serial = (_phases(first, rest, handed, overlapped, bound) for bound in (False, True))
    ends = [
        _phases(first, rest, handed.within(at), overlapped, at=UNFITTED * at)
        for at in (-CENTRAL, CENTRAL)
    ]
    fast, slow = ends if first.calibrated or rest.calibrated else (None, None)
    room = gpus or (prefill.node.gpus if wires == "link" else None)
    split = divide(overlap, first.devices, rest.devices, room)
    used = split.prefill * first.devices + split.decode * rest.devices
    node = prefill.node
    if wires == "link" and (decode.node.name != node.name or used > node.gpus):
        raise LayoutError(
            f"{used} GPUs in both pools are not in one node of {node.gpus} ({node.name})",
            hint="use `over=network`, smaller layouts or a larger node",
        )
    # A request holds no cache while it is with the front end.
    waiting = overlap.prefill_s - prefill.engine_costs.arrival_s + overlap.transfer_s
    in_flight = max(math.ceil(overlap.prompts_per_s * waiting), together)
    arriving = math.ceil(overlap.answers_per_s * (waiting if overlapped else overlap.transfer_s))
    return PoolPair(
        prefill=first,
        decode=rest,
        transfer=handed,
        overlapped=overlapped,
        overlap=overlap,
        serial=serial,
        split=split,
        gpus=gpus or used,
        prefill_memory=memory_of(
            prefill,
            replace(alone, batch=in_flight, prefill_batch=first.workload.together),
            utilization,
        ),
        decode_memory=budget(
            decode,
            batch=workload.batch + arriving,
            context=workload.longest,
            step_tokens=workload.batch,
            step_rows=workload.batch,
            utilization=utilization,
        ),
        in_flight=in_flight,
        arriving=arriving,
        ffn_memory=None if decode.ffn is None else ffn_memory(decode, workload, utilization),
        ratios=tuple(ratios),
        fast=fast,
        slow=slow,
    )


def _phases(
    first: StaticBatch,
    rest: StaticBatch,
    handed: KvTransfer,
    overlapped: bool,
    serial: bool = False,
    at: float = 0.0,
) -> PoolTimes:
    """Times of both pools, so many standard deviations of their logarithms from the median.

    Requests arrive at the prefill pool, once: its time has the front end, decode steps do not.
    """
    longer, slower = math.exp(at * first.ttft_log_sd), math.exp(at * rest.tpot_log_sd)
    work, output = first.workload, rest.workload.output
    priced = price_step(first.deployment, work.prefill(float(work.together)))
    costs = first.deployment.engine_costs
    stages = [
        float(costs.prefill_kernels(float(stage.seconds(serial)), len(priced))) * longer
        for stage in priced
    ]
    # A step of the engine for each of the stream's, and one request after the other in front of it.
    step = float(pace(stages)) + costs.prefill_step_s * longer
    each_s = max(step / work.together, costs.serial_s * longer)
    wait = handed.seconds
    if overlapped and not serial:
        wait = handed.exposed(float(fill(stages)) / len(stages))
    step_s = (rest.tpot_serial_s if serial else rest.tpot_s) * slower
    return PoolTimes(
        output=output,
        prefill_s=(first.ttft_serial_s if serial else first.ttft_s) * longer,
        transfer_s=wait,
        step_s=step_s,
        prompt_s=each_s,
        answer_s=step_s * (output - 1) / rest.workload.batch,
        send_s=handed.send.cache_s,
        receive_s=handed.receive.cache_s,
    )


def _check(prefill: Deployment, decode: Deployment, workload: Workload) -> None:
    check_decodes(prefill.architecture)
    if workload.output < 2:
        raise InputError(
            "an answer of one token is made by the prefill, nothing is decoded",
            hint="give `output` 2 or more",
        )
    if prefill.precision.kv.name != decode.precision.kv.name:
        raise InputError(
            f"prefill keeps its cache in {prefill.precision.kv.name}, decode reads "
            f"{decode.precision.kv.name}",
            hint=f"give one format for both, like `kv={prefill.precision.kv.name}`",
        )
