"""Derivations of the headline figures of a plan."""

from typing import Final

from roofline.errors import UnknownNameError
from roofline.serving.explain.parts import given
from roofline.study.plan.confirm import Confirmed
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.figures import usd_per_mtok
from roofline.study.plan.kinds import Kind
from roofline.study.plan.option import Pool
from roofline.table import Derivation
from roofline.units import MILLION, SECONDS_PER_HOUR, significant

METRICS: Final = ("gpus", "price", "cost", "capacity", "headroom")


def check(metric: str) -> None:
    """Refuse a metric that no plan explains, before it is made.

    Raises:
        UnknownNameError: It is none of `METRICS`.
    """
    if metric not in METRICS:
        raise UnknownNameError(
            f"nothing called {metric!r:.40} to explain", hint=f"metrics: {', '.join(METRICS)}"
        )


def derivations(done: Confirmed, demand: Demand, goal: Goal) -> dict[str, Derivation]:
    """Derivations by name: capacity, gpus, price, cost, headroom."""
    option = done.option
    rate = given("rate", demand.rate, "request/s")
    capacity = _capacity(done)
    gpus = _gpus(done, goal, rate)
    out = {"capacity": capacity, "gpus": gpus}
    out["headroom"] = Derivation(
        "headroom",
        option.headroom,
        "",
        formula="capacity / rate − 1",
        substituted=f"{significant(capacity.value)} / {significant(demand.rate)} − 1",
        inputs=(capacity, rate),
        basis=capacity.basis,
    )
    if option.usd_per_hour:
        price = _price(done, gpus)
        value = usd_per_mtok(option, demand.output)
        assert value is not None, "a price without a price"
        answers = Derivation("output", demand.output, "token", source="mean of the requests")
        out["price"] = price
        out["cost"] = Derivation(
            "cost of a million output tokens",
            value,
            "$",
            formula="price / 3600 s / (rate · output) · 10⁶",
            substituted=f"{option.usd_per_hour:.4g} / {SECONDS_PER_HOUR:.0f} / "
            f"({significant(demand.rate)} · {significant(demand.output)}) · {MILLION:.0f}",
            inputs=(price, rate, answers),
            basis=price.basis,
            note="devices are paid by the hour, whether they work or not",
        )
    return out


def _capacity(done: Confirmed) -> Derivation:
    option = done.option
    parts = tuple(
        _carries(f"most requests of an instance, {pool.candidate.layout.spelled}", pool)
        for pool in option.pools
    )
    texts = [f"{pool.instances} · {significant(pool.carries)}" for pool in option.pools]
    many = len(texts) > 1
    return Derivation(
        "capacity",
        option.capacity,
        "request/s",
        formula="min over pools of instances · requests of each"
        if many
        else "replicas · requests of each",
        substituted=f"min({', '.join(texts)})" if many else texts[0],
        inputs=parts,
        basis=parts[0].basis,
    )


def _carries(name: str, pool: Pool) -> Derivation:
    source = f"closed form; {pool.binds} is in the way of more"
    return Derivation(name, pool.carries, "request/s", source=source, basis=_basis(pool.kind))


def _gpus(done: Confirmed, goal: Goal, rate: Derivation) -> Derivation:
    option = done.option
    texts, inputs = [], []
    for pool in option.pools:
        devices = pool.candidate.devices
        texts.append(f"{pool.instances} · {devices}")
        spare = f" + {goal.spares} spare" if goal.spares else ""
        inputs.append(
            Derivation(
                f"instances of {pool.candidate.layout.spelled}",
                pool.instances,
                "",
                formula="⌈rate · (1 + headroom) / requests of each⌉ + spares",
                substituted=f"⌈{significant(option.rate)} · {1 + goal.headroom:g} / "
                f"{significant(pool.carries)}⌉{spare}",
                inputs=(
                    rate,
                    given("headroom", goal.headroom, ""),
                    _carries("requests of each", pool),
                ),
                note="more or fewer where the simulation of all of them together says so",
            )
        )
    return Derivation(
        "GPUs",
        option.gpus,
        "",
        formula="Σ over pools of instances · devices of each",
        substituted=" + ".join(texts),
        inputs=tuple(inputs),
        basis=_basis(option.kind),
    )


def _price(done: Confirmed, gpus: Derivation) -> Derivation:
    option = done.option
    each = tuple(_device(kind) for kind in {p.kind.gpu: p.kind for p in option.pools}.values())
    texts = [f"{pool.gpus} · {pool.kind.usd_per_hour:g}" for pool in option.pools]
    return Derivation(
        "price",
        option.usd_per_hour,
        "$/h",
        formula="Σ GPUs · price of each",
        substituted=" + ".join(texts),
        inputs=(gpus, *each),
        basis="assumed" if any(one.basis == "assumed" for one in each) else gpus.basis,
    )


def _device(kind: Kind) -> Derivation:
    fact = kind.base.node.gpu.facts.get("price.per_hour")
    name = f"price of {kind.gpu}"
    if fact is None:
        return given(name, kind.usd_per_hour, "$/h")
    source = ", ".join(text for text in (fact.source, fact.where, fact.location) if text)
    return Derivation(
        name, kind.usd_per_hour, "$/h", source=source, basis=fact.basis, note=fact.note
    )


def _basis(kind: Kind) -> str:
    return "datasheet" if kind.base.calibration is None else "interpolated"
