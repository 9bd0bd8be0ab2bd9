"""Derivations of the headline figures of a plan."""

from typing import Final

from roofline.errors import UnknownNameError
from roofline.serving.explain.parts import derived, fact, given
from roofline.study.plan.confirm import Confirmed
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.figures import usd_per_mtok
from roofline.study.plan.kinds import Kind
from roofline.study.plan.option import Pool
from roofline.table import Derivation
from roofline.units import MILLION, SECONDS_PER_HOUR

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
    option, rate = done.option, given("rate", demand.rate, "request/s")
    capacity, gpus = _capacity(done), _gpus(done, goal, rate)
    text, parts = "capacity / rate − 1", (capacity, rate)
    out = {"capacity": capacity, "gpus": gpus}
    out["headroom"] = derived("headroom", option.headroom, "", text, parts)
    if option.usd_per_hour:
        out["price"] = price = _price(done, gpus)
        value = usd_per_mtok(option, demand.output)
        assert value is not None, "a price without a price"
        out["cost"] = derived(
            "cost of a million output tokens",
            value,
            "$",
            f"price / {SECONDS_PER_HOUR:g} s/h / (rate · output) · {MILLION:,.0f}",
            (price, rate, given("output", demand.output, "token", "mean of the requests")),
            note="devices are paid by the hour, whether they work or not",
        )
    return out


def _pools(done: Confirmed) -> dict[str, Pool]:
    """Pools by the layout of their instances, those of one layout told apart."""
    out: dict[str, Pool] = {}
    for pool in done.option.pools:
        spelled = pool.candidate.layout.spelled
        out[f"{spelled} of the other pool" if spelled in out else spelled] = pool
    return out


def _capacity(done: Confirmed) -> Derivation:
    parts = [_carries(f"requests of {name}", pool) for name, pool in _pools(done).items()]
    instances = {f"instances of {name}": pool.instances for name, pool in _pools(done).items()}
    texts = [f"{one} · {each.name}" for one, each in zip(instances, parts, strict=True)]
    text = f"min({', '.join(texts)})" if len(texts) > 1 else texts[0]
    basis = parts[0].basis
    value = done.option.capacity
    return derived("capacity", value, "request/s", text, parts, instances, basis=basis)


def _carries(name: str, pool: Pool) -> Derivation:
    source = f"closed form: the most of an instance; {pool.binds} is in the way of more"
    return given(name, pool.carries, "request/s", source, _basis(pool.kind))


def _gpus(done: Confirmed, goal: Goal, rate: Derivation) -> Derivation:
    note = "more or fewer where the simulation of all of them together says so"
    headroom, spares = given("headroom", goal.headroom, ""), float(goal.spares)
    several = [
        derived(
            f"instances of {name}",
            pool.instances,
            "",
            "ceil(rate · (1 + headroom) / requests of each)[ + spares]",
            (rate, headroom, _carries("requests of each", pool)),
            {"spares": spares},
            basis="",
            note=note,
        )
        for name, pool in _pools(done).items()
    ]
    devices = {f"devices of {n}": pool.candidate.devices for n, pool in _pools(done).items()}
    text = " + ".join(f"{one.name} · {n}" for one, n in zip(several, devices, strict=True))
    basis = _basis(done.option.kind)
    return derived("GPUs", done.option.gpus, "", text, several, devices, basis=basis)


def _price(done: Confirmed, gpus: Derivation) -> Derivation:
    option = done.option
    each = {pool.kind.gpu: _device(pool.kind) for pool in option.pools}
    numbers: dict[str, float] = {}
    for pool in option.pools:
        numbers[pool.kind.gpu] = numbers.get(pool.kind.gpu, 0) + pool.gpus
    terms = {f"number of {name}": number for name, number in numbers.items()}
    text = " + ".join(f"number of {name} · price of {name}" for name in numbers)
    assumed = any(one.basis == "assumed" for one in each.values())
    basis = "assumed" if assumed else gpus.basis
    inputs = (gpus, *each.values())
    return derived("price", option.usd_per_hour, "$/h", text, inputs, terms, basis=basis)


def _device(kind: Kind) -> Derivation:
    return fact(
        kind.base.node.gpu, f"price of {kind.gpu}", "price.per_hour", kind.usd_per_hour, "$/h"
    )


def _basis(kind: Kind) -> str:
    return "datasheet" if kind.base.calibration is None else "interpolated"
