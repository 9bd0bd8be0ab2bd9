"""Derivations of the figures of disaggregated serving."""

from typing import Final

from roofline.cost.memory import kept
from roofline.records import replace
from roofline.serving.disaggregated import PoolPair
from roofline.serving.explain import figures
from roofline.serving.explain.figures import memory as in_use
from roofline.serving.explain.parts import cached_element, derived, fact, given, stated
from roofline.serving.static import StaticBatch
from roofline.table import Derivation
from roofline.units import MILLION, SECONDS_PER_HOUR, count

DISTSERVE: Final = "DistServe, Zhong et al. 2024 (arXiv 2401.09670)"
ANSWERS: Final = "SGLang (issue 8210 of sgl-project/sglang), TensorRT-LLM (issue 9212), llm-d"
HANDOVERS: Final = "hwspecs/engines/{}.yaml, handover: TTFT of pools with few clients"
SPLITWISE: Final = "Splitwise, Patel et al. 2024 (arXiv 2311.18677)"


def kv(pools: PoolPair) -> Derivation:
    """Cache of a prompt, as it is handed over."""
    deployment, work = pools.prefill.deployment, pools.prefill.workload
    on_device = " + ".join(
        f"{number} · {count(float(kept(deployment, block, float(work.prompt)).value))}"
        for block, number in deployment.architecture.kinds.items()
        if block.mixer
    )
    return Derivation(
        "KV cache of a prompt",
        pools.transfer.prompt_bytes,
        "B",
        formula="sum over layers of what each keeps of the prompt, each part once",
        inputs=(given("S", work.prompt, "token"), cached_element(deployment)),
        source=f"{DISTSERVE}, communication overhead",
        note=f"a device of the prefill instance keeps, by layers, {on_device} B of it; what "
        "several devices hold alike counts once",
    )


def transfer(pools: PoolPair) -> Derivation:
    """Time that decode waits for the cache."""
    handed = pools.transfer
    ends = (("send", handed.send, pools.prefill), ("receive", handed.receive, pools.decode))
    name, side, batch = max(ends, key=lambda end: end[1].seconds(handed.together))
    *_, late = max(ends, key=lambda end: end[1].latency_s)
    whole = derived(
        f"{name} the whole cache",
        handed.seconds,
        "s",
        "o + α + ceil(prompts handed over together / groups) · bytes of the busiest device / W",
        (
            kv(pools),
            Derivation(
                "devices that share it",
                side.sharing,
                "",
                formula="TP · CP · PP",
                source=str(batch.deployment.layout),
            ),
            given("prompts handed over together", handed.together, ""),
            _wire(pools, batch, "W", "bandwidth", side.bytes_per_s, "B/s"),
            _software(pools),
            _wire(pools, late, "α", "latency", handed.latency_s - handed.software_s, "s"),
        ),
        {"groups": side.groups, "bytes of the busiest device": side.busiest_bytes},
        source=f"{DISTSERVE}; definition of latency and rate, at the slower end",
    )
    waits = Derivation(
        "transfer",
        pools.overlap.transfer_s,
        "s",
        formula="the whole cache, after the prefill",
        inputs=(whole,),
        basis=whole.basis,
        note="sending layer by layer would hide most of it (`overlapped`)",
    )
    if not pools.overlapped:
        return waits
    return replace(
        waits,
        formula="o + α + x + (L − 1) · max(x − c, 0), x to send a layer and c to compute it",
        inputs=(whole, given("layers that keep something, each stage", handed.layers, "")),
        source=SPLITWISE,
        note="each layer is sent while the next is computed; without overlap the whole cache waits",
    )


def _software(pools: PoolPair) -> Derivation:
    """Software of a hand-over."""
    decode, value = pools.decode.deployment, pools.transfer.software_s
    if not value:
        return given("o", value, "s", "published rates, or no engine: no software")
    intake = given("intake", decode.engine_costs.request_s, "s", decode.engine_file, "interpolated")
    title, seconds = decode.engine.title, decode.engine.handover_s
    measured = HANDOVERS.format(decode.engine.name)
    source, basis = (measured, "measured") if seconds else ("none known", "assumed")
    note = f"{title}: router, bootstrap, room for the cache in the decode instance"
    handing = given("handing over", seconds, "s", source, basis, note)
    return derived("o", value, "s", "intake + handing over", (intake, handing))


def _wire(
    pools: PoolPair, batch: StaticBatch, name: str, key: str, value: float, unit: str
) -> Derivation:
    """Rate or latency of a device's wires, with its source."""
    node, wires = batch.deployment.node, pools.transfer.wires
    if (known := node.facts.get(f"{wires}.{key}")) is not None:
        return stated(known, name, value, unit)
    link = node.network if wires == "network" else node.link
    assert link is not None, "a cache goes over links"
    return fact(node.gpu, name, f"links.{link.kind}.{key}", value, unit)


def prefill(pools: PoolPair) -> Derivation:
    """Start of the prefill to its end."""
    note = "waiting in queues is left out"
    return replace(figures.ttft(pools.prefill), name="prefill", source=DISTSERVE, note=note)


def ttft(pools: PoolPair) -> Derivation:
    """Start of the prefill to the first token."""
    return derived(
        "TTFT",
        pools.overlap.ttft_s,
        "s",
        "prefill + transfer + decode step",
        (prefill(pools), transfer(pools), _step(pools)),
        source=ANSWERS,
        note="the decode instance answers: the first token comes with its first step",
    )


def tpot(pools: PoolPair) -> Derivation:
    """Mean time between tokens."""
    inputs, terms = (_step(pools),), {"output": pools.overlap.output}
    text, source = "decode step · (output − 2) / (output − 1)", "(latency − TTFT) / (tokens − 1)"
    note = "the first two tokens come together"
    return derived("TPOT", pools.overlap.tpot_s, "s", text, inputs, terms, source=source, note=note)


def latency(pools: PoolPair) -> Derivation:
    """Start of the prefill to the last token."""
    inputs, phases = (prefill(pools), transfer(pools), _step(pools)), pools.overlap
    text = "prefill + transfer + (output − 1) · decode step"
    return derived("latency", phases.latency_s, "s", text, inputs, {"output": phases.output})


def _step(pools: PoolPair) -> Derivation:
    """Mean decode step of a full batch."""
    note = "of a full batch whose answers are at every point between first and last token"
    return replace(figures.tpot(pools.decode), name="decode step", source="", note=note)


def ratio(pools: PoolPair) -> Derivation:
    """Prefill instances that keep one decode instance full."""
    answers, prompts = _answers(pools), _prompts(pools)
    return derived(
        "prefill instances for each decode instance",
        pools.overlap.ratio,
        "",
        f"{answers.name} / {prompts.name}",
        (answers, prompts),
        source=f"How to Scale Your Model (2025), serving; {DISTSERVE}",
        note="both pools are then always at work",
    )


def _prompts(pools: PoolPair) -> Derivation:
    phases, first = pools.overlap, prefill(pools)
    told = "(slowest stage + engine) / its prompts"
    each = given("prefill of a prompt", phases.prompt_s, "s", told, first.basis)
    sent = given("sending its cache", phases.send_s, "s", "interconnect, each cache")
    return derived(
        "prompts/s of a prefill instance",
        phases.prompts_per_s,
        "request/s",
        f"1 / max({each.name}, {sent.name})",
        (first, each, sent),
        note="in a steady stream: every stage of a pipeline is at work",
    )


def _answers(pools: PoolPair) -> Derivation:
    phases, batch = pools.overlap, given("batch", pools.decode.workload.batch, "")
    received = given("receiving its cache", phases.receive_s, "s", "interconnect, each cache")
    return derived(
        "answers/s of a decode instance",
        phases.answers_per_s,
        "request/s",
        f"1 / max(decode step · (output − 1) / batch, {received.name})",
        (_step(pools), received, batch, given("output", phases.output, "token")),
    )


def throughput(pools: PoolPair) -> Derivation:
    """Output tokens of all instances."""
    prompts, answers, split = _prompts(pools), _answers(pools), pools.split
    instances = {"prefill instances": split.prefill, "decode instances": split.decode}
    return derived(
        "throughput",
        pools.tok_s(pools.overlap),
        "token/s",
        f"min(prefill instances · {prompts.name}, decode instances · {answers.name}) · output",
        (prompts, answers),
        {**instances, "output": pools.overlap.output},
        note="output tokens, the first one included; of two stages in a row the slower sets the "
        "pace",
    )


def memory(pools: PoolPair) -> Derivation:
    """Memory in use on a device of the pool that has less to spare."""
    first = pools.prefill_memory.free < pools.decode_memory.free
    batch = pools.prefill if first else pools.decode
    sequences = pools.in_flight if first else batch.workload.batch + pools.arriving
    pool = replace(
        batch,
        held=pools.prefill_memory if first else pools.decode_memory,
        workload=replace(batch.workload, batch=sequences),
    )
    return replace(
        in_use(pool),
        name=f"memory in use, {'prefill' if first else 'decode'} pool",
        note=f"on one device of the pool with less to spare; prefill holds {pools.in_flight} "
        f"prompts until they are sent, decode its batch and {pools.arriving} on their way",
    )


def _of_each(pools: PoolPair, name: str, key: str, field: str, unit: str) -> list[Derivation]:
    """A figure of the devices of both pools, each kind of device once."""
    gpus = (batch.deployment.node.gpu for batch in (pools.prefill, pools.decode))
    return [
        fact(gpu, f"{name} of {gpu.name}", key, getattr(gpu, field), unit)
        for gpu in {gpu.name: gpu for gpu in gpus}.values()
    ]


def cost(pools: PoolPair) -> Derivation:
    """Price of a million output tokens."""
    prices = _of_each(pools, "price", "price.per_hour", "usd_per_hour", "$/h")
    prices, priced = [price for price in prices if price.value], pools.usd_per_hour > 0
    return derived(
        "cost of a million output tokens",
        pools.usd_per_mtok(pools.overlap),
        "$",
        f"price of all devices / throughput · {MILLION:,.0f} / {SECONDS_PER_HOUR:g} s/h",
        (*prices, throughput(pools)),
        {"price of all devices": pools.usd_per_hour},
        basis=None if priced else "",
        note="" if priced else "no price is assumed for a device of these pools",
    )


def energy(pools: PoolPair) -> Derivation:
    """Energy of a million output tokens."""
    powers = _of_each(pools, "board power", "power.tdp", "tdp_w", "W")
    return derived(
        "energy of a million output tokens",
        pools.joule_per_mtok(pools.overlap),
        "J",
        f"board power of all devices / throughput · {MILLION:,.0f}",
        (*powers, throughput(pools)),
        {"board power of all devices": pools.watts},
        note="at full board power, devices only",
    )


def explain_all(pools: PoolPair) -> dict[str, Derivation]:
    """Derivations of every metric."""
    figures = (ttft, prefill, tpot, latency, kv, transfer, ratio, throughput)
    return {derive.__name__: derive(pools) for derive in (*figures, memory, cost, energy)}
