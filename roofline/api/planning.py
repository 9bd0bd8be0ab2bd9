"""Plans: the cheapest deployments that keep an SLO under traffic."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roofline.api.amounts import (
    check_contexts,
    check_number,
    headroom_of,
    meant,
    prices_of,
    share_of,
)
from roofline.api.plan_command import simulation
from roofline.api.setting import (
    DEFAULT_MODEL,
    Form,
    check_gpus,
    check_share,
    deployed,
    machine_of,
    network_of,
    options_of,
    roomiest,
)
from roofline.api.simulation import USUAL_DRAFT
from roofline.api.speculation import draft_of, rates_of
from roofline.api.steps import with_steps
from roofline.api.workload import Wanted, drawn
from roofline.bench.calibrations import AUTO, engine_misses
from roofline.cost.deployment import Deployment
from roofline.cost.moe import UNIFORM, Routing
from roofline.errors import InputError, MissingRateError, RooflineError
from roofline.hardware.engine import engine as engine_named
from roofline.hardware.machine import Gpu, Node
from roofline.model.architecture import Architecture
from roofline.serving.asking import check_parts, refuse_unused
from roofline.serving.draft_trees import chain
from roofline.serving.drafts import Draft
from roofline.serving.objectives import parse_slo
from roofline.serving.run.setup import page_of
from roofline.serving.traffic.lengths import Lengths
from roofline.serving.traffic.traffic import Traffic
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.kinds import Kind, PriceUncertainty, Speculation
from roofline.study.plan.plan import plan as planned
from roofline.study.plan.result import result_of
from roofline.table import Result

REQUESTS: Final = 8000
"""Requests that a plan is confirmed with."""


def plan(
    model: str | Architecture = DEFAULT_MODEL,
    gpu: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    gpus: int = 8,
    workload: str | Traffic = "",
    trace: str | Path = "",
    rate: float | None = None,
    cv: float | None = None,
    prompt: int | str | Lengths | None = None,
    output: int | str | Lengths | None = None,
    requests: int | None = None,
    warmup: int | None = None,
    slo: str | None = None,
    headroom: float | str = 0.0,
    confidence: float | str = 0.9,
    seed: int = 0,
    node: str | Node | None = None,
    weights: str | Sequence[str] | None = None,
    kv: str | Sequence[str] = "auto",
    engine: str = "vllm",
    calibration: str = AUTO,
    disaggregated: bool = True,
    draft: str | Architecture = "",
    acceptance: str | float = "",
    draft_length: int = 0,
    mla: Form = "auto",
    routing: Routing = UNIFORM,
    overlap: float = 0.0,
    cuda_graphs: bool = True,
    memory_utilization: float | None = None,
    usd_per_hour: float | Sequence[float] | None = None,
    training_tokens: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Result:
    """Find the cheapest deployment that carries traffic and keeps an SLO.

    Parameters
    ----------
    model, engine, calibration, mla, routing, overlap, cuda_graphs, memory_utilization
        As for `roofline.api.analyze`.
    gpu, weights, kv
        What may be used; several of each to choose among. Without a GPU as for
        `roofline.api.analyze`.
    gpus
        Most devices. [1]
    workload, trace, rate, cv, prompt, output, warmup, seed
        As for `roofline.api.simulate`; requests come in an open loop.
    requests
        How many are simulated to confirm a plan; None for 8000, or all of a trace. [1]
    slo
        Limits, ``"ttft_p99=450ms,tpot_p99=40ms"``; None for those of the workload.
    headroom
        Share by which traffic may grow before a limit is passed, ``0.3`` or ``"30%"``; or
        ``"n+1"`` for replicas that may be lost.
    confidence
        Least probability that all limits hold, ``"90%"``; 0 to plan for what is expected. Rates of
        a datasheet have none. [1]
    node
        That the devices are in; None for the usual ones.
    disaggregated
        Whether prefill and decode may have instances of their own.
    draft, acceptance, draft_length
        As for `roofline.api.simulate`: with a draft every deployment decodes speculatively.
        [1] [token]
    usd_per_hour
        Price of a device, one for all kinds or one for each; None for the assumed ones. [$/h]
    training_tokens
        That the network was trained on, to compare training with inference. [token]
    progress
        Told what is being done.

    Returns
    -------
    Result
        Tables ``verdict``, ``objectives``, ``confidences``, ``runners_up``, ``frontier``,
        ``gpus_by_rate``, ``sensitivity``, ``break_even``, ``candidates``, ``assumptions``;
        ``relaxations`` where nothing fits; ``ops``, ``roofs``, ``memory``, ``capacity``,
        ``batch_curve`` and ``kernels`` of its steps, as `roofline.api.analyze` has them.
        Derivations of ``gpus``, ``price``, ``cost``, ``capacity``, ``headroom``.

    Raises
    ------
    RooflineError
        Anything the user can mend.
    """
    check_gpus(gpus)
    if not draft:
        unused = {"--acceptance": acceptance != "", "--draft-length": bool(draft_length)}
        refuse_unused("plain decoding", unused)
    check_share(memory_utilization)
    share, spares = headroom_of(headroom)
    sure = share_of("confidence", confidence, "write 90%")
    network = network_of(model)
    check_parts(network, mla, routing)
    if network.is_encoder or not network.causal:
        raise InputError(
            f"{network.name} does not answer token by token",
            hint="give a network that decodes; roofline analyze prices a batch of this one",
        )
    options = options_of(mla=mla, routing=routing, overlap=overlap, cuda_graphs=cuda_graphs)
    devices = (gpu,) if gpu is None or isinstance(gpu, (str, Gpu)) else tuple(dict.fromkeys(gpu))
    stores = (weights,) if weights is None or isinstance(weights, str) else tuple(weights)
    caches = (kv,) if isinstance(kv, str) else tuple(kv)
    prices = prices_of(usd_per_hour, len(devices))
    page = page_of(engine_named(engine), sharing=True)
    wanted = Wanted(
        workload,
        trace,
        rate,
        cv,
        prompt=prompt,
        output=output,
        requests=requests or (None if trace else REQUESTS),
        warmup=warmup,
    )
    made, load, usual, said = drawn(wanted, seed, page)
    if load.concurrency:
        raise InputError(
            f"{load.name} has clients that wait for answers, and no rate of its own",
            hint="give --rate: requests a second",
        )
    check_contexts(network, made)
    check_number(made)
    objectives, left_out = meant(parse_slo(usual if slo is None else slo), made)
    accepted = rates_of(acceptance) if draft else None
    demand = Demand(made, load.rate, load.rate, load.warmup, load.name, accepted)
    speculation = None
    if accepted is not None:
        length = draft_length or USUAL_DRAFT
        chain(accepted, length)  # refused before anything is priced
        speculation = Speculation(Drafts(draft, calibration), length, seed)
    refused: list[str] = []
    formats: dict[str, tuple[str | None, str]] = {}

    def kinds(most: int, narrower: str | None) -> tuple[Kind, ...]:
        """Kinds with room for so many devices, that can be."""
        out: list[Kind] = []
        errors: list[RooflineError] = []
        for each, price in zip(devices, prices, strict=True):
            device, box = machine_of(each, node, price)
            for stored in (narrower,) if narrower else stores:
                for cache in caches:
                    try:
                        base = deployed(
                            network,
                            device,
                            box or roomiest(device, most),
                            weights=stored,
                            kv=cache,
                            engine=engine,
                            options=options,
                            calibration=calibration,
                        )
                    except MissingRateError as error:
                        errors.append(error)
                        continue
                    if speculation is not None:
                        speculation.draft(base)  # that there can be none is told at once
                    kind = Kind(
                        base,
                        device.usd_per_hour,
                        memory_utilization,
                        _uncertainty(base),
                        speculation,
                    )
                    formats[kind.name] = stored, cache
                    out.append(kind)
        if not out:
            raise errors[0]
        refused.extend(f"Left out: {error.message}." for error in errors)
        return tuple({kind.name: kind for kind in out}.values())

    every = kinds(gpus, None)
    notes = (*said, *left_out, *dict.fromkeys(refused))
    found = planned(
        every,
        demand,
        Goal(objectives, gpus, share, spares, sure),
        pools=disaggregated,
        tell=progress or (lambda _: None),
    )
    asked = {
        "--workload": workload,
        "--trace": trace,
        "--rate": rate,
        "--cv": cv,
        "--prompt": prompt,
        "--output": output,
        "--requests": wanted.requests,
        "--warmup": warmup,
        "--slo": slo,
        "--seed": seed or None,
        "--engine": engine,
        "--calibration": calibration if calibration != AUTO else None,
        "--draft": draft,
        "--acceptance": acceptance,
        "--draft-length": draft_length or None,
        "--mla": mla if mla != "auto" else None,
        "--routing-skew": routing.skew if not routing.loads else routing,
        "--overlap": overlap or None,
        "--no-cuda-graphs": None if cuda_graphs else True,
        "--memory-utilization": memory_utilization,
    }
    if not routing.skew and not routing.loads:
        del asked["--routing-skew"]
    given = {
        "model": network.name,
        "gpus_allowed": gpus,
        "gpu_names": [kind.gpu for kind in {k.gpu: k for k in every}.values()],
        "gpu_titles": [k.base.node.gpu.title for k in {k.gpu: k for k in every}.values()],
        "weights": list(dict.fromkeys(kind.weights for kind in every)),
        "kv": list(dict.fromkeys(kind.kv for kind in every)),
        "engine": engine,
        "engine_title": every[0].base.engine.title,
        "workload": load.name,
        "workload_title": load.title,
        "arrivals": load.arrivals,
        "prompt": load.prompt,
        "output": load.output,
        "rate_per_s": load.rate,
        "slo": ",".join(f"{each.name}={each.limit_s:g}s" for each in objectives),
        "headroom": share,
        "spares": spares,
        "seed": seed,
        "training_tokens": training_tokens,
        "simulation": simulation(found, network.name, asked, formats),
    }
    result = result_of(
        found,
        kinds,
        given=given,
        training_tokens=training_tokens,
        pools=disaggregated,
        notes=notes,
    )
    return with_steps(result, found)


@dataclass(frozen=True, slots=True)
class Drafts:
    """Draft of any deployment of a plan.

    Attributes
    ----------
    draft
        Draft as it was asked for.
    calibration
        Calibration that prices it.
    """

    draft: str | Architecture
    calibration: str

    def __call__(self, target: Deployment) -> Draft:
        """The draft on a target's devices."""
        return draft_of(self.draft, target, None, None, self.calibration)


def _uncertainty(base: Deployment) -> PriceUncertainty:
    """Errors of the engine's predictions where it was not fitted."""
    misses = engine_misses(base) if base.calibration is not None else {}
    if not misses:
        return PriceUncertainty()
    source = f"hwspecs/calibrations/engines/{base.engine.name}.yaml, spreads on groups left out"
    return PriceUncertainty(misses["tpot_s"], misses["ttft_s"], source)
