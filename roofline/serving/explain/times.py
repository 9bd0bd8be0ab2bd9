"""Derivation of each headline figure of a static batch, down to facts with sources.

Times, and what follows from them: throughput, price, energy. They are of a static batch, of a
server that is kept full, and of an idle one.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from roofline.serving.explain.memory import adapters, kv, memory, weights
from roofline.serving.explain.operators import rates, step
from roofline.serving.explain.parts import derived, fact, given, worst
from roofline.serving.phases import ENGINE
from roofline.serving.static import StaticBatch, static_batch
from roofline.table import Derivation
from roofline.units import MILLION, SECONDS_PER_HOUR, show

if TYPE_CHECKING:
    from roofline.serving.steady import SteadyState

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
    every["ttft_idle"] = idle = ttft_idle(batch, state)
    if state is not None:
        every["ttft_steady"] = steady = ttft_steady(state, idle)
        every["tpot_steady"] = between = tpot_steady(batch, state, first, each)
        every["throughput"] = rate = steady_throughput(batch, state, steady, between, replicas)
        every["cost"] = cost(batch, replicas, rate)
        every["energy"] = energy(batch, replicas, rate)
    return every


def ttft(batch: StaticBatch) -> Derivation:
    """Arrival to first token of the prompt that is prefilled last."""
    work, stages, front = batch.workload, batch.prefill_stages, arrival(batch)
    piped, steps = len(stages) > 1, float(work.full_steps)
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
            given("batch", work.batch, ""),
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
        gpu.usd_per_hour * devices / SECONDS_PER_HOUR / rate.value * MILLION,
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


def ttft_idle(batch: StaticBatch, steady: "SteadyState | None" = None) -> Derivation:
    """Arrival to first token of one prompt on an idle server."""
    own = replace(batch.workload, batch=1, prefill_batch=0, output=1)
    alone = ttft(static_batch(batch.deployment, own, utilization=batch.utilization))
    note = "of one prompt, with nobody else there"
    if steady is not None and abs(alone.value - steady.ttft_idle_s) > 0.005 * alone.value:
        note += f"; as one step {show(alone.value, 's')}, here in the steps of the engine"
        alone = replace(alone, value=steady.ttft_idle_s)
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
