"""Derivations of the figures of disaggregated serving."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from roofline.serving.disaggregated import Disaggregated
from roofline.serving.explain import times
from roofline.serving.explain.kv_transfer import DISTSERVE, kv, transfer
from roofline.serving.explain.memory import memory as in_use
from roofline.serving.explain.parts import fact, given, worst, worst_of
from roofline.table import Derivation
from roofline.units import SECONDS_PER_HOUR, show, significant


def ttft(pools: Disaggregated) -> Derivation:
    """Start of the prefill to the first token."""
    first = times.ttft(pools.prefill)
    return Derivation(
        "TTFT",
        first.value,
        "s",
        formula=first.formula,
        substituted=first.substituted,
        inputs=first.inputs,
        source=DISTSERVE,
        basis=first.basis,
        note="the prefill instance makes the first token, so the transfer comes after it; waiting "
        "in queues is left out",
    )


def second_token(pools: Disaggregated) -> Derivation:
    """Start of the prefill to the second token."""
    first, sent, each = ttft(pools), transfer(pools), _step(pools)
    return Derivation(
        "second token",
        pools.overlap.second_token_s,
        "s",
        formula="prefill + transfer + decode step",
        substituted=" + ".join(show(part.value, "s") for part in (first, sent, each)),
        inputs=(first, sent, each),
        basis=worst([first.basis, sent.basis, each.basis]),
    )


def tpot(pools: Disaggregated) -> Derivation:
    """Mean time between tokens."""
    sent, each, output = transfer(pools), _step(pools), pools.overlap.output
    return Derivation(
        "TPOT",
        pools.overlap.tpot_s,
        "s",
        formula="decode step + transfer / (output − 1)",
        substituted=f"{show(each.value, 's')} + {show(sent.value, 's')} / {output - 1}",
        inputs=(each, sent),
        source="(latency − TTFT) / (tokens − 1)",
        basis=worst([each.basis, sent.basis]),
    )


def latency(pools: Disaggregated) -> Derivation:
    """Start of the prefill to the last token."""
    first, sent, each = ttft(pools), transfer(pools), _step(pools)
    return Derivation(
        "latency",
        pools.overlap.latency_s,
        "s",
        formula="TTFT + transfer + (output − 1) · decode step",
        substituted=f"{show(first.value, 's')} + {show(sent.value, 's')} + "
        f"{pools.overlap.output - 1} · {show(each.value, 's')}",
        inputs=(first, sent, each),
        basis=worst([first.basis, sent.basis, each.basis]),
    )


def _step(pools: Disaggregated) -> Derivation:
    """Mean decode step of a full batch."""
    each = times.tpot(pools.decode)
    return Derivation(
        "decode step",
        each.value,
        "s",
        formula=each.formula,
        substituted=each.substituted,
        inputs=each.inputs,
        basis=each.basis,
        note="of a full batch whose answers are at every point between first and last token",
    )


def ratio(pools: Disaggregated) -> Derivation:
    """Prefill instances that keep one decode instance full."""
    phases = pools.overlap
    prompts, answers = _prompts(pools), _answers(pools)
    return Derivation(
        "prefill instances for each decode instance",
        phases.ratio,
        "",
        formula="answers/s of a decode instance / prompts/s of a prefill instance",
        substituted=f"{significant(answers.value)} / {significant(prompts.value)}",
        inputs=(answers, prompts),
        source=f"How to Scale Your Model (2025), serving; {DISTSERVE}",
        basis=worst([answers.basis, prompts.basis]),
        note="both pools are then always at work",
    )


def _prompts(pools: Disaggregated) -> Derivation:
    phases, first = pools.overlap, ttft(pools)
    return Derivation(
        "prompts/s of a prefill instance",
        phases.prompts_per_s,
        "request/s",
        formula="1 / max((slowest stage + engine) / its prompts, interconnect for each cache)",
        substituted=f"1 / max({show(phases.prompt_s, 's')}, {show(phases.send_s, 's')})",
        inputs=(first,),
        basis=first.basis,
        note="in a steady stream: every stage of a pipeline is at work",
    )


def _answers(pools: Disaggregated) -> Derivation:
    phases, each = pools.overlap, _step(pools)
    batch, output = pools.decode.workload.batch, phases.output
    return Derivation(
        "answers/s of a decode instance",
        phases.answers_per_s,
        "request/s",
        formula="1 / max(decode step · (output − 1) / batch, wires for each cache)",
        substituted=f"1 / max({show(each.value, 's')} · {output - 1} / {batch}, "
        f"{show(phases.receive_s, 's')})",
        inputs=(each, given("batch", batch, ""), given("output", output, "token")),
        basis=each.basis,
    )


def throughput(pools: Disaggregated) -> Derivation:
    """Output tokens of all instances."""
    prompts, answers, split = _prompts(pools), _answers(pools), pools.split
    return Derivation(
        "throughput",
        pools.tok_s(pools.overlap),
        "token/s",
        formula="min(prefill instances · prompts/s, decode instances · answers/s) · output",
        substituted=f"min({split.prefill} · {significant(prompts.value)}, "
        f"{split.decode} · {significant(answers.value)}) · {pools.overlap.output}",
        inputs=(prompts, answers),
        basis=worst([prompts.basis, answers.basis]),
        note="output tokens, the first one included; of two stages in a row the slower sets the "
        "pace",
    )


def memory(pools: Disaggregated) -> Derivation:
    """What is in use on a device of the pool that has less to spare."""
    first = pools.prefill_memory.free < pools.decode_memory.free
    batch = pools.prefill if first else pools.decode
    sequences = pools.in_flight if first else batch.workload.batch + pools.arriving
    pool = replace(
        batch,
        memory=pools.prefill_memory if first else pools.decode_memory,
        workload=replace(batch.workload, batch=sequences),
    )
    held = in_use(pool)
    return replace(
        held,
        name=f"memory in use, {'prefill' if first else 'decode'} pool",
        note=f"on one device of the pool with less to spare; prefill holds {pools.in_flight} "
        f"prompts until they are sent, decode its batch and {pools.arriving} on their way",
    )


def cost(pools: Disaggregated) -> Derivation:
    """Price of a million output tokens."""
    rate = throughput(pools)
    prices = {
        gpu.name: fact(gpu, f"price of {gpu.name}", "price.per_hour", gpu.usd_per_hour, "$/h")
        for gpu in (batch.deployment.node.gpu for batch in (pools.prefill, pools.decode))
        if gpu.usd_per_hour
    }
    priced = pools.usd_per_hour > 0
    return Derivation(
        "cost of a million output tokens",
        pools.usd_per_mtok(pools.overlap),
        "$",
        formula="price of all devices in use / throughput · 1,000,000",
        substituted=f"{pools.usd_per_hour:g} $/h / {show(rate.value, 'token/s')} · 1,000,000 / "
        f"{SECONDS_PER_HOUR:g} s/h",
        inputs=(*prices.values(), rate),
        basis=worst([*(price.basis for price in prices.values()), rate.basis]) if priced else "",
        note="" if priced else "no price is assumed for a device of these pools",
    )


def energy(pools: Disaggregated) -> Derivation:
    """Energy of a million output tokens."""
    rate = throughput(pools)
    powers = {
        gpu.name: fact(gpu, f"board power of {gpu.name}", "power.tdp", gpu.tdp_w, "W")
        for gpu in (batch.deployment.node.gpu for batch in (pools.prefill, pools.decode))
    }
    return Derivation(
        "energy of a million output tokens",
        pools.joule_per_mtok(pools.overlap),
        "J",
        formula="board power of all devices in use / throughput · 1,000,000",
        substituted=f"{pools.watts:g} W / {show(rate.value, 'token/s')} · 1,000,000",
        inputs=(*powers.values(), rate),
        basis=worst_of((*powers.values(), rate)),
        note="at full board power, devices only",
    )


METRICS: Final[Mapping[str, Callable[[Disaggregated], Derivation]]] = {
    "ttft": ttft,
    "second_token": second_token,
    "tpot": tpot,
    "latency": latency,
    "kv": kv,
    "transfer": transfer,
    "ratio": ratio,
    "throughput": throughput,
    "memory": memory,
    "cost": cost,
    "energy": energy,
}


def explain_all(pools: Disaggregated) -> dict[str, Derivation]:
    """Derivations of every metric."""
    return {name: derive(pools) for name, derive in METRICS.items()}
