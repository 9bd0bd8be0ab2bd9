"""Derivation of each headline figure of a static batch, down to facts with sources."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from roofline.errors import UnknownNameError
from roofline.serving.explain.memory import kv, memory, weights
from roofline.serving.explain.parts import worst
from roofline.serving.explain.times import cost, energy, latency, ridge, throughput, tpot, ttft
from roofline.serving.static import StaticBatch
from roofline.table import Derivation

if TYPE_CHECKING:
    from roofline.serving.steady import SteadyState

__all__ = ["METRICS", "explain", "explain_all", "worst"]

METRICS: Final[Mapping[str, Callable[[StaticBatch], Derivation]]] = {
    "ttft": ttft,
    "tpot": tpot,
    "latency": latency,
    "throughput": throughput,
    "memory": memory,
    "weights": weights,
    "kv": kv,
    "cost": cost,
    "energy": energy,
    "ridge": ridge,
}


def explain(batch: StaticBatch, metric: str) -> Derivation:
    """Derivation of one metric.

    Raises:
        UnknownNameError: There is no such metric.
    """
    if metric not in METRICS:
        raise UnknownNameError(
            f"nothing called {metric!r} to explain", hint=f"metrics: {', '.join(METRICS)}"
        )
    return METRICS[metric](batch)


def explain_all(
    batch: StaticBatch, replicas: int = 1, state: "SteadyState | None" = None
) -> dict[str, Derivation]:
    """Derivations of every metric; throughput, cost and energy are of all replicas.

    With a steady state these are its own, and those of the static batch have ``static_`` before
    their names.
    """
    from roofline.serving.explain import steady

    rate = throughput(batch, replicas)
    rates = {"throughput": rate}
    rates |= {"cost": cost(batch, replicas, rate), "energy": energy(batch, replicas, rate)}
    every = {name: rates.get(name) or derive(batch) for name, derive in METRICS.items()}
    prefix = "static_" if state else ""
    every |= {prefix + name: derived for name, derived in rates.items()}
    every["ttft_idle"] = idle = steady.ttft_idle(batch, state)
    if state is not None:
        every["ttft_steady"] = first = steady.ttft_steady(state, idle)
        every["tpot_steady"] = each = steady.tpot_steady(batch, state)
        every["throughput"] = rate = steady.throughput(batch, state, first, each, replicas)
        every["cost"] = cost(batch, replicas, rate)
        every["energy"] = energy(batch, replicas, rate)
    return every
