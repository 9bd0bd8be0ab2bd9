"""Bounds of a static batch, and the changes that would help most, each of them priced."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import isclose
from typing import Final

from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.errors import RooflineError
from roofline.hardware.links import host_link
from roofline.model import precision
from roofline.records import replace
from roofline.serving import room
from roofline.serving.stages import GridStep, ask_together, remembering
from roofline.serving.static import BatchSteps, OpTime, StaticBatch, phases, priced
from roofline.serving.workload import Workload
from roofline.units import show_binary

PARTS: Final = ("arithmetic", "weights", "KV cache", "activations", "wires", "host", "engine")
"""Parts of the time of a step."""
ELSEWHERE: Final = {"wire": "wires", "host": "host", "engine": "engine"}
"""Part for each limit of an operator that is neither arithmetic nor device memory."""
SHOWN: Final = {"wires": "interconnect", "engine": "the engine"}
"""Parts by their name in a sentence, where it differs."""


class AdvisedChange(Struct, frozen=True):
    """One change and what it does, as factors on the figures of the original."""

    name: str
    """Change in words: ``"fp8 weights"``."""
    option: str
    """Option of the command line; empty for a change of hardware."""
    ttft: float
    tpot: float
    throughput: float
    """New over old; throughput is that of each GPU. [1]"""
    fits: bool
    """Whether it fits in memory."""


def changes(batch: StaticBatch, beside: Sequence[GridStep] = ()) -> tuple[AdvisedChange, ...]:
    """Price each change that applies; those that cannot be asked for are left out.

    Kernels of the steps ``beside`` are looked up with those of the changes.
    """
    made: list[tuple[str, str, BatchSteps]] = []
    for name, option, changed, workload in _candidates(batch):
        with suppress(RooflineError):
            deployment = changed
            if changed.offload.least:
                deployment = room.enough(changed, workload, batch.utilization)
            made.append((name, option, phases(remembering(deployment), workload)))
    ask_together([*beside, *(step for *_, each in made for step in each.steps)])
    out = []
    for name, option, each in made:
        with suppress(RooflineError):
            other = priced(each, utilization=batch.utilization, operators=False)
            out.append(
                AdvisedChange(
                    name,
                    option,
                    ttft=other.ttft_s / batch.ttft_s,
                    tpot=other.tpot_s / batch.tpot_s if batch.tpot_s else 1.0,
                    throughput=(other.throughput_tok_s / other.devices)
                    / (batch.throughput_tok_s / batch.devices),
                    fits=other.memory.fits,
                )
            )
    return tuple(out)


def _candidates(batch: StaticBatch) -> Iterator[tuple[str, str, Deployment, Workload]]:
    deployment, workload = batch.deployment, batch.workload
    gpu, formats = deployment.node.gpu, deployment.precision
    integers = deployment.engine.integers
    for name in ("fp8", "int4"):
        if precision.named(name).bits < formats.weights.bits:
            network = deployment.architecture.stored_as(name)
            also = network.formats
            changed = precision.resolve(name, formats.kv.name, gpu, also=also, integers=integers)
            requantised = replace(deployment, architecture=network, precision=changed)
            yield f"{name} weights", f"`weights={name}`", requantised, workload
    if formats.kv.bits > 8 and workload.kv_cache:
        also = deployment.architecture.formats
        changed = precision.resolve(formats.weights.name, "fp8", gpu, also=also, integers=integers)
        yield "fp8 KV cache", "`kv=fp8`", replace(deployment, precision=changed), workload
    with suppress(RooflineError):
        twice = replace(workload, batch=2 * workload.batch)
        yield "twice the batch", f"`batch={twice.batch}`", deployment, twice
    tp = 2 * int(deployment.tp)
    if 2 * deployment.devices <= deployment.node.gpus and deployment.node.link is not None:
        with suppress(RooflineError):
            wider = replace(deployment, layout=replace(deployment.layout, tp=tp))
            yield f"{wider.devices} GPUs", _asked(wider.layout), wider, workload
    faster = replace(gpu, hbm_bytes_per_s=2 * gpu.hbm_bytes_per_s)
    node = replace(deployment.node, gpu=faster)
    yield "twice the memory bandwidth", "", replace(deployment, node=node), workload
    if batch.devices > 1:
        own = deployment.node
        faster_link, faster_network = (
            wire and replace(wire, bytes_per_s=2 * wire.bytes_per_s)
            for wire in (own.link, own.network)
        )
        faster_node = replace(own, link=faster_link, network=faster_network)
        faster_links = replace(deployment, node=faster_node)
        yield "twice the rate of the interconnect", "", faster_links, workload
    rates = {name: 2 * rate for name, rate in gpu.flops_per_s.items()}
    node = replace(deployment.node, gpu=replace(gpu, flops_per_s=rates))
    yield "twice the arithmetic", "", replace(deployment, node=node), workload


def shares(ops: dict[str, OpTime]) -> dict[str, float]:
    """Share of a step's time by what binds it: arithmetic, what is moved, interconnect, software.

    The time of an operator that is bound by memory is divided by what it moves.
    """
    out = dict.fromkeys(PARTS, 0.0)
    for entry in ops.values():
        work = entry.op.work
        if entry.bound == "compute":
            out["arithmetic"] += entry.seconds
        elif entry.bound in ELSEWHERE:
            out[ELSEWHERE[entry.bound]] += entry.seconds
        elif moved := float(work.hbm_bytes):
            out["weights"] += entry.seconds * float(work.weight_bytes) / moved
            out["KV cache"] += entry.seconds * float(work.kv_bytes) / moved
            out["activations"] += entry.seconds * float(work.activation_bytes) / moved
    total = sum(out.values())
    loading = sum(entry.host for entry in ops.values())
    if loading and isclose(loading, total):  # all else is done before it is
        return {**dict.fromkeys(PARTS, 0.0), "host": 1.0}
    return {name: value / total for name, value in out.items()} if total else out


def sentences(
    batch: StaticBatch, changed: tuple[AdvisedChange, ...], most: int, reason: str = ""
) -> tuple[str, ...]:
    """Summary: whether it fits, what binds, what would help most.

    First comes the reason why a layout was chosen; ``most`` is the largest batch that fits. [1]
    """
    out = [*([reason] if reason else []), _memory_sentence(batch, most)]
    for phase, ops in (("Prefill", batch.prefill), ("Decode", batch.decode)):
        if ops:
            out.append(f"{phase} is bound by {listed(shares(ops))}.")
    askable = [change for change in changed if change.option and change.fits]
    if batch.decode and askable:
        best = min(askable, key=lambda change: change.tpot)
        if best.tpot < 0.995:
            out.append(
                f"For speed per user, {best.name} would help most: TPOT × {best.tpot:.2f}"
                f" ({best.option})."
            )
    if askable:
        best = max(askable, key=lambda change: change.throughput)
        if best.throughput > 1.005:
            out.append(
                f"For throughput per GPU, {best.name} would help most: × {best.throughput:.2f}, "
                f"TPOT × {best.tpot:.2f} ({best.option})."
            )
    return tuple(out)


def listed(parts: dict[str, float]) -> str:
    """Largest parts of a step's time, in words."""
    largest = sorted(parts.items(), key=lambda item: -item[1])
    name, share = largest[0]
    lead = {
        "arithmetic": "arithmetic",
        "wires": "the interconnect between devices",
        "host": "the host: loads or launches",
        "engine": "the engine's own work: scheduling, sampling, launches",
    }.get(name, f"memory: reading {name}" if name != "activations" else "memory: activations")
    others = [
        f"{SHOWN.get(other, other)} {part:.0%}" for other, part in largest[1:3] if part >= 0.05
    ]
    return f"{lead} ({share:.0%} of its time{''.join(f', {other}' for other in others)})"


def _memory_sentence(batch: StaticBatch, most: int) -> str:
    deployment, memory, work = batch.deployment, batch.memory, batch.workload
    where = "the device" if batch.devices == 1 else f"each of {batch.devices} devices"
    if memory.fits:
        what = "sequences" if batch.sequences == work.batch else "prompts with their answers"
        return (
            f"Fits on {where} with {show_binary(memory.free)} to spare; "
            f"up to {most:,} {what} of this length fit."
        )
    short = f"Does not fit: {show_binary(-memory.free)} too much on {where}."
    if memory.adapters and (kept := room.most_adapters(deployment, memory)):
        return f"{short} It fits with {kept:,} of the adapters on each (`max_loras={kept}`)."
    if most:
        return f"{short} A batch of {most:,} fits."
    if wider := room.fewest_devices(deployment, work, batch.utilization):
        return f"{short} It fits on {wider.devices:g} ({_asked(wider)}){_or_on_the_host(batch)}."
    if deployment.node.network is not None:
        more = "Give more devices (`gpus=N` `layout=auto`) or a smaller format"
    else:
        more = "Nothing on this node fits: use larger devices or a smaller format"
    return f"{short} {more}{_or_on_the_host(batch)}."


def _asked(layout: Layout) -> str:
    """Options for a layout on as many devices as it takes."""
    devices = int(layout.devices)
    if layout == Layout(tp=devices):
        return f"`gpus={devices}` `tp={devices}`"
    return f"`gpus={devices}` `layout={layout.spelled}`"


def _or_on_the_host(batch: StaticBatch) -> str:
    """Hint that it would fit with part of the weights on the host; empty where it would not."""
    deployment = batch.deployment
    if deployment.offload.any or host_link(deployment.node.gpu) is None:
        return ""
    with suppress(RooflineError):
        room.enough(deployment, batch.workload, batch.utilization)
        return ", or with part of the weights on the host (`offload_weights=auto`)"
    return ""
