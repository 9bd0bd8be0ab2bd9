"""Derivation of each headline figure of a static batch, down to facts with sources."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from roofline.serving.explain import times
from roofline.serving.explain.memory import adapters, kv, memory, weights
from roofline.serving.static import StaticBatch
from roofline.table import Derivation

if TYPE_CHECKING:
    from roofline.serving.steady import SteadyState

METRICS: Final[Mapping[str, Callable[[StaticBatch], Derivation]]] = {
    "ttft": times.ttft,
    "tpot": times.tpot,
    "latency": times.latency,
    "throughput": times.throughput,
    "memory": memory,
    "weights": weights,
    "kv": kv,
    "cost": times.cost,
    "energy": times.energy,
    "ridge": times.ridge,
}


def explain_all(
    batch: StaticBatch, replicas: int = 1, state: "SteadyState | None" = None
) -> dict[str, Derivation]:
    """Derivations of every metric; throughput, cost and energy are of all replicas.

    With a steady state these are its own, and those of the static batch have ``static_`` before
    their names.
    """
    rate = times.throughput(batch, replicas)
    rates = {"throughput": rate, "cost": times.cost(batch, replicas, rate)}
    rates["energy"] = times.energy(batch, replicas, rate)
    every = {name: rates.get(name) or derive(batch) for name, derive in METRICS.items()}
    if batch.memory.adapters:
        every["adapters"] = adapters(batch)
    prefix = "static_" if state else ""
    every |= {prefix + name: derived for name, derived in rates.items()}
    every["ttft_idle"] = idle = times.ttft_idle(batch, state)
    if state is not None:
        every["ttft_steady"] = first = times.ttft_steady(state, idle)
        every["tpot_steady"] = each = times.tpot_steady(batch, state)
        every["throughput"] = rate = times.steady_throughput(batch, state, first, each, replicas)
        every["cost"] = times.cost(batch, replicas, rate)
        every["energy"] = times.energy(batch, replicas, rate)
    return every
