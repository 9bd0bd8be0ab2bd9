"""Notes on a layout: copies, load balance, pipelines, offloading."""

from bisect import bisect
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.expert_parallel import busiest, held_experts
from roofline.serving.room import host_memory, largest_batch, on_a_host
from roofline.serving.stages import slowest_number, through
from roofline.serving.static import StaticBatch
from roofline.serving.workload import MOST_SEQUENCES, Workload
from roofline.units import counted, show, show_binary


def notes(batch: StaticBatch, replicas: int) -> Iterator[str]:
    """Sentences about many devices and about what is kept outside them."""
    deployment = batch.deployment
    node, layout = deployment.node, deployment.layout
    if batch.devices > node.gpus:
        across = -(-batch.devices // node.gpus)
        yield f"{layout} lies on {across} nodes: {node.title}."
    if batch.devices > 1:
        yield from _shared(batch)
        yield from _wires(batch)
    if layout.pp > 1:
        turns, size = batch.workload.turns(batch.deployment)
        slow = slowest_number(batch.decode_stages or batch.prefill_stages)
        yield (
            f"{layout.pp} stages work on {counted(turns, 'micro-batch')} of {size} in "
            f"turn, and on prompts {batch.workload.together} at a time; operators are those of the "
            "slowest stage, "
            f"{slow + 1} of {layout.pp}, on one micro-batch."
        )
    if deployment.offload.any:
        yield from _outside(batch, replicas)


def _shared(batch: StaticBatch) -> Iterator[str]:
    """Notes on parts that several devices hold or share, and on the busiest of them."""
    deployment, work = batch.deployment, batch.workload
    layout, network = deployment.layout, deployment.architecture
    tp = int(layout.tp)
    heads = {block.mixer.repeatable_heads for block in network.kinds if block.mixer} - {0}
    if few := [number for number in sorted(heads) if number < tp]:
        yield f"{few[0]} key/value heads are repeated on {tp} devices: {tp // few[0]} copies."
    if tp > 1 and network.latent_forms:
        yield f"Each of {tp} devices keeps the whole latent cache of its sequences."
    if tp > 1 and network.vocab % tp:
        yield f"The vocabulary of {network.vocab:,} rows is padded to a multiple of {tp}."
    if layout.dp > 1:
        most = -(-work.batch // int(layout.dp))
        yield (
            f"Sequences are divided over {layout.dp:g} groups of attention, {most} in the fullest; "
            "dense parts are whole in each group."
        )
    if layout.cp > 1:
        how = "go around a ring" if deployment.options.ring_attention else "are gathered"
        yield (
            f"{layout.cp:g} devices share each context: keys and values {how} in prefill, "
            "outputs are added up in decode; weights are on each."
        )
    if layout.ep > 1 and network.mixtures:
        part = network.mixtures[0]
        _, size = work.turns(deployment)
        rows = float(busiest(float(size), part, layout.ep, deployment.options.routing)[0])
        even = size * part.active / float(layout.ep)
        yield (
            f"The busiest of {layout.ep:g} groups of experts has {rows:,.3g} rows in a decode "
            f"step, {rows / even:.2f} times its share; it sets the pace."
        )
        routing = deployment.options.routing
        if routing.redundant:
            without = replace(routing, redundant=0)
            before = float(busiest(float(size), part, layout.ep, without)[0])
            more = held_experts(part.experts, layout.ep, routing)
            more -= held_experts(part.experts, layout.ep)
            yield (
                f"{routing.redundant} redundant experts, {more:g} more on each group, take it "
                f"there from {before / even:.2f} times, placed by the loads of these very steps."
            )
        if (part.experts + routing.redundant) % layout.ep:
            padded = f"{part.experts + routing.redundant} experts do not divide by {layout.ep:g}"
            yield f"{padded}: the last group is filled up."


def _wires(batch: StaticBatch) -> Iterator[str]:
    """Notes on overlap and assumptions of the interconnect."""
    deployment = batch.deployment
    link, overlap = deployment.node.link, deployment.options.overlap
    if overlap:
        yield (
            f"{overlap:.0%} of the time of wires is taken to be hidden behind other operators; the "
            "second figure hides nothing."
        )
    known = deployment.node.facts.get("link.latency")
    if link is not None and link.latency_s and known is not None and known.basis == "assumed":
        peers = "which is"
        peer = deployment.node.facts.get("link.peer")
        if link.per_peer_s and peer is not None:
            further = show(link.per_peer_s, "s")
            both = "both" if peer.basis == "assumed" else "the first of them"
            peers = f"and {further} for each further peer that a device addresses in it, {both}"
        yield (
            f"A round of messages between devices is taken to cost {show(link.latency_s, 's')}, "
            f"{peers} assumed; each collective uses the algorithm that takes least time."
        )


def _outside(batch: StaticBatch, replicas: int) -> Iterator[str]:
    """Notes on parts on the host, its room for them, and the batch that hides loading."""
    deployment, held = batch.deployment, batch.memory
    offload = deployment.offload
    where = "the host's memory" if offload.to == "cpu" else "storage"
    shares = [
        f"{share:.0%} of {name}"
        for name, share in (("the layers", offload.weights), ("the cache", offload.kv))
        if share
    ]
    total = on_a_host(deployment, held, replicas)
    text = f"{' and '.join(shares)}, {show_binary(held.host)} of each device, is kept in {where}"
    room = host_memory(deployment)
    if room is None:
        yield f"{text}; no file says how much that holds."
    else:
        verdict = "which holds" if total <= room else "which is too small with"
        yield f"{text}, {verdict} {show_binary(room)} ({show_binary(total)} asked of a node)."
    if offload.weights and offload.prefetch and batch.workload.output > 1:
        hides = hiding_batch(deployment, batch.workload)
        most = largest_batch(deployment, batch.workload, batch.utilization)
        fits = f"; {most:,} {'fits' if most == 1 else 'fit'}" if most < hides else ""
        yield (
            f"Loading hides behind the rest of a decode step from a batch of {hides:,} on{fits}."
            if hides
            else "No batch makes a decode step long enough to hide the loading."
        )
    how = "loaded while the one before computes" if offload.prefetch else "loaded when it is needed"
    yield f"The next layer is {how}."
    if offload.weights and deployment.architecture.mixtures:
        yield "Experts are loaded as far as tokens of the step touch them, once they are chosen."


def hiding_batch(deployment: Deployment, workload: Workload) -> int:
    """Smallest batch whose decode step is long enough to hide what is loaded.

    At the middle of the answer; 0 where none does. [1]
    """
    context = np.asarray((workload.prompt + 1 + workload.longest) / 2)

    def hidden(batch: int) -> bool:
        _, size = replace(workload, batch=batch, prefill_batch=0).turns(deployment)
        stages = through(deployment, workload.decode(context, float(size)))
        return all(
            float(stage.parts.host) <= float(stage.parts.local) + float(stage.parts.wire)
            for stage in stages
        )

    powers = (2**power for power in range(MOST_SEQUENCES.bit_length()))
    high = next((batch for batch in powers if hidden(batch)), 0)
    between = range(high // 2 + 1, high)
    return between.start + bisect(between, False, key=hidden) if high else 0
