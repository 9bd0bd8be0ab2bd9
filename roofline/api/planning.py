"""Plans: the cheapest deployments that keep an SLO under traffic."""

from dataclasses import dataclass
from typing import Final

from roofline.api import setting
from roofline.api.amounts import (
    check_contexts,
    check_number,
    headroom_of,
    meant,
    prices_of,
    share_of,
)
from roofline.api.parameters import Planning, shared
from roofline.api.plan_command import simulation
from roofline.api.question import question
from roofline.api.simulation import USUAL_DRAFT, check_decodes, check_undrafted
from roofline.api.speculation import draft_of, rates_of
from roofline.api.steps import with_steps
from roofline.api.workload import Wanted, drawn
from roofline.bench.calibrations import engine_misses
from roofline.cost.deployment import Deployment
from roofline.cost.measured import AUTO
from roofline.errors import InputError, MissingRateError, RooflineError
from roofline.hardware.engine import engine as engine_named
from roofline.hardware.machine import Gpu
from roofline.model.architecture import Architecture
from roofline.serving.asking import check_parts
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


@question(Planning, Lengths=Lengths, Traffic=Traffic)
def plan(asked: Planning) -> Result:
    """Find the cheapest deployment that carries traffic and keeps an SLO.

    Returns:
        Result: Tables ``verdict``, ``objectives``, ``confidences``, ``runners_up``, ``frontier``,
            ``gpus_by_rate``, ``sensitivity``, ``break_even``, ``candidates``, ``assumptions``;
            ``relaxations`` where nothing fits; ``ops``, ``roofs``, ``memory``, ``capacity``,
            ``batch_curve`` and ``kernels`` of its steps, as `roofline.api.analyze` has them.
            Derivations of ``gpus``, ``price``, ``cost``, ``capacity``, ``headroom``.
    """
    gpu, weights, kv = asked.gpu, asked.weights, asked.kv
    setting.check_gpus(asked.gpus)
    check_undrafted(asked)
    setting.check_share(asked.memory_utilization)
    share, spares = headroom_of(asked.headroom)
    sure = share_of("confidence", asked.confidence, "write 90%")
    network = setting.network_of(asked.model)
    check_parts(network, asked.mla, asked.routing)
    check_decodes(network)
    options = setting.options_asked(asked)
    devices = (gpu,) if gpu is None or isinstance(gpu, (str, Gpu)) else tuple(dict.fromkeys(gpu))
    stores = (weights,) if weights is None or isinstance(weights, str) else tuple(weights)
    caches = (kv,) if isinstance(kv, str) else tuple(kv)
    prices = prices_of(asked.usd_per_hour, len(devices))
    page = page_of(engine_named(asked.engine), sharing=True)
    requests = asked.requests or (None if asked.trace else REQUESTS)
    wanted = Wanted(**shared(asked, Wanted) | {"requests": requests})
    made, load, usual, said = drawn(wanted, asked.seed, page)
    if load.concurrency:
        raise InputError(
            f"{load.name} has clients that wait for answers, and no rate of its own",
            hint="give --rate: requests a second",
        )
    check_contexts(network, made)
    check_number(made)
    objectives, left_out = meant(parse_slo(usual if asked.slo is None else asked.slo), made)
    accepted = rates_of(asked.acceptance) if asked.draft else None
    demand = Demand(made, load.rate, load.rate, load.warmup, load.name, accepted)
    speculation = None
    if accepted is not None:
        length = asked.draft_length or USUAL_DRAFT
        chain(accepted, length)  # refused before anything is priced
        speculation = Speculation(Drafts(asked.draft, asked.calibration), length, asked.seed)
    refused: list[str] = []
    formats: dict[str, tuple[str | None, str]] = {}

    def kinds(most: int, narrower: str | None) -> tuple[Kind, ...]:
        """Kinds with room for so many devices, that can be."""
        out: list[Kind] = []
        errors: list[RooflineError] = []
        for each, price in zip(devices, prices, strict=True):
            device, box = setting.machine_of(each, asked.node, price)
            for stored in (narrower,) if narrower else stores:
                for cache in caches:
                    try:
                        base = setting.deployed(
                            network,
                            device,
                            box or setting.roomiest(device, most),
                            weights=stored,
                            kv=cache,
                            engine=asked.engine,
                            options=options,
                            calibration=asked.calibration,
                        )
                    except MissingRateError as error:
                        errors.append(error)
                        continue
                    if speculation is not None:
                        speculation.draft(base)  # that there can be none is told at once
                    kind = Kind(
                        base,
                        device.usd_per_hour,
                        asked.memory_utilization,
                        _uncertainty(base),
                        speculation,
                    )
                    formats[kind.name] = stored, cache
                    out.append(kind)
        if not out:
            raise errors[0]
        refused.extend(f"Left out: {error.message}." for error in errors)
        return tuple({kind.name: kind for kind in out}.values())

    every = kinds(asked.gpus, None)
    notes = (*said, *left_out, *dict.fromkeys(refused))
    found = planned(
        every,
        demand,
        Goal(objectives, asked.gpus, share, spares, sure),
        pools=asked.disaggregated,
        tell=asked.progress or (lambda _: None),
    )
    routing = asked.routing
    flags = {
        "--workload": asked.workload,
        "--trace": asked.trace,
        "--rate": asked.rate,
        "--cv": asked.cv,
        "--prompt": asked.prompt,
        "--output": asked.output,
        "--requests": requests,
        "--warmup": asked.warmup,
        "--slo": asked.slo,
        "--seed": asked.seed or None,
        "--engine": asked.engine,
        "--calibration": asked.calibration if asked.calibration != AUTO else None,
        "--draft": asked.draft,
        "--acceptance": asked.acceptance,
        "--draft-length": asked.draft_length or None,
        "--mla": asked.mla if asked.mla != "auto" else None,
        "--routing-skew": (routing if routing.loads else routing.skew) or None,
        "--overlap": asked.overlap or None,
        "--no-cuda-graphs": None if asked.cuda_graphs else True,
        "--memory-utilization": asked.memory_utilization,
    }
    given = {
        "model": network.name,
        "gpus_allowed": asked.gpus,
        "gpu_names": [kind.gpu for kind in {k.gpu: k for k in every}.values()],
        "gpu_titles": [k.base.node.gpu.title for k in {k.gpu: k for k in every}.values()],
        "weights": list(dict.fromkeys(kind.weights for kind in every)),
        "kv": list(dict.fromkeys(kind.kv for kind in every)),
        "engine": asked.engine,
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
        "seed": asked.seed,
        "training_tokens": asked.training_tokens,
        "simulation": simulation(found, network.name, flags, formats),
    }
    result = result_of(
        found,
        kinds,
        given=given,
        training_tokens=asked.training_tokens,
        pools=asked.disaggregated,
        notes=notes,
    )
    return with_steps(result, found)


@dataclass(frozen=True, slots=True)
class Drafts:
    """Draft of any deployment of a plan."""

    draft: str | Architecture
    """Draft as it was asked for."""
    calibration: str
    """Calibration that prices it."""

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
