"""Derivation of each headline figure of a static batch, down to facts with sources.

Device memory; times, and what follows from them: throughput, price, energy. They are of a static
batch, of a server that is kept full, and of an idle one.
"""

from typing import TYPE_CHECKING, Final

from roofline.cost.layout import Stage, pipeline
from roofline.cost.memory import (
    adapter_parts,
    holding,
    kept,
    kv_bytes_per_sequence,
    layer_bytes,
    layer_parts,
    outside_bytes,
    outside_parts,
)
from roofline.model.architecture import Block
from roofline.records import replace
from roofline.serving.explain.operators import rates, step
from roofline.serving.explain.parts import (
    cached_element,
    config,
    derived,
    fact,
    given,
    outside_share,
    parted,
    told_apart,
)
from roofline.serving.phases import ENGINE, chunks_of
from roofline.serving.price import usd_per_mtok
from roofline.serving.room import own
from roofline.serving.static import StaticBatch, lone_prompt
from roofline.table import Derivation, worst
from roofline.units import MILLION, SECONDS_PER_HOUR, show_binary

if TYPE_CHECKING:
    from roofline.serving.steady import SteadyState

_CONFIG: Final = {"K": "kv_heads", "H": "head_dim", "W": "window", "C": "latent", "r": "rope_dim"}
"""Symbols that are numbers of a network, and where they stand in its config."""


def kv(batch: StaticBatch) -> Derivation:
    """Cache of the batch at its longest context, on one device."""
    deployment, work = batch.deployment, batch.workload
    if not work.kv_cache:
        source = "nothing is cached: the context is computed again for every token"
        return Derivation("KV cache", 0.0, "B", source=source)
    layout, (stage, told) = deployment.layout, stage_of(batch)
    layers = told_apart(_layer(batch, *each) for each in stage.layers if each[0].mixer)
    whole = kv_bytes_per_sequence(deployment, work.longest, one_page_table=True, stage=stage)
    held = -(-work.batch // int(layout.dp)) * float(whole)
    note = "on one device; rounding up to pages is left out" + f"; {told}" * bool(told)
    further = batch.sequences // work.batch - 1
    if held > batch.memory.kv and not further and not deployment.offload.kv:
        note += f"; an engine with one table of pages for all layers holds {show_binary(held)}"
    summed = " + ".join(each.name for each in layers) or "0"
    more = []
    if further:
        tokens, name = own(deployment, work), "cache of a further answer or beam"
        each = float(kv_bytes_per_sequence(deployment, tokens, stage=stage))
        more.append(given(name, each, "B", f"{tokens:,.1f} tokens in pages beside the first's"))
        summed += f" + {further} · {name}"
    return derived(
        "KV cache",
        batch.memory.kv,
        "B",
        f"{'ceil(B / DP)' if layout.dp > 1 else 'B'} · ({summed})[ · share kept]",
        (
            *layers,
            *more,
            given("B", work.batch, ""),
            given("S", work.longest, "token"),
            cached_element(deployment),
        ),
        {"DP": float(layout.dp), "share kept": 1 - deployment.offload.kv},
        note=note,
    )


def _layer(batch: StaticBatch, block: Block, number: int) -> Derivation:
    """Cache that layers of one kind keep of a sequence."""
    part = kept(batch.deployment, block, float(batch.workload.longest))
    terms = part.symbols
    inputs = [
        config(batch, name, key, float(terms[name]))
        for name, key in _CONFIG.items()
        if name in terms
    ]
    one = parted(part, "B", inputs)
    if not one.formula:
        return Derivation(f"{number} {one.name}", 0.0, "B", source="they keep nothing")
    return derived(
        f"{number} {one.name}",
        number * one.value,
        "B",
        f"{number} · {one.formula}",
        inputs,
        {name: float(value) for name, value in terms.items()},
        source=one.source,
    )


def _buffer(batch: StaticBatch) -> Derivation:
    """Layers on their way from outside device memory."""
    deployment, offload = batch.deployment, batch.deployment.offload
    layers = holding(stage_of(batch)[0])
    matrices = sum(number * float(layer_bytes(deployment, block)) for block, number in layers)
    cache = (batch.memory.host - offload.weights * matrices) / offload.kv if offload.kv else 0.0
    parts = {"weights": (offload.weights, matrices), "cache": (offload.kv, cache)}
    parts = {name: both for name, both in parts.items() if both[0]}
    outside = derived(
        "kept outside",
        batch.memory.host,
        "B",
        " + ".join(f"share of the {name} · {name} of the layers" for name in parts),
        [
            entry
            for name, (share, whole) in parts.items()
            for entry in (
                outside_share(f"share of the {name}", share, offload),
                Derivation(f"{name} of the layers", whole, "B", source="of one device"),
            )
        ],
        binary=True,
    )
    return derived(
        "layers being loaded",
        batch.memory.buffer,
        "B",
        "min(2 / layers, 1) · kept outside",
        [outside],
        {"layers": sum(number for _, number in layers)},
        binary=True,
        note="of one device; one layer that computes and one on its way",
    )


def memory(batch: StaticBatch) -> Derivation:
    """Everything in the memory of one device."""
    held, gpu, engine = batch.memory, batch.deployment.node.gpu, batch.deployment.engine
    key = "memory.visible" if "memory.visible" in gpu.facts else "memory.nominal"
    share = held.budget / held.capacity
    reserved = {"runtime": held.runtime, "graphs": held.graphs}
    parts = (
        weights(batch),
        *([adapters(batch)] if held.adapters else []),
        kv(batch),
        Derivation(
            "activations",
            held.activations,
            "B",
            formula="tokens · (2·D + widest layer) · bytes, or the logits",
            source="buffers alive at once in the largest step",
        ),
        *(given(*each, "B", f"engine {engine.name}", "assumed") for each in reserved.items()),
        *([_buffer(batch)] if held.buffer else []),
    )
    return derived(
        "memory in use",
        held.weights + held.activations + held.runtime + held.graphs + held.kv + held.buffer,
        "B",
        " + ".join(part.name for part in parts),
        (
            *parts,
            fact(gpu, "capacity", key, held.capacity, "B"),
            Derivation("utilization", share, "", source=f"engine {engine.name} or given"),
        ),
        basis="assumed" if any(reserved.values()) else "datasheet",
        binary=True,
        note=f"on one device; {show_binary(abs(held.free))} "
        + ("free of" if held.fits else "too much for")
        + f" {share:.0%} of {show_binary(held.capacity)}",
    )


def stage_of(batch: StaticBatch) -> tuple[Stage, str]:
    """Stage of the pipeline that takes most memory, and which one that is."""
    deployment, number = batch.deployment, batch.memory.stage
    stages = pipeline(deployment.architecture, deployment.layout, deployment.node)
    told = f"stage {number + 1} of {len(stages)}, which takes most" if len(stages) > 1 else ""
    return stages[number], told


def weights(batch: StaticBatch) -> Derivation:
    """Weights on one device, of the stage that takes most."""
    deployment, offload = batch.deployment, batch.deployment.offload
    network, layout = deployment.architecture, deployment.layout
    stored = deployment.precision.weights
    stage, told = stage_of(batch)
    layers = told_apart(_layers(batch, block, number) for block, number in holding(stage))
    outside = _outside(batch, stage)
    summed = " + ".join(each.name for each in layers)
    share = outside_share("share of the layers kept outside", offload.weights, offload)
    degrees = {"TP": layout.tp, "EP": layout.ep, "PP": layout.pp, "DP": layout.dp, "CP": layout.cp}
    formula = f"(1 − {share.name}) · ({summed})" if share.value else summed
    return derived(
        "weights",
        batch.memory.weights - batch.memory.adapters,
        "B",
        f"{formula} + {outside.name}",
        (
            *layers,
            outside,
            *([share] if share.value else []),
            config(batch, "D", "d_model", network.d_model),
            config(batch, "V", "vocab", network.vocab),
            config(batch, "layers", "layers", len(network.layers)),
            given("bytes per matrix element", stored.width, "B", f"{stored.name}: {stored.source}"),
            *(
                given(name, float(degree), "", f"the layout, {layout}")
                for name, degree in degrees.items()
                if name == "TP" or degree != 1
            ),
        ),
        note="on one device" + f", of {told}" * bool(told),
    )


def adapters(batch: StaticBatch) -> Derivation:
    """LoRA adapters that are kept on one device, of the stage that takes most."""
    deployment, lora = batch.deployment, batch.deployment.options.lora
    layers = told_apart(
        derived(
            f"{number} layers",
            number * sum(each.value for each in parts),
            "B",
            f"{number} · ({' + '.join(each.name for each in parts)})",
            parts,
        )
        for block, number in stage_of(batch)[0].layers
        if (parts := [parted(each, "B") for each in adapter_parts(deployment, block)])
    )
    return derived(
        "LoRA adapters",
        batch.memory.adapters,
        "B",
        f"kept · ({' + '.join(each.name for each in layers)})",
        (given("kept", float(lora.kept), "", "`max_loras`, or all of `adapters`"), *layers),
        note="on one device, each with a place of the whole rank",
    )


def _layers(batch: StaticBatch, block: Block, number: int) -> Derivation:
    """Layers of one kind on one device."""
    deployment = batch.deployment
    parts = [parted(each, "B") for each in layer_parts(deployment, block) if each.value]
    experts = config(batch, "E", "experts", block.experts) if block.experts else None
    return derived(
        f"{number} layers: {_called(block)}" if number != 1 else f"1 layer: {_called(block)}",
        number * float(layer_bytes(deployment, block)),
        "B",
        f"{number} · ({' + '.join(each.name for each in parts)})",
        (*parts, experts) if experts else parts,
    )


def _called(block: Block) -> str:
    """Parts of a layer in a few words."""
    feedforward = block.feedforward
    parts = [block.mixer.label] if block.mixer is not None else []
    if feedforward is not None:
        parts.append(feedforward.label)
    return " and ".join(parts) or "norms"


def _outside(batch: StaticBatch, stage: Stage) -> Derivation:
    """Embedding, LM head and what else is outside the layers."""
    where = (batch.deployment, stage.first, stage.last)
    parts = [parted(each, "B") for each in outside_parts(*where) if each.value]
    text = " + ".join(each.name for each in parts) or "0"
    return derived("outside the layers", float(outside_bytes(*where)), "B", text, parts)


CLOSED_FORM: Final = "closed form of a closed loop, roofline/serving/simulate/steady; Little's law"


def explain_all(
    batch: StaticBatch, replicas: int = 1, state: "SteadyState | None" = None
) -> dict[str, Derivation]:
    """Derivations of every metric; throughput, cost and energy are of all replicas.

    With a steady state these are its own, and those of the static batch have ``static_`` before
    their names.
    """
    first, each = ttft(batch), tpot(batch)
    whole = latency(batch, first, each)
    rate = throughput(batch, whole, replicas)
    spent, joules = cost(batch, replicas, rate), energy(batch, replicas, rate)
    every = {
        "ttft": first,
        "tpot": each,
        "latency": whole,
        "throughput": rate,
        "memory": memory(batch),
        "weights": weights(batch),
        "kv": kv(batch),
        "cost": spent,
        "energy": joules,
        "ridge": ridge(batch),
    }
    if batch.memory.adapters:
        every["adapters"] = adapters(batch)
    prefix = "static_" if state else ""
    every |= {f"{prefix}throughput": rate, f"{prefix}cost": spent, f"{prefix}energy": joules}
    every["ttft_idle"] = idle = ttft_idle(batch)
    if state is not None:
        every["ttft_steady"] = steady = ttft_steady(state, idle)
        every["tpot_steady"] = between = tpot_steady(batch, state, first, each)
        every["throughput"] = rate = steady_throughput(batch, state, steady, between, replicas)
        every["cost"] = cost(batch, replicas, rate)
        every["energy"] = energy(batch, replicas, rate)
    return every


def ttft(batch: StaticBatch, chunks: float = 0.0) -> Derivation:
    """Arrival to first token of the prompt that is prefilled last.

    Where it is a prompt alone that the engine cuts, into so many chunks. [1]
    """
    work, stages, front = batch.workload, batch.prefill_stages, arrival(batch)
    piped, steps = len(stages) > 1, chunks or float(work.full_steps)
    one = step("prefill step" + " of the slowest stage" * piped, batch.prefill, batch)
    inputs = [front, one] if front.value else [one]
    if piped:
        costs = batch.deployment.engine_costs
        software = (steps + bool(work.left_over)) * costs.prefill_step_s
        formula = "engine + " * bool(software)
        formula += "sum of stages + (full steps − 1) · slowest stage"
        inputs += [
            given("sum of stages", sum(stages), "s", f"{len(stages)} stages, each so priced"),
            given("slowest stage", max(stages), "s", "the largest of them"),
            given("engine", software, "s", "its time in each step"),
            given("prompts of a micro-batch", work.together, "", "given, or what a step holds"),
        ]
        spent = software + sum(stages) + (steps - 1) * max(stages)
    elif chunks:
        formula = "chunks · prefill step"
        told = "new tokens of the prompt over those of a step of its group, rounded up"
        inputs.append(given("chunks", chunks, "", told))
        spent = steps * one.value
    else:
        formula = f"{'floor' if work.left_over else 'ceil'}(batch / prefill batch) · prefill step"
        inputs.append(given("prefill batch", work.together, ""))
        spent = steps * one.value
    if work.left_over:
        formula += " + last step"
        told = f"what the same step with {work.left_over} prompts adds"
        inputs.append(given("last step", batch.ttft_s - front.value - spent, "s", told))
    return derived(
        "TTFT",
        batch.ttft_s,
        "s",
        "arrival + " * bool(front.value) + formula,
        [
            *inputs,
            *([] if chunks else [given("batch", work.batch, "")]),
            given("prompt", work.prompt, "token"),
            given("of it cached", work.cached, "token"),
        ],
        {"full steps": steps},
        source="Narayanan et al. 2021 (arXiv 2104.04473)" if piped else "",
        basis=one.basis,
        note="of the prompt prefilled last; no queueing, all prompts arrive at once",
    )


def arrival(batch: StaticBatch) -> Derivation:
    """Time from a request's arrival to the queue of an idle server."""
    costs, engine = batch.deployment.engine_costs, batch.deployment.engine
    file = batch.deployment.engine_file
    basis = "interpolated" if costs.arrival_s else ""
    parts = {"front end of a request": costs.request_s, "one after the other": costs.serial_s}
    inputs = [given(name, value, "s", file, basis) for name, value in parts.items()]
    note = f"HTTP, tokenisation and the way to the scheduler of {engine.title}"
    return derived("arrival", costs.arrival_s, "s", " + ".join(parts), inputs, note=note)


def tpot(batch: StaticBatch) -> Derivation:
    """Mean time between tokens."""
    work, stages = batch.workload, batch.decode_stages
    if work.output == 1:
        return given("TPOT", 0.0, "s", "a single token has no time between tokens")
    name = "mean decode step" + " of the slowest stage" * (len(stages) > 1)
    one = step(name, batch.decode, batch)
    if len(stages) > 1:
        turns, size = work.turns(batch.deployment)
        engine = batch.decode[ENGINE].seconds if ENGINE in batch.decode else 0.0
        told = f"{len(stages)} stages, each so priced, mean over the answer"
        return derived(
            "TPOT",
            batch.tpot_s,
            "s",
            "max(sum of stages, micro-batches · slowest stage)[ + engine]",
            [
                one,
                given("sum of stages", sum(stages), "s", told),
                given("slowest stage", max(stages), "s", "the largest of them"),
                given("engine", engine, "s", "its time in each step"),
                given("micro-batches", turns, "", "given, or one for each stage"),
                given("sequences of one", size, "", "batch over micro-batches"),
            ],
            source="a sequence's next token starts when its last is out, and waits its turn",
            basis=one.basis,
        )
    sizes = {"batch": "", "prompt": "token", "output": "token"}
    told = "batch · answers or beams of each prompt"
    decoded = given("sequences", batch.sequences, "", told)
    return Derivation(
        "TPOT",
        batch.tpot_s,
        "s",
        formula="mean of the decode step over contexts prompt + 1 … prompt + output − 1",
        substituted=f"mean over {work.prompt + 1:,} … {work.longest:,}",
        inputs=(
            one,
            *(given(name, getattr(work, name), unit) for name, unit in sizes.items()),
            *([decoded] if batch.sequences > work.batch else []),
        ),
        source="(latency − TTFT) / (tokens − 1)",
        basis=one.basis,
    )


def latency(batch: StaticBatch, first: Derivation, each: Derivation) -> Derivation:
    """Arrival to last token, from TTFT and TPOT."""
    output = given("output", batch.workload.output, "token")
    inputs = (first, each, output)
    return derived("latency", batch.latency_s, "s", "TTFT + (output − 1) · TPOT", inputs)


def throughput(batch: StaticBatch, whole: Derivation, replicas: int) -> Derivation:
    """Output tokens of the batch over its latency, of all replicas."""
    work = batch.workload
    terms = {"batch": work.batch, "samples": work.samples, "output": work.output}
    note = "output tokens only; prefill time included"
    text, value = (
        "batch[ · samples] · output / latency[ · replicas]",
        batch.throughput_tok_s * replicas,
    )
    inputs = [whole, *([given("replicas", replicas, "")] if replicas > 1 else [])]
    return derived("throughput", value, "token/s", text, inputs, terms, note=note)


def cost(batch: StaticBatch, replicas: int, rate: Derivation) -> Derivation:
    """Price of a million output tokens, at a rate of them."""
    gpu, devices = batch.deployment.node.gpu, replicas * batch.devices
    price = fact(gpu, "price", "price.per_hour", gpu.usd_per_hour, "$/h")
    return derived(
        "cost of a million output tokens",
        usd_per_mtok(gpu.usd_per_hour * devices, 1.0, rate.value),
        "$",
        f"price · devices / {rate.name} · {MILLION:,.0f} / {SECONDS_PER_HOUR:g} s/h",
        (price, rate),
        {"devices": devices},
        basis=None if gpu.usd_per_hour else "",
        note="" if gpu.usd_per_hour else "no price is assumed for this device",
    )


def energy(batch: StaticBatch, replicas: int, rate: Derivation) -> Derivation:
    """Energy of a million output tokens, at a rate of them."""
    gpu, terms = batch.deployment.node.gpu, {"devices": replicas * batch.devices}
    value = gpu.tdp_w * terms["devices"] / rate.value * MILLION
    power = fact(gpu, "board power", "power.tdp", gpu.tdp_w, "W")
    text, note = f"board power · devices / {rate.name} · {MILLION:,.0f}", "at full board power"
    name = "energy of a million output tokens"
    return derived(name, value, "J", text, (power, rate), terms, note=f"{note}, devices only")


def ridge(batch: StaticBatch) -> Derivation:
    """Intensity at which compute and memory take equally long."""
    gpu = batch.deployment.node.gpu
    peak, moved = rates(batch)[0], fact(gpu, "BW", "hbm", gpu.hbm_bytes_per_s, "B/s")
    return derived(
        "ridge point",
        gpu.ridge(batch.deployment.precision.linear_arithmetic),
        "FLOP/B",
        f"{peak.name} / BW",
        (peak, moved),
        source="Williams, Waterman, Patterson 2009",
        note="an operator below this intensity is bound by memory",
    )


def ttft_idle(batch: StaticBatch) -> Derivation:
    """Arrival to first token of one prompt on an idle server."""
    new = batch.workload.prompt - batch.workload.cached
    steps = float(chunks_of(batch.deployment, float(new)))
    alone = ttft(lone_prompt(batch.deployment, batch.workload), steps)
    note = "of one prompt, with nobody else there"
    if steps > 1:
        note += "; in chunks of equal length, each at the mean context of all"
    return replace(alone, name="TTFT on an idle server", note=note)


def tpot_steady(
    batch: StaticBatch, steady: "SteadyState", first: Derivation, plain: Derivation
) -> Derivation:
    """Mean time between tokens where the prompts of others come among the steps.

    Beside TTFT and TPOT of the static batch.
    """
    steps = batch.workload.output - 1
    added = (steady.tpot_s - plain.value) * steps / max(steady.clients - 1, 1)
    told = "prefill beside decode, for each of the other clients"
    basis = worst([plain.basis, first.basis])
    inputs = (
        replace(plain, name="decode step"),
        given("what a prompt adds", added, "s", told, basis),
        given("clients", steady.clients, ""),
        given("output", batch.workload.output, "token"),
    )
    text = "decode step" + " + (clients − 1) · what a prompt adds / (output − 1)" * bool(steps)
    return derived("steady TPOT", steady.tpot_s, "s", text, inputs, source=CLOSED_FORM)


def ttft_steady(steady: "SteadyState", idle: Derivation) -> Derivation:
    """Mean TTFT where an answer is followed by the next prompt, beside that of an idle server."""
    told = "for the rest of a step, other prompts in it, and the queue"
    waits = given("waiting", steady.ttft_s - idle.value, "s", told)
    text, inputs = f"{idle.name} + waiting", (idle, waits, given("clients", steady.clients, ""))
    return derived("steady TTFT", steady.ttft_s, "s", text, inputs, source=CLOSED_FORM)


def steady_throughput(
    batch: StaticBatch, steady: "SteadyState", first: Derivation, each: Derivation, replicas: int
) -> Derivation:
    """Output tokens in the steady state, of all replicas, from its TTFT and TPOT."""
    return derived(
        "steady throughput",
        steady.output_tok_s * replicas,
        "token/s",
        f"clients · output / ({first.name} + (output − 1) · {each.name})[ · replicas]",
        (first, each, *([given("replicas", replicas, "")] if replicas > 1 else [])),
        {"clients": steady.clients, "output": batch.workload.output},
        source="Little's law",
        note="output tokens only; prefill time included",
    )
