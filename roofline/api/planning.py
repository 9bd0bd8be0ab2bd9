"""Plans: the cheapest deployments that keep an SLO under traffic."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from roofline.api import setting
from roofline.api.curves import at_peak, following, peaked
from roofline.api.halls import ceilings_of, check_owned, filled_halls, housed
from roofline.api.jobs import job_of, with_job
from roofline.api.kinds import Drafts, Kinds
from roofline.api.parameters import Planning
from roofline.api.question import parameters_of, question, refuse_unused, shared
from roofline.api.setting import check_parts
from roofline.api.simulation import USUAL_DRAFT, block_diffusion, check_decoding, within_context
from roofline.api.speculation import length_of, rates_of
from roofline.api.steps import with_steps
from roofline.api.what_ifs import changed, changes_of
from roofline.api.workload import OfferedLoad, attached, drawn
from roofline.bench.engine_profiles import profile_note
from roofline.errors import InfeasibleError, InputError
from roofline.hardware.engine import engine as engine_named
from roofline.hardware.machine import Gpu
from roofline.model.tower import TEXT_ALONE
from roofline.records import replace
from roofline.serving.adapters import load_notes, price_notes
from roofline.serving.draft_trees import chain
from roofline.serving.encoders import sending
from roofline.serving.facility import Facility
from roofline.serving.notes import beam_notes
from roofline.serving.objectives import Objective, parse_slo
from roofline.serving.requests import Requests
from roofline.serving.run.result import ServiceLoad
from roofline.serving.simulate.server import page_of
from roofline.serving.traffic.lengths import Lengths
from roofline.serving.traffic.rate_curve import RateCurve
from roofline.serving.traffic.traffic import Traffic
from roofline.serving.workload import check_decodes
from roofline.study.commands import command_line
from roofline.study.plan.by_length import by_length
from roofline.study.plan.by_length import said as length_said
from roofline.study.plan.by_length import tabulated as length_table
from roofline.study.plan.candidate import DeploymentKind, PlannedDrafts
from roofline.study.plan.day import FollowRule
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.encoder_pools import encoder_pools, refuse_sessions
from roofline.study.plan.encoder_pools import said as encoders_said
from roofline.study.plan.encoder_pools import tabulated as encoders_table
from roofline.study.plan.hall import Ceiling, Hall
from roofline.study.plan.job import Job
from roofline.study.plan.plan import Plan
from roofline.study.plan.plan import plan as planned
from roofline.study.plan.result import result_of
from roofline.study.plan.what_if import WhatIf
from roofline.study.plan.what_if import said as what_ifs_said
from roofline.study.plan.what_if import tabulated as beside
from roofline.table import Result
from roofline.units import counted

FEWEST: Final = 100
"""Requests that a plan takes at least: of fewer, a 99th percentile is just the slowest one."""

MOST: Final = 8
"""Devices that a plan has at most where nothing is said. [1]"""
REQUESTS: Final = 8000
"""Requests that a plan is confirmed with."""

SIMULATED: Final = (
    "workload", "trace", "trace_sessions", "drop_over_length", "clip", "rate", "sessions_per_day",
    "cv", "prompt", "output", "requests", "samples", "beams",
    "denoising_steps", "block", "images", "image_size", "recordings", "recording_s", "warmup",
    "slo", "seed", "engine",
    "calibration", "profile", "draft", "acceptance", "acceptance_spread", "draft_length",
    "temperature", "top_k", "top_p", "adapters", "lora_rank", "lora_targets", "max_loras",
    "adapter_skew", "mla", "routing_skew", "redundant_experts", "host_cache", "nvme_cache",
    "overlap", "no_cuda_graphs", "memory_utilization",
)  # fmt: skip
"""Options that a plan and the simulation of its deployment have in common."""


def meant(
    objectives: tuple[Objective, ...], requests: Requests
) -> tuple[tuple[Objective, ...], tuple[str, ...]]:
    """Objectives that answers can have, and the reason why others are left out."""
    if requests.output.max() > 1:
        return objectives, ()
    kept = tuple(each for each in objectives if each.metric != "tpot")
    names = [each.name for each in objectives if each.metric == "tpot"]
    why = "an answer of one token has no time between tokens"
    return kept, tuple(f"Left out: {name}, as {why}." for name in names)


def check_number(requests: Requests) -> None:
    """Refuse so few requests that their percentiles say nothing."""
    count = len(requests.arrival)
    if count < FEWEST:
        raise InputError(
            f"{counted(count, 'request')} {'is' if count == 1 else 'are'} too few to plan for",
            hint=f"give at least {FEWEST}, as limits are on percentiles: `requests=8000`, "
            "or a longer trace",
        )


def headroom_of(asked: float | str) -> tuple[float, int]:
    """Share by which traffic may grow, and replicas that may be lost.

    Raises:
        InputError: It is neither.

    Examples:
        >>> headroom_of("30%"), headroom_of("n+1"), headroom_of(0.5)
        ((0.3, 0), (0.0, 1), (0.5, 0))
    """
    hint = "write 30%, or n+1 for a replica to spare"
    text = str(asked).strip().lower().replace(" ", "")
    if not text.startswith("n+"):
        return share_of("headroom", asked, hint), 0
    if not text[2:].isdecimal() or len(text) > 6:
        raise InputError(f"headroom {asked!r:.40} is no number of replicas", hint=hint)
    return 0.0, int(text[2:])


def share_of(what: str, asked: float | str, hint: str) -> float:
    """A share, written as such or in percent; InputError where it is neither."""
    text = str(asked).strip()
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise InputError(f"{what} {asked!r:.40} is no share", hint=hint) from None
    return value / 100.0 if text.endswith("%") else value


def simulation(
    plan: Plan, model: str, asked: Mapping[str, Any], formats: Mapping[str, tuple[str | None, str]]
) -> str:
    """A ``roofline simulate`` line whose figures are those of the recommended deployment.

    Empty where nothing fits, where two pools are recommended, which no such line has words for,
    and where something was asked for by an object, which none can name. Options that are None or
    empty are left out; formats of weights and cache are by the name of a kind.
    """
    if plan.best is None or plan.best.option.wires is not None:
        return ""
    (pool,) = plan.best.option.pools
    weights, cache = formats[pool.kind.name]
    options = {
        "gpu": pool.kind.gpu,
        "node": pool.kind.base.node.name,
        "gpus": pool.gpus,
        "layout": pool.candidate.spelled,
        "max_sequences": pool.server.max_sequences * pool.kind.base.options.sampling.beams,
        "token_budget": pool.server.token_budget,
        "weights": weights,
        "kv": cache,
        **asked,
    }
    if any(not isinstance(each, (str, int, float, Path)) for each in options.values() if each):
        return ""
    return command_line("simulate", model, options)


@question(Planning, Lengths=Lengths, Traffic=Traffic)
def plan(asked: Planning) -> Result:
    """Find the cheapest deployment that carries traffic and keeps an SLO.

    Returns:
        Result: Tables ``verdict``, ``objectives``, ``confidences``, ``runners_up``, ``frontier``,
            ``gpus_by_rate``, ``sensitivity``, ``break_even``, ``candidates``, ``assumptions``;
            ``relaxations`` where nothing fits; ``fleets`` and ``by_hour`` over a rate curve;
            ``ops``, ``roofs``, ``memory``, ``capacity``, ``batch_curve`` and ``kernels`` of its
            steps, as `roofline.api.analyze` has them.
            Derivations of ``gpus``, ``price``, ``cost``, ``capacity``, ``headroom``.
    """
    problem = _problem(asked)
    search = _search(problem)
    result = _answer(problem, search)
    return _compared(problem, search.plan, result) if asked.what_if else result


class Problem(Struct, frozen=True):
    """Question of a plan: the traffic, the kinds of deployment and the limits."""

    asked: Planning
    wanted: OfferedLoad
    """Traffic at its peak."""
    load: ServiceLoad
    curve: RateCurve | None
    """Rates that the fleet follows; None for the one rate."""
    follow: FollowRule | None
    demand: Demand
    goal: Goal
    facility: Facility | None
    ceilings: Mapping[str, Ceiling]
    filling: bool
    """Whether the rate is the most that the hall carries."""
    kinds: Kinds
    every: tuple[DeploymentKind, ...]
    """Kinds of deployment within the most devices."""
    pools: bool
    """Whether prefill and decode may have pools of their own."""
    notes: tuple[str, ...]
    job: Job | None = None
    """Tokens that have to be through in a time; None for traffic that goes on."""
    trained: float | None = None
    """Tokens that the network was trained on; None leaves the comparison out. [token]"""


class Search(Struct, frozen=True):
    """Plan that was found, and the halls that it fills."""

    plan: Plan
    load: ServiceLoad
    chosen: Hall | None = None
    halls: Mapping[str, Hall] = {}


def _problem(asked: Planning) -> Problem:
    """Question as it was asked, checked and resolved; RooflineError where it has no meaning."""
    gpu, weights, kv = asked.gpu, asked.weights, asked.kv
    setting.check_gpus(asked.gpus)
    facility = setting.facility_of(asked, wanted=asked.power != "" or asked.own is not None)
    check_owned(asked)
    check_decoding(asked)
    for text in _texts(asked):
        changes_of(text)
    setting.check_share(asked.memory_utilization)
    share, spares = headroom_of(asked.headroom)
    job = job_of(asked)
    trained = setting.tokens_of("training_tokens", asked.training_tokens)
    sure = share_of("confidence", asked.confidence, "write 90%")
    network = setting.network_of(asked.model)
    check_parts(network, asked.mla, asked.routing)
    check_decodes(network, denoised=asked.denoising_steps > 0)
    options = setting.options_asked(asked)
    devices = (gpu,) if gpu is None or isinstance(gpu, (str, Gpu)) else tuple(dict.fromkeys(gpu))
    stores = (weights,) if weights is None or isinstance(weights, str) else tuple(weights)
    caches = (kv,) if isinstance(kv, str) else tuple(kv)
    prices = setting.prices_of(asked.usd_per_hour, devices, asked.node)
    requests = asked.requests or (None if asked.trace else REQUESTS)
    wanted = OfferedLoad(**shared(asked, OfferedLoad) | {"requests": requests})
    wanted, options = attached(wanted, options, network)
    wanted, curve = at_peak(wanted)
    reserved = setting.prices_of(asked.reserved_price, devices, asked.node, "reserved_price")
    follow = following(asked, curve, devices, reserved)
    paced = (asked.rate, asked.sessions_per_day, curve)
    rated = bool(asked.trace) or any(each is not None for each in paced)
    filling = (asked.power != "" or asked.budget is not None) and not rated and job is None
    if filling or job is not None:  # at any rate, until that of the hall or the job is known
        wanted = replace(wanted, rate=1.0)
    if job is not None:
        wanted = replace(wanted, rate=job.rate(drawn(wanted, asked.seed, _page(asked))[0]))
    made, load, usual, said = drawn(wanted, asked.seed, _page(asked))
    if load.concurrency:
        raise InputError(
            f"{load.name} has clients that wait for answers, and no rate of its own",
            hint="give `rate`: requests a second",
        )
    made, load, cut = within_context(network, made, load, asked)
    said = (*said, *cut, *beam_notes(options.sampling))
    check_number(made)
    objectives: tuple[Objective, ...] = ()
    left_out: tuple[str, ...] = ()
    if job is None:
        objectives, left_out = meant(parse_slo(usual if asked.slo is None else asked.slo), made)
    accepted = rates_of(asked.acceptance, asked.acceptance_spread) if asked.draft else None
    demand = Demand(made, load.rate, load.rate, load.warmup, load.name, accepted)
    speculation = None
    if accepted is not None:
        length = length_of(asked.draft_length, "draft_length")
        if length is None:
            raise InputError(
                "a plan with drafts that follow the batch is not searched",
                hint="give a `draft_length`; a simulation of the plan takes auto",
            )
        length = length or USUAL_DRAFT
        chain(accepted, length)  # refused before anything is priced
        speculation = PlannedDrafts(Drafts(asked.draft, asked.calibration), length, asked.seed)
    if asked.length_pools:
        names = ("power", "budget", "rate_curve")
        refuse_unused(
            "a plan of pools by length", {f"`{name}`": bool(getattr(asked, name)) for name in names}
        )
    if asked.encoder_pools:
        unused = {f"`{name}`": bool(getattr(asked, name)) for name in ("power", "budget", "job")}
        unused |= {"`rate_curve`": bool(asked.rate_curve), "`draft`": bool(asked.draft)}
        refuse_unused("a plan with pools for pictures", unused)
        if not (options.media.images or options.media.recordings):
            raise InputError(
                "pools for pictures, and prompts without any",
                hint="give `images` or `recordings`, or leave out `encoder_pools`",
            )
        refuse_sessions(made)  # before anything is priced
    if facility is not None:
        refuse_unused("a question of power and energy", {"`draft`": bool(asked.draft)})
    ceilings = ceilings_of(asked, facility, devices, prices)
    allowed = max((each.gpus for each in ceilings.values()), default=asked.gpus or MOST)
    blocks = block_diffusion(asked, made) if asked.denoising_steps else None
    kinds = Kinds(
        asked,
        network,
        options,
        devices,
        prices,
        stores,
        caches,
        ceilings,
        facility,
        speculation,
        blocks,
    )
    every = kinds(allowed)
    if asked.encoder_pools:
        sending(*(each.base for each in every))  # refused before anything is priced
    most = {name: each.gpus for name, each in ceilings.items()}
    told = dict.fromkeys(profile_note(kind.base) for kind in every)
    notes = [*said, *left_out, *dict.fromkeys(kinds.refused), *filter(None, told)]
    lora = options.lora
    apart = asked.disaggregated and not lora.moves and blocks is None
    if asked.disaggregated and not apart:
        why = "adapters are loaded on demand" if lora.moves else "answers are denoised"
        notes.append(f"Pools apart are not tried where {why}.")
    if asked.ffn_pools:
        unused = {"`disaggregated=False`": not asked.disaggregated, "`draft`": bool(asked.draft)}
        unused |= {"`max_loras`": lora.moves, "`denoising_steps`": blocks is not None}
        refuse_unused("a plan with pools of feed-forward parts", unused)
    if lora.adapters:
        notes += load_notes(every[0].base)[:1]
        notes += price_notes(every[0].base)
    return Problem(
        asked,
        wanted,
        load,
        curve,
        follow,
        demand,
        Goal(objectives, allowed, share, spares, sure, most, job is not None),
        facility,
        ceilings,
        filling,
        kinds,
        every,
        apart,
        tuple(notes),
        job,
        trained,
    )


def _search(problem: Problem) -> Search:
    """Cheapest plan at the rate that is asked, or at the most that fills the hall."""
    asked, demand, goal = problem.asked, problem.demand, problem.goal
    tell = asked.progress or (lambda _: None)
    pools, ffn = problem.pools, asked.ffn_pools
    if not problem.filling:
        found = planned(problem.every, demand, goal, pools=pools, ffn=ffn, tell=tell)
        return Search(found, problem.load)
    halls, chosen = filled_halls(
        problem.every, problem.ceilings, demand, goal, pools=pools, ffn=ffn, tell=tell
    )
    at = replace(problem.wanted, rate=chosen.plan.demand.rate)
    _, load, _, _ = drawn(at, asked.seed, _page(asked))
    return Search(chosen.plan, load, chosen, halls)


def _answer(problem: Problem, search: Search) -> Result:
    """Tables, sentences and derivations of a plan."""
    asked, curve, load, every = problem.asked, problem.curve, search.load, problem.every
    model, routing = problem.kinds.network.name, asked.routing
    values = vars(asked) | {
        "rate": load.rate
        if problem.filling or problem.job is not None
        else asked.rate
        if curve is None
        else curve.peak,
        "requests": problem.wanted.requests,
        "lora_rank": asked.lora_rank if asked.adapters else None,
        "routing_skew": (routing if routing.loads else routing.skew) or None,
        "redundant_experts": routing.redundant or None,
        "no_cuda_graphs": None if asked.cuda_graphs else True,
        "profile": str(asked.profile) if asked.profile else None,
    }
    defaults = {name: each.value for name, (_, each) in parameters_of(Planning).items()}
    defaults |= {"engine": None, "lora_rank": None}  # which are told whatever they are
    same = {name: values[name] for name in SIMULATED if values[name] != defaults.get(name)}
    given = {
        "model": model,
        "gpus_allowed": problem.goal.gpus,
        "gpu_names": [kind.gpu for kind in {k.gpu: k for k in every}.values()],
        "gpu_titles": [k.base.node.gpu.title for k in {k.gpu: k for k in every}.values()],
        "weights": list(dict.fromkeys(kind.weights for kind in every)),
        "kv": list(dict.fromkeys(kind.kv for kind in every)),
        "engine": asked.engine,
        "engine_title": every[0].base.engine.title,
        "workload": load.name,
        "workload_title": load.title,
        "arrivals": load.arrivals + ("" if curve is None else peaked(curve)),
        "prompt": load.prompt,
        "output": load.output,
        "rate_per_s": load.rate,
        "slo": ",".join(f"{each.name}={each.limit_s:g}s" for each in problem.goal.objectives),
        "headroom": problem.goal.headroom,
        "spares": problem.goal.spares,
        "seed": asked.seed,
        "training_tokens": problem.trained,
        "simulation": ""
        if curve is not None and not asked.rate_curve  # no option makes its curve a rate
        else simulation(search.plan, model, same, problem.kinds.formats),
    }
    result = result_of(
        search.plan,
        problem.kinds,
        given=given,
        training_tokens=problem.trained,
        pools=problem.pools,
        notes=problem.notes,
        follow=problem.follow,
    )
    if asked.length_pools:
        whole, tell = search.plan, asked.progress or (lambda _: None)
        splits = by_length(
            every, whole.demand, problem.goal, pools=problem.pools, ffn=asked.ffn_pools, tell=tell
        )
        summary = (*result.metadata["summary"], length_said(splits, whole))
        result = replace(
            result,
            tables={**result.tables, "length_pools": length_table(splits, whole)},
            metadata={**result.metadata, "summary": summary},
        )
    if asked.encoder_pools:
        text = replace(problem.kinds, options=replace(problem.kinds.options, media=TEXT_ALONE))
        found = encoder_pools(
            every,
            text(problem.goal.gpus),
            search.plan.demand,
            problem.goal,
            pools=problem.pools,
            tell=asked.progress or (lambda _: None),
        )
        summary = (*result.metadata["summary"], encoders_said(found, search.plan))
        result = replace(
            result,
            tables={**result.tables, "encoder_pools": encoders_table(found, search.plan)},
            metadata={**result.metadata, "summary": summary},
        )
    if problem.job is not None and search.plan.best is not None:
        result = with_job(result, problem.job, search.plan)
    if problem.facility is not None or problem.ceilings:
        result = housed(
            asked,
            result,
            search.plan,
            problem.facility,
            search.chosen,
            search.halls,
            problem.ceilings,
        )
    return with_steps(result, search.plan)


def _texts(asked: Planning) -> Sequence[str]:
    """Changes of each what-if, as they were asked."""
    return (asked.what_if,) if isinstance(asked.what_if, str) else asked.what_if


def _compared(problem: Problem, base: Plan, result: Result) -> Result:
    """The result of a plan beside plans of changed questions."""
    asked, every = problem.asked, [WhatIf("", base)]
    if problem.filling or problem.curve is not None:
        raise InputError(
            "what-ifs of a hall that is filled, or over a rate curve",
            hint="give `rate` for `what_if`",
        )
    for text in _texts(asked):
        try:
            other = _problem(changed(asked, text, problem.load.rate, asked.gpus or MOST))
            every.append(WhatIf(text, _search(other).plan))
        except InfeasibleError as error:
            every.append(WhatIf(text, None, error.message))
    found = beside(every)
    summary = (*result.metadata["summary"], *what_ifs_said(every, found))
    return replace(
        result,
        tables={**result.tables, "what_ifs": found},
        metadata={**result.metadata, "summary": summary},
    )


def _page(asked: Planning) -> int:
    """Tokens of a page of the cache, where prefixes are shared. [token]"""
    return page_of(engine_named(asked.engine), sharing=True)
