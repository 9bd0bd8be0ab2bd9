"""Derivations of the steady state of a server that is kept full, and of an idle one."""

from dataclasses import replace

from roofline.serving.explain import times
from roofline.serving.explain.parts import derived, given, worst
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.steady import SteadyState
from roofline.table import Derivation
from roofline.units import show

CLOSED_FORM = "closed form of a closed loop, roofline/serving/simulate/steady; Little's law"


def ttft_idle(batch: StaticBatch, steady: SteadyState | None = None) -> Derivation:
    """Arrival to first token of one prompt on an idle server."""
    own = replace(batch.workload, batch=1, prefill_batch=0, output=1)
    alone = times.ttft(static_batch(batch.deployment, own, utilization=batch.utilization))
    note = "of one prompt, with nobody else there"
    if steady is not None and abs(alone.value - steady.ttft_idle_s) > 0.005 * alone.value:
        note += f"; as one step {show(alone.value, 's')}, here in the steps of the engine"
        alone = replace(alone, value=steady.ttft_idle_s)
    return replace(alone, name="TTFT on an idle server", note=note)


def tpot_steady(batch: StaticBatch, steady: SteadyState) -> Derivation:
    """Mean time between tokens where the prompts of others come among the steps."""
    plain, steps = times.tpot(batch), batch.workload.output - 1
    added = (steady.tpot_s - plain.value) * steps / max(steady.clients - 1, 1)
    told = "prefill beside decode, for each of the other clients"
    basis = worst([plain.basis, times.ttft(batch).basis])
    inputs = (
        replace(plain, name="decode step"),
        given("what a prompt adds", added, "s", told, basis),
        given("clients", steady.clients, ""),
        given("output", batch.workload.output, "token"),
    )
    text = "decode step" + " + (clients − 1) · what a prompt adds / (output − 1)" * bool(steps)
    return derived("steady TPOT", steady.tpot_s, "s", text, inputs, source=CLOSED_FORM)


def ttft_steady(steady: SteadyState, idle: Derivation) -> Derivation:
    """Mean TTFT where an answer is followed by the next prompt, beside that of an idle server."""
    told = "for the rest of a step, other prompts in it, and the queue"
    waits = given("waiting", steady.ttft_s - idle.value, "s", told)
    text, inputs = f"{idle.name} + waiting", (idle, waits, given("clients", steady.clients, ""))
    return derived("steady TTFT", steady.ttft_s, "s", text, inputs, source=CLOSED_FORM)


def throughput(
    batch: StaticBatch, steady: SteadyState, first: Derivation, each: Derivation, replicas: int
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
