"""Notes on the figures of a static batch and on its layout, one sentence each."""

from bisect import bisect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.expert_parallel import busiest, held_experts
from roofline.cost.layout import pipeline
from roofline.cost.memory import kv_bytes_per_sequence
from roofline.cost.moe import touched
from roofline.cost.sampling import LIKELIEST, Sampling
from roofline.records import replace
from roofline.serving.room import host_memory, largest_batch, on_a_host
from roofline.serving.stages import price_step, remembering, slowest_number
from roofline.serving.static import BatchSteps, StaticBatch, phases, priced
from roofline.serving.workload import MOST_SEQUENCES, Workload
from roofline.units import counted, show, show_binary

if TYPE_CHECKING:
    from roofline.cost.calibration.kernel import FitLabel
    from roofline.serving.steady import SteadyState

FORMS: Final = ("expanded", "absorbed")
DATASHEET: Final = (
    "Times are the datasheet roofline: the least the hardware allows, not a forecast; real kernels "
    "take longer. The second figure is the sum without overlap at the same rates."
)


def notes(
    batch: StaticBatch, replicas: int, forms: Mapping[str, BatchSteps] | None = None
) -> tuple[str, ...]:
    """Basis of the times; conventions, omissions and choices behind the figures."""
    return (*_grounds(batch), *conventions(batch, replicas, forms))


def steady_notes(
    batch: StaticBatch, steady: "SteadyState | None", reason: str = ""
) -> tuple[str, ...]:
    """Notes on the steady state and what waves of equal lengths do to it; or why there is none."""
    from roofline.serving.steady import SPREAD

    if steady is None:
        reason = reason or "nothing decodes"
        return (f"No steady state: {reason}. Rates and price are those of the static batch.",)
    work = batch.workload
    out = [
        f"Steady: {work.batch:,} client{'s' * (work.batch != 1)} of each replica, each of which "
        f"sends the next prompt when it has its answer, lengths ±{SPREAD:.0%}; the closed form of "
        f"`roofline simulate --concurrency {work.batch} --length-spread {SPREAD:g}`."
    ]
    if steady.at_once < steady.clients:
        out.append(
            f"{steady.at_once:,} of the {steady.clients:,} sequences run at once, as far as "
            "memory and the engine's limit go; the others wait, and TTFT has their wait in it."
        )
    if work.batch > 1 and steady.tpot_s:
        often = f"{1.0 / steady.wave_chance:,.3g}"
        whole = steady.wave >= steady.at_once
        lone, all_s = show(steady.ttft_wave_s, "s"), show(steady.ttft_waves_s, "s")
        out.append(
            "Where all lengths are equal, as in fixed benchmarks, requests come in waves instead: "
            f"{steady.wave:,} prompt{'s' * (steady.wave != 1)} together in one step of {often}, "
            f"with a TTFT of {lone}"
            + (
                "."
                if whole
                else f", up to {all_s} as waves run together while requests are with the front end."
            )
        )
    return tuple(out)


def conventions(
    batch: StaticBatch, replicas: int, forms: Mapping[str, BatchSteps] | None = None
) -> tuple[str, ...]:
    """Conventions, omissions and choices behind the figures."""
    options, work = batch.deployment.options, batch.workload
    causal = options.mask == "causal" and batch.deployment.architecture.causal
    counted = "what a causal kernel does" if causal else "the whole T×S square"
    out = [f"Attention FLOPs count {counted}; the LM head runs for the last token of a prompt."]
    limit = batch.deployment.step_tokens
    if limit and work.together * (work.prompt - work.cached) > limit:
        step = "one step" if batch.deployment.layout.pp == 1 else "steps of whole prompts"
        out.append(
            f"Prefill of the static batch is priced as {step}; the memory of its activations is "
            f"that of the {limit / batch.deployment.layout.dp:,.0f}-token chunks "
            f"{batch.deployment.engine.title} cuts it into."
        )
    if batch.deployment.architecture.is_encoder:
        out.append(
            "An encoder computes its tokens once: there is no decode, and nothing is cached."
        )
    elif not batch.deployment.architecture.causal:
        out.append(
            "The network sees both ways: it fills answers in by denoising (`denoising_steps`); "
            "the decode step here is for comparison."
        )
    out += [*_decoding(batch), *layout_notes(batch, replicas)]
    if replicas > 1:
        out.append(f"{replicas} replicas serve {work.batch} sequences each.")
    attends = any(
        block.mixer is not None and not block.mixer.keeps_state
        for block in batch.deployment.architecture.kinds
    )
    if not work.kv_cache and attends:
        out.append("Without a KV cache every token computes its whole context again: cubic.")
    if batch.deployment.naive:
        out.append("Naive attention writes and reads the T×S scores in device memory.")
    out += _kinds(batch, latent_forms(batch) if forms is None else forms)
    if not batch.deployment.node.gpu.usd_per_hour:
        out.append("No price is assumed for this device: give one with `usd_per_hour`.")
    return tuple(out)


def _decoding(batch: StaticBatch) -> list[str]:
    """Notes on how tokens are chosen, and on answers or beams that share a prompt."""
    deployment, work = batch.deployment, batch.workload
    sampling, out = deployment.options.sampling, []
    if sampling != LIKELIEST:
        method = "sorting" if deployment.engine.sampler == "sort" else "draws that are rejected"
        by = f", top-k and top-p by {method}" * sampling.cuts
        out.append(
            "Greedy choice, which benchmarks of engines ask for, is in the row engine; operators "
            f"called sampling are what another choice adds to it, on the device{by}."
            if deployment.engine_costs.step_s
            else f"Tokens are chosen on the device by the operators called sampling{by}."
        )
    if batch.sequences > work.batch:
        each = batch.sequences // work.batch
        what = "beams, which are one answer," if sampling.beams > 1 else "answers"
        out.append(
            f"{each} {what} decode for each of {work.batch:,} prompts: {batch.sequences:,} "
            "sequences. They share the prompt's prefill and whole pages, not its reads: each of "
            "them reads all of its cache."
        )
    return out + beam_notes(sampling)


def beam_notes(sampling: Sampling) -> list[str]:
    """Note on the ancestors of beams; nothing where there is one beam."""
    if sampling.beams == 1:
        return []
    return [
        "Each new beam is taken to come from any of the old ones alike; real ones descend from "
        "fewer, so that they hold less and copy more. A page is copied where two beams would "
        "write to it."
    ]


def _grounds(batch: StaticBatch) -> list[str]:
    """Basis of the times: the datasheet, or measured kernels by name."""
    if batch.deployment.calibration is None:
        return [DATASHEET]
    entries = [*batch.prefill.values(), *batch.decode.values()]
    told = [entry.measured.found for entry in entries if entry.measured is not None]
    fits = {(each.fit.label, each.foreign, each.borrowed) for each in told if each is not None}
    own = sorted({label.device for label, foreign, _ in fits if not foreign})
    others = sorted({label.device for label, foreign, _ in fits if foreign})
    places = own + [f"{device}, carried over by published rates" for device in others]
    out = [
        f"Operators are priced by fits to kernels measured on {' and '.join(places)}; intervals "
        "are the central 80 % on shapes that the fits did not see, and roof is the least that "
        "published rates allow over the time."
    ] * bool(places)
    used = {label for label, _, _ in fits}
    if own_runs := sorted({label.mine for label in used if label.mine}):
        kernels = sorted({_told(label) for label in used if label.mine})
        rest = sorted({f"{label.kind} {label.variant}" for label in used if not label.mine})
        shipped = f"; shipped with this program: {', '.join(rest)}" if rest else ""
        mine = f"{' and '.join(own_runs)}: {', '.join(kernels)}{shipped}"
        out.append(f"By your own calibration {mine}.")
    local = [entry for entry in entries if entry.measured and entry.op.kind != "collective"]
    if any(0.0 < entry.seconds < entry.roof for entry in local):
        out.append(
            "A roof above 100 % counts all activations from device memory; some stay in the "
            "last-level cache."
        )
    costs, title = batch.deployment.engine_costs, batch.deployment.engine.title
    if costs.step_s:
        out.append(
            f"The row engine is what {title} does between kernels (scheduling, sampling, "
            "launches), and TTFT has its front end in it, "
            f"{show(costs.arrival_s, 's')} for a request: both are fitted to serving that was "
            "measured end to end. `engine=ideal` leaves them out."
        )
    borrowed = sorted(
        {f"{label.kind} of {label.provider}" for label, _, borrowed in fits if borrowed}
    )
    if borrowed:
        out.append(
            f"Some kernels of {title} were not measured, or not as a step runs them, and others "
            f"stand in, with a wider interval: {', '.join(borrowed)}."
        )
    reasons = sorted({e.measured.assumed for e in entries if e.measured and e.measured.assumed})
    out += [f"{reason[0].upper()}{reason[1:]}." for reason in reasons]
    bare = sorted({entry.op.name for entry in entries if entry.measured is None})
    if bare:
        out.append(f"At datasheet rates, since nothing like it was measured: {', '.join(bare)}.")
    return out


def _told(label: "FitLabel") -> str:
    """Kernel of the user's own: of attention, whose it is."""
    whose = f" of {label.provider}" if label.kind == "prefill-attention" else ""
    return f"{label.kind} {label.variant}{whose}"


def _kinds(batch: StaticBatch, forms: Mapping[str, BatchSteps]) -> list[str]:
    """Notes on experts, latent attention and caches of several page tables."""
    deployment, work = batch.deployment, batch.workload
    out = []
    mixtures = deployment.architecture.mixtures
    if mixtures:
        part, routing = mixtures[0], deployment.options.routing
        spread = "uniform routing"
        if routing.loads or routing.skew:
            spread = "the loads given" if routing.loads else f"power-law routing {routing.skew:g}"
        _, size = work.turns(deployment)
        met = float(touched(float(size), part.experts, part.active, routing))
        out.append(
            f"A decode step of {size} token{'s' * (size != 1)} touches {met:.3g} of "
            f"{part.experts} experts under {spread}; their weights are read, "
            f"not those of {part.active} a token."
        )
    if forms:
        out.append(_latent(batch, forms))
    layout = deployment.layout
    stage = pipeline(deployment.architecture, layout, deployment.node)[batch.memory.stage]
    mine, longest = -(-work.batch // int(layout.dp)), float(work.longest)
    held = float(
        mine * kv_bytes_per_sequence(deployment, longest, one_page_table=True, stage=stage)
    )
    alone = batch.sequences == work.batch and not deployment.offload.kv
    if work.kv_cache and held > batch.memory.kv and alone:
        out.append(
            f"The cache is {show_binary(batch.memory.kv)} by formula; an engine with one table of "
            f"pages for all layers holds {show_binary(held)}."
        )
    return out


def latent_forms(batch: StaticBatch) -> dict[str, BatchSteps]:
    """Steps of the batch by each form of latent attention; none without such layers."""
    deployment, options = remembering(batch.deployment), batch.deployment.options
    if not deployment.architecture.latent_forms:
        return {}
    return {
        form: phases(replace(deployment, options=replace(options, mla=form)), batch.workload)
        for form in FORMS
    }


def _latent(batch: StaticBatch, forms: Mapping[str, BatchSteps]) -> str:
    """Times of latent attention in each of its forms, and the one in use."""
    taken = {form: priced(steps, operators=False) for form, steps in forms.items()}
    told = []
    for phase, ops, attribute in (
        ("prefill", batch.prefill, "ttft_s"),
        ("decode", batch.decode, "tpot_s"),
    ):
        used = next((form for form in FORMS if f"attention-{form}" in ops), None)
        if used is not None:
            other = next(form for form in FORMS if form != used)
            times = (getattr(taken[form], attribute) for form in (used, other))
            mine, theirs = (show(seconds, "s") for seconds in times)
            told.append(f"{phase} runs {used} ({mine}; {other} {theirs})")
    return f"Latent attention: {', '.join(told)}; `mla` forces a form."


def layout_notes(batch: StaticBatch, replicas: int) -> Iterator[str]:
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
            f"{overlap:.0%} of the time of links is taken to be hidden behind other operators; the "
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
        stages = price_step(deployment, workload.decode(context, float(size)))
        return all(
            float(stage.parts.host) <= float(stage.parts.local) + float(stage.parts.wire)
            for stage in stages
        )

    powers = (2**power for power in range(MOST_SEQUENCES.bit_length()))
    high = next((batch for batch in powers if hidden(batch)), 0)
    between = range(high // 2 + 1, high)
    return between.start + bisect(between, False, key=hidden) if high else 0
