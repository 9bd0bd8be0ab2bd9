"""Derivations of the steady state of a server that is kept full, and of an idle one."""

from dataclasses import replace

from roofline.serving.explain import times
from roofline.serving.explain.parts import given, worst
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
    others = max(steady.clients - 1, 1)
    added = (steady.tpot_s - plain.value) * steps / others
    prompt = Derivation(
        "what a prompt adds",
        added,
        "s",
        source="prefill beside decode, for each of the other clients",
        basis=worst([plain.basis, times.ttft(batch).basis]),
    )
    return Derivation(
        "TPOT, steady",
        steady.tpot_s,
        "s",
        formula="decode step + (clients − 1) · what a prompt adds / (output − 1)",
        substituted=f"{show(plain.value, 's')} + {steady.clients - 1} · {show(added, 's')} / "
        f"{steps}"
        if steps
        else "",
        inputs=(
            replace(plain, name="decode step"),
            prompt,
            given("clients", steady.clients, ""),
            given("output", batch.workload.output, "token"),
        ),
        source=CLOSED_FORM,
        basis=prompt.basis,
    )


def ttft_steady(steady: SteadyState, idle: Derivation) -> Derivation:
    """Mean TTFT where an answer is followed by the next prompt, beside that of an idle server."""
    waits = steady.ttft_s - idle.value
    return Derivation(
        "TTFT, steady",
        steady.ttft_s,
        "s",
        formula="TTFT on an idle server + rest of a step, other prompts in it, queue",
        substituted=f"{show(idle.value, 's')} + {show(waits, 's')}",
        inputs=(
            idle,
            given("clients", steady.clients, ""),
        ),
        source=CLOSED_FORM,
        basis=idle.basis,
    )


def throughput(
    batch: StaticBatch,
    steady: SteadyState,
    first: Derivation,
    each: Derivation,
    replicas: int,
) -> Derivation:
    """Output tokens in the steady state, of all replicas, from its TTFT and TPOT."""
    output, several = batch.workload.output, replicas > 1
    return Derivation(
        "throughput, steady",
        steady.output_tok_s * replicas,
        "token/s",
        formula="replicas · " * several + "clients · output / (TTFT + (output − 1) · TPOT)",
        substituted=f"{replicas} · "
        * several
        + f"{steady.clients} · {output} / ({show(first.value, 's')} + {output - 1} · "
        f"{show(each.value, 's')})",
        inputs=(first, each, *([given("replicas", replicas, "")] if several else [])),
        source="Little's law",
        basis=worst([first.basis, each.basis]),
        note="output tokens only; prefill time included",
    )
