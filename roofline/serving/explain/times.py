"""Derivations of times, and of what follows from them: throughput, price, energy."""

from roofline.serving.explain.operators import rates, step
from roofline.serving.explain.parts import fact, given, worst
from roofline.serving.phases import ENGINE
from roofline.serving.static import StaticBatch
from roofline.table import Derivation
from roofline.units import MILLION, SECONDS_PER_HOUR, count, show


def ttft(batch: StaticBatch) -> Derivation:
    """Arrival to first token of the prompt that is prefilled last."""
    work = batch.workload
    if len(batch.prefill_stages) > 1:
        return _piped(batch)
    one = step("prefill step", batch.prefill, batch)
    formula = "ceil(batch / prefill batch) · prefill step"
    substituted = f"{work.full_steps} · {show(one.value, 's')}"
    inputs: tuple[Derivation, ...] = (one,)
    front = arrival(batch)
    if work.left_over:
        tail = batch.ttft_s - front.value - work.full_steps * one.value
        formula = "floor(batch / prefill batch) · prefill step + last step"
        substituted += f" + {show(tail, 's')}"
        last = Derivation(
            "last step", tail, "s", source=f"the same step with {work.left_over} prompts"
        )
        inputs = (one, last)
    if front.value:
        formula, substituted = f"arrival + {formula}", f"{show(front.value, 's')} + {substituted}"
        inputs = (front, *inputs)
    return Derivation(
        "TTFT",
        batch.ttft_s,
        "s",
        formula=formula,
        substituted=substituted,
        inputs=(
            *inputs,
            given("batch", work.batch, ""),
            given("prefill batch", work.together, ""),
            given("prompt", work.prompt, "token"),
            given("of it cached", work.cached, "token"),
        ),
        basis=one.basis,
        note="of the prompt prefilled last; no queueing, all prompts arrive at once",
    )


def arrival(batch: StaticBatch) -> Derivation:
    """Time from a request's arrival to the queue of an idle server."""
    costs, engine = batch.deployment.engine_costs, batch.deployment.engine
    return Derivation(
        "arrival",
        costs.arrival_s,
        "s",
        formula="front end of a request + what it does for one request after the other",
        substituted=f"{show(costs.request_s, 's')} + {show(costs.serial_s, 's')}",
        source=f"hwspecs/calibrations/engines/{engine.profile}.yaml",
        basis="interpolated" if costs.arrival_s else "",
        note=f"HTTP, tokenisation and the way to the scheduler of {engine.title}",
    )


def _piped(batch: StaticBatch) -> Derivation:
    """The same through the stages of a pipeline."""
    work, stages = batch.workload, batch.prefill_stages
    one = step("prefill step of the slowest stage", batch.prefill, batch)
    number = work.full_steps
    costs, front = batch.deployment.engine_costs, arrival(batch)
    software_s = (number + bool(work.left_over)) * costs.prefill_step_s
    left = batch.ttft_s - front.value - software_s - sum(stages) - (number - 1) * max(stages)
    formula = "sum of stages + (micro-batches − 1) · slowest stage"
    substituted = f"{show(sum(stages), 's')} + {number - 1} · {show(max(stages), 's')}"
    if front.value:
        formula = f"arrival + steps · engine + {formula}"
        substituted = f"{show(front.value, 's')} + {show(software_s, 's')} + {substituted}"
    if work.left_over:
        formula += " + what the last, smaller one adds"
        substituted += f" + {show(left, 's')}"
    return Derivation(
        "TTFT",
        batch.ttft_s,
        "s",
        formula=formula,
        substituted=substituted,
        inputs=(
            *([front] if front.value else []),
            one,
            Derivation(
                "sum of stages", sum(stages), "s", source=f"{len(stages)} stages, each so priced"
            ),
            given("batch", work.batch, ""),
            Derivation(
                "prompts of a micro-batch", work.together, "", source="given, or what a step holds"
            ),
            given("prompt", work.prompt, "token"),
            given("of it cached", work.cached, "token"),
        ),
        source="Narayanan et al. 2021 (arXiv 2104.04473)",
        basis=one.basis,
        note="of the prompt prefilled last; no queueing, all prompts arrive at once",
    )


def tpot(batch: StaticBatch) -> Derivation:
    """Mean time between tokens."""
    work = batch.workload
    if work.output == 1:
        return Derivation("TPOT", 0.0, "s", source="a single token has no time between tokens")
    stages = batch.decode_stages
    one = step(
        "mean decode step" + " of the slowest stage" * (len(stages) > 1), batch.decode, batch
    )
    first, last = work.prompt + 1, work.longest
    if len(stages) > 1:
        turns, size = work.turns(batch.deployment.layout)
        added = batch.decode[ENGINE].seconds if ENGINE in batch.decode else 0.0
        return Derivation(
            "TPOT",
            batch.tpot_s,
            "s",
            formula="mean of max(sum of stages, micro-batches · slowest stage) over the answer"
            + " + engine" * bool(added),
            substituted=f"max({show(sum(stages), 's')}, {turns} · {show(max(stages), 's')})"
            + f" + {show(added, 's')}" * bool(added),
            inputs=(
                one,
                Derivation(
                    "sum of stages",
                    sum(stages),
                    "s",
                    source=f"{len(stages)} stages, each so priced",
                ),
                Derivation("micro-batches", turns, "", source="given, or one for each stage"),
                Derivation("sequences of one", size, "", source="batch over micro-batches"),
            ),
            source="a sequence's next token starts when its last is out, and waits its turn",
            basis=one.basis,
        )
    return Derivation(
        "TPOT",
        batch.tpot_s,
        "s",
        formula="mean of the decode step over contexts prompt + 1 … prompt + output − 1",
        substituted=f"mean over {first:,} … {last:,}",
        inputs=(
            one,
            given("batch", work.batch, ""),
            given("prompt", work.prompt, "token"),
            given("output", work.output, "token"),
        ),
        source="(latency − TTFT) / (tokens − 1)",
        basis=one.basis,
    )


def latency(batch: StaticBatch) -> Derivation:
    """Arrival to last token."""
    first, each = ttft(batch), tpot(batch)
    output = batch.workload.output
    return Derivation(
        "latency",
        batch.latency_s,
        "s",
        formula="TTFT + (output − 1) · TPOT",
        substituted=f"{show(first.value, 's')} + {output - 1} · {show(each.value, 's')}",
        inputs=(first, each),
        basis=worst([first.basis, each.basis]),
    )


def throughput(batch: StaticBatch, replicas: int = 1) -> Derivation:
    """Output tokens of the batch over its latency, of all replicas."""
    whole, work = latency(batch), batch.workload
    several = replicas > 1
    return Derivation(
        "throughput",
        batch.throughput_tok_s * replicas,
        "token/s",
        formula="replicas · " * several + "batch · output / latency",
        substituted=f"{replicas} · " * several
        + f"{work.batch} · {work.output} / {show(whole.value, 's')}",
        inputs=(whole, *([given("replicas", replicas, "")] if several else [])),
        basis=whole.basis,
        note="output tokens only; prefill time included",
    )


def cost(batch: StaticBatch, replicas: int = 1, rate: Derivation | None = None) -> Derivation:
    """Price of a million output tokens, at a rate of them or that of the batch."""
    gpu, devices = batch.deployment.node.gpu, replicas * batch.devices
    rate = rate or throughput(batch, replicas)
    price = fact(gpu, "price", "price.per_hour", gpu.usd_per_hour, "$/h")
    return Derivation(
        "cost of a million output tokens",
        gpu.usd_per_hour * devices / SECONDS_PER_HOUR / rate.value * MILLION,
        "$",
        formula="price · devices / throughput · 1,000,000",
        substituted=f"{gpu.usd_per_hour:g} $/h · {devices} / "
        f"{show(rate.value, 'token/s')} · {count(1_000_000)} / {SECONDS_PER_HOUR:g} s/h",
        inputs=(price, rate),
        basis=worst([price.basis, rate.basis]) if gpu.usd_per_hour else "",
        note="" if gpu.usd_per_hour else "no price is assumed for this device",
    )


def energy(batch: StaticBatch, replicas: int = 1, rate: Derivation | None = None) -> Derivation:
    """Energy of a million output tokens, at a rate of them or that of the batch."""
    gpu, devices = batch.deployment.node.gpu, replicas * batch.devices
    rate = rate or throughput(batch, replicas)
    power = fact(gpu, "board power", "power.tdp", gpu.tdp_w, "W")
    return Derivation(
        "energy of a million output tokens",
        gpu.tdp_w * devices / rate.value * MILLION,
        "J",
        formula="board power · devices / throughput · 1,000,000",
        substituted=f"{gpu.tdp_w:g} W · {devices} / {show(rate.value, 'token/s')} "
        f"· {count(1_000_000)}",
        inputs=(power, rate),
        basis=worst([power.basis, rate.basis]),
        note="at full board power, devices only",
    )


def ridge(batch: StaticBatch) -> Derivation:
    """Intensity at which compute and memory take equally long."""
    gpu = batch.deployment.node.gpu
    name = batch.deployment.precision.linear_arithmetic
    peak = rates(batch)[0]
    memory = fact(gpu, "BW", "hbm", gpu.hbm_bytes_per_s, "B/s")
    return Derivation(
        "ridge point",
        gpu.ridge(name),
        "FLOP/B",
        formula="P / BW",
        substituted=f"{show(gpu.rate(name), 'FLOP/s', 4)} / {show(gpu.hbm_bytes_per_s, 'B/s', 4)}",
        inputs=(peak, memory),
        source="Williams, Waterman, Patterson 2009",
        basis=worst([peak.basis, memory.basis]),
        note="an operator below this intensity is bound by memory",
    )
