"""Derivation of each headline figure of a static batch, down to facts with sources."""

from typing import TYPE_CHECKING

from roofline.serving.explain import times
from roofline.serving.explain.memory import adapters, kv, memory, weights
from roofline.serving.static import StaticBatch
from roofline.table import Derivation

if TYPE_CHECKING:
    from roofline.serving.steady import SteadyState


def explain_all(
    batch: StaticBatch, replicas: int = 1, state: "SteadyState | None" = None
) -> dict[str, Derivation]:
    """Derivations of every metric; throughput, cost and energy are of all replicas.

    With a steady state these are its own, and those of the static batch have ``static_`` before
    their names.
    """
    first, each = times.ttft(batch), times.tpot(batch)
    whole = times.latency(batch, first, each)
    rate = times.throughput(batch, whole, replicas)
    price, energy = times.cost(batch, replicas, rate), times.energy(batch, replicas, rate)
    every = {
        "ttft": first,
        "tpot": each,
        "latency": whole,
        "throughput": rate,
        "memory": memory(batch),
        "weights": weights(batch),
        "kv": kv(batch),
        "cost": price,
        "energy": energy,
        "ridge": times.ridge(batch),
    }
    if batch.memory.adapters:
        every["adapters"] = adapters(batch)
    prefix = "static_" if state else ""
    every |= {f"{prefix}throughput": rate, f"{prefix}cost": price, f"{prefix}energy": energy}
    every["ttft_idle"] = idle = times.ttft_idle(batch, state)
    if state is not None:
        every["ttft_steady"] = steady = times.ttft_steady(state, idle)
        every["tpot_steady"] = between = times.tpot_steady(batch, state, first, each)
        every["throughput"] = rate = times.steady_throughput(
            batch, state, steady, between, replicas
        )
        every["cost"] = times.cost(batch, replicas, rate)
        every["energy"] = times.energy(batch, replicas, rate)
    return every
