"""Derivations of a plan's headline figures, its assumptions, and its break-even with training."""

from typing import Any, Final

from roofline.cost.textbook.training import training_flops, training_time
from roofline.errors import UnknownNameError
from roofline.model import parameters
from roofline.serving.explain.parts import derived, fact, given
from roofline.serving.result import known, stated
from roofline.serving.running_cost import power
from roofline.study.plan.candidate import DeploymentKind
from roofline.study.plan.confirm import SimulatedOption
from roofline.study.plan.curve import SHARES
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.figures import usd_per_mtok
from roofline.study.plan.option import Pool
from roofline.study.plan.plan import Plan
from roofline.study.plan.sensitivity import REFUSED
from roofline.table import Derivation, Table, table
from roofline.units import MILLION, SECONDS_PER_HOUR, dollars

MFU: Final = 0.4
"""Share of the dense 16-bit peak that training reaches. Assumed."""
UNITS: Final = {"tokens": "token", "days": "day"}
REFUSALS: Final = (
    f"what-ifs move the share that is refused by ±{REFUSED:.0%}, as far apart as topics are in "
    "arXiv 2412.19437, section 5.4.3"
)
"""Source of the range of acceptance rates."""
METRICS: Final = ("gpus", "price", "cost", "capacity", "headroom")


def assumed(kind: DeploymentKind) -> bool:
    """True if the price of a kind is assumed."""
    fact = kind.base.node.gpu.facts.get("price.per_hour")
    return fact is not None and fact.basis == "assumed"


def assumptions(plan: Plan) -> Table:
    """Assumptions that the figures rest on, with the source of each."""
    rows = []
    for kind in plan.compared:
        fact, measured = kind.base.node.gpu.facts.get("price.per_hour"), kind.base.calibration
        what = f"price of {kind.gpu}"
        price = stated(what, fact) if fact else known(what, "", "given", "command")
        paid = f"{dollars(kind.usd_per_hour)}/h" if kind.usd_per_hour else "none"
        named = "datasheet rates" if measured is None else measured.name
        rows += [
            price | {"value": paid},
            known(f"node of {kind.gpu}", kind.base.node.title, "datasheet", kind.base.node.name),
            known(f"kernels of {kind.name}", named, kind.base.basis, "calibration"),
        ]
        if kind.uncertainty.source:
            errors = (
                f"{kind.uncertainty.step:.1%} between tokens, "
                f"{kind.uncertainty.first:.1%} to the first"
            )
            note = "log standard deviation on serving that was not fitted to"
            what, source = f"errors of {kind.base.engine.name} predictions", kind.uncertainty.source
            rows.append(known(what, errors, "measured", source, note))
    if (rate := plan.demand.acceptance) is not None:
        what = "acceptance of drafted tokens"
        rows.append(known(what, str(rate), "given", "command", REFUSALS))
    load = f"up to {SHARES[-1]:.0%} of saturation"
    form = f"closed form, confirmed with {len(plan.demand.requests):,} requests simulated"
    rows.append(known("load of a replica", load, "assumed", "planner"))
    rows.append(known("latencies under load", form, "assumed", "planner"))
    return table([dict(t) for t in {tuple(row.items()): None for row in rows}], {})


def break_even(done: SimulatedOption, demand: Demand, tokens: float) -> list[dict[str, Any]]:
    """Output tokens after which inference has cost as much as training, in each currency.

    Training on so many tokens is 6·N·D, inference 2·N for every token that is computed, prompts
    included, N the active parameters; attention is left out of both. Source: Kaplan et al. 2020
    (arXiv 2001.08361), section 2.1.
    """
    kind = done.option.kind
    network, gpu = kind.base.architecture, kind.base.node.gpu
    active = float(parameters.active(network)["all"])
    trained = float(training_flops(active, tokens))
    each = demand.output
    served = 2.0 * active * (float(demand.new_tokens.mean()) + each - 1.0) / each
    rows = [_row("arithmetic", "FLOP", trained, served, demand)]
    peak = next((gpu.rate(kind) for kind in ("bf16", "fp16") if kind in gpu.flops_per_s), 0.0)
    if peak:
        seconds = float(training_time(active, tokens, peak, 1.0, MFU))
        per_s = demand.rate * each
        if gpu.tdp_w:
            watts = float(power(gpu.tdp_w * done.option.gpus, done.utilisation))
            rows.append(_row("energy", "J", seconds * gpu.tdp_w, watts / per_s, demand))
        if paid := usd_per_mtok(done.option, each):
            spent = seconds / SECONDS_PER_HOUR * kind.usd_per_hour
            rows.append(_row("money", "$", spent, paid / MILLION, demand))
    return rows


def _row(what: str, unit: str, trained: float, served: float, demand: Demand) -> dict[str, Any]:
    tokens = trained / served
    return {
        "what": what,
        "unit": unit,
        "training": trained,
        "inference_per_token": served,
        "tokens": tokens,
        "days": tokens / (demand.rate * demand.output) / (24.0 * SECONDS_PER_HOUR),
    }


def check(metric: str) -> None:
    """Refuse a metric that is none of `METRICS` with an UnknownNameError, before a plan is made."""
    if metric not in METRICS:
        raise UnknownNameError(
            f"nothing called {metric!r:.40} to explain", hint=f"metrics: {', '.join(METRICS)}"
        )


def derivations(done: SimulatedOption, demand: Demand, goal: Goal) -> dict[str, Derivation]:
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


def _pools(done: SimulatedOption) -> dict[str, Pool]:
    """Pools by the layout of their instances, those of one layout told apart."""
    out: dict[str, Pool] = {}
    for pool in done.option.pools:
        spelled = pool.candidate.spelled
        out[f"{spelled} of the other pool" if spelled in out else spelled] = pool
    return out


def _capacity(done: SimulatedOption) -> Derivation:
    parts = [_carries(f"requests of {name}", pool) for name, pool in _pools(done).items()]
    instances = {f"instances of {name}": pool.instances for name, pool in _pools(done).items()}
    texts = [f"{one} · {each.name}" for one, each in zip(instances, parts, strict=True)]
    text = f"min({', '.join(texts)})" if len(texts) > 1 else texts[0]
    basis = parts[0].basis
    value = done.option.capacity
    return derived("capacity", value, "request/s", text, parts, instances, basis=basis)


def _carries(name: str, pool: Pool) -> Derivation:
    source = f"closed form: the most of an instance; {pool.binds} is in the way of more"
    return given(name, pool.carries, "request/s", source, pool.kind.base.basis)


def _gpus(done: SimulatedOption, goal: Goal, rate: Derivation) -> Derivation:
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
    basis = done.option.kind.base.basis
    return derived("GPUs", done.option.gpus, "", text, several, devices, basis=basis)


def _price(done: SimulatedOption, gpus: Derivation) -> Derivation:
    option = done.option
    each: dict[str, Derivation] = {}
    numbers: dict[str, float] = {}
    for pool in option.pools:
        gpu, hourly = pool.kind.base.node.gpu, pool.kind.usd_per_hour
        name = f"price of {pool.kind.gpu}"
        each[pool.kind.gpu] = fact(gpu, name, "price.per_hour", hourly, "$/h")
        numbers[pool.kind.gpu] = numbers.get(pool.kind.gpu, 0) + pool.gpus
    terms = {f"number of {name}": number for name, number in numbers.items()}
    text = " + ".join(f"number of {name} · price of {name}" for name in numbers)
    assumed = any(one.basis == "assumed" for one in each.values())
    basis = "assumed" if assumed else gpus.basis
    inputs = (gpus, *each.values())
    return derived("price", option.usd_per_hour, "$/h", text, inputs, terms, basis=basis)
