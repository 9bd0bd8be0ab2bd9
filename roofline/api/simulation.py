"""Latencies that users of a deployment see under traffic: requests come, wait, are served."""

import re
from typing import Final

import numpy as np

from roofline.api import setting
from roofline.api.curves import scheduled
from roofline.api.parameters import Planning, Simulation, TrafficOptions
from roofline.api.question import question, refuse_unused, shared
from roofline.api.setting import check_groups, in_characters
from roofline.api.speculation import draft_of, length_of, rates_of
from roofline.api.workload import OfferedLoad, attached, drawn
from roofline.bench.engine_profiles import engine_misses, profile_note
from roofline.cost.deployment import Options
from roofline.cost.layout import parse
from roofline.cost.sampling import LIKELIEST, Sampling
from roofline.cost.step import outside_bytes_per_s
from roofline.errors import InputError, prefixed
from roofline.hardware.engine import engine as engine_named
from roofline.model.architecture import Architecture
from roofline.records import replace
from roofline.serving.diffusion import seeing_both_ways
from roofline.serving.draft_schedule import schedule
from roofline.serving.draft_trees import chain
from roofline.serving.notes import beam_notes
from roofline.serving.objectives import parse_slo
from roofline.serving.requests import Requests, clipped, picked_rows
from roofline.serving.run.intervals import StepUncertainty, intervals, step_uncertainty
from roofline.serving.run.result import Run, ServiceLoad, result_of
from roofline.serving.run.serve import Fleet, OtherReplicas, drafting_fleet, saturation, serve
from roofline.serving.run.sessions import cache_curve
from roofline.serving.simulate.denoising import BlockDiffusion, denoising_steps
from roofline.serving.simulate.drafting import RoundDraft
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.server import BATCHED, ServerOptions, page_of, server_of
from roofline.serving.traffic.lengths import Lengths
from roofline.serving.traffic.traffic import Traffic
from roofline.serving.workload import Workload, check_decodes
from roofline.table import Result

MOST_WORKERS: Final = 64
"""Threads at most. [1]"""
USUAL_DRAFT: Final = 4
"""Tokens drafted in a row, if nothing is said."""


@question(Simulation, Lengths=Lengths, Traffic=Traffic)
def simulate(asked: Simulation) -> Result:
    """Serve traffic in simulation: latencies and their percentiles, SLO, queue, cache, price.

    Returns:
        Result: Tables ``headline`` (latencies), ``throughput``, ``objectives``, ``server``,
            ``cache``, ``workload``, ``distribution`` (of latencies), ``over_time`` (requests and
            cache), ``by_load`` (TTFT up to saturation, in an open loop); ``replica_kinds`` of
            unlike ones; ``places`` and ``sessions`` where requests follow others;
            ``cache_curve`` and ``requests`` where asked for.
    """
    policy = asked.policy
    refuse_unused(
        "a policy without batches that wait",
        {"`timeout_s`": asked.timeout_s != 0 and policy != "dynamic"},
    )
    check_decoding(asked)
    objectives = parse_slo(asked.slo) if asked.slo is not None else None
    network, device, box = setting.subject_of(asked)
    check_decodes(network, denoised=asked.denoising_steps > 0)
    facility = setting.facility_of(asked)
    setting.check_powered(facility, device)
    if facility is not None:
        refuse_unused("a question of power and energy", {"`draft`": bool(asked.draft)})
    degrees = setting.degrees_of(asked)
    if degrees.automatic:
        raise InputError(
            "a simulation does not choose a layout",
            hint="give one, like tp8: roofline layouts says which is best",
        )
    arranged, replicas = setting.layout_of(asked.gpus, degrees)
    options = setting.options_asked(asked)
    load_asked, options = attached(OfferedLoad(**shared(asked, OfferedLoad)), options, network)
    deployment = setting.make_asked_deployment(
        asked, network, device, box, arranged, options=options
    )
    check_groups(asked.routing, asked.two_batch, deployment)
    deployment = setting.profiled(deployment, asked.profile)
    wanted = ServerOptions(
        sharing=asked.prefix_caching,
        tier_bytes=setting.cache_room("host_cache", asked.host_cache),
        disk_bytes=setting.cache_room("nvme_cache", asked.nvme_cache),
        pool_bytes=setting.cache_room("cache_pool", asked.cache_pool),
        **shared(asked, ServerOptions),
    )
    page = page_of(engine_named(asked.engine), sharing=True)
    made, load, usual, said = drawn(load_asked, asked.seed, page)
    made, load, cut = within_context(network, made, load, asked)
    said = (*said, *cut, *beam_notes(options.sampling))
    server = server_of(deployment, wanted, made, asked.memory_utilization)
    measured = deployment.calibration
    if asked.denoising_steps:
        deployment = seeing_both_ways(deployment)
    prices = step_prices(deployment, sequences=server.max_sequences, longest=server.longest)
    beside = others(asked, network, options, wanted, made) if asked.beside else ()
    replicas += sum(each.number for each in beside)
    if asked.router != "turns":
        unused = {"`concurrency`": bool(load.concurrency), "`gpus` of one replica": replicas == 1}
        refuse_unused("a router that weighs loads", unused)
        unknown = {"`prefix_caching=False`": asked.prefix_caching is False}
        refuse_unused("`router=prefix`", unknown if asked.router == "prefix" else {})
    if not 1 <= asked.workers <= MOST_WORKERS:
        raise InputError(f"{asked.workers} workers", hint=f"give 1 to {MOST_WORKERS}")
    fleet = Fleet(
        prices, server, replicas, router=asked.router, workers=asked.workers, others=beside
    )
    if asked.denoising_steps:
        steps = denoising_steps(block_diffusion(asked, made), deployment, prices, made)
        own = steps.server(server)
        fleet = replace(fleet, prices=steps.prices, server=own, drafting=steps.drafting)
    if asked.scaling:
        unused = {"`gpus` of several replicas": replicas > 1, "`draft`": bool(asked.draft)}
        unused |= {"`denoising_steps`": asked.denoising_steps > 0}
        unused |= {"`router`": asked.router != "turns", "`pue`": facility is not None}
        refuse_unused("a load that replicas follow", unused)
        load, serving = scheduled(asked.scaling, load, made, deployment, saturation(fleet, made))
        fleet = replace(fleet, replicas=serving.most, schedule=serving)
    if server.pooled:
        unused = {"`draft_length=auto`": length_of(asked.draft_length, "draft_length") is None}
        unused |= {"`max_loras`": deployment.options.lora.moves}
        refuse_unused("replicas that share a pool of prefixes", unused)
    if asked.draft:
        drafts = draft_of(asked.draft, deployment, None, None, asked.calibration)
        rates = rates_of(asked.acceptance, asked.acceptance_spread)
        length, lengths = length_of(asked.draft_length, "draft_length"), None
        if length is None:
            typical = Workload(1, round(made.prompt.mean()), max(round(made.output.mean()), 2))
            best = schedule(deployment, drafts, rates, typical, server.max_sequences).lengths
            length, lengths = max(int(best.max()), 1), np.concatenate([[0], best])
        tree = chain(rates, length or USUAL_DRAFT)
        drafting = RoundDraft(drafts, tree, asked.seed, rates, lengths)
        driven = {"concurrency": load.concurrency, "ramp_s": load.ramp_s}
        fleet = drafting_fleet(fleet, deployment, made, drafting, **driven)
    if deployment.options.lora.moves and (load.concurrency or bool((made.after >= 0).any())):
        raise InputError(
            "requests that wait for answers, with adapters that are loaded on demand: what a load "
            "delays is not fed back to them",
            hint="leave out `max_loras`, or send single requests at a `rate`",
        )
    served = serve(
        fleet, made, concurrency=load.concurrency, ramp_s=load.ramp_s, progress=asked.progress
    )
    run = Run(
        deployment,
        fleet,
        load,
        made,
        served,
        saturation(fleet, made) if load.rate else 0.0,
        parse_slo(usual) if objectives is None else objectives,
        asked.seed,
        said,
        facility=facility,
    )
    if asked.cache_curve:
        # What moves to the host in a second, over all devices: the bytes of a token of the cache.
        token = server.swap_s_per_token * outside_bytes_per_s(deployment) * deployment.devices
        run = replace(run, cache_curve=cache_curve(run, token))
    if measured is not None and asked.with_intervals and not (load.peak or beside):
        run = replace(run, sure=intervals(run, _doubt(run)))
    result = result_of(run, with_requests=asked.with_requests)
    result = in_characters(result, "throughput", asked.characters_per_token)
    note = profile_note(deployment, *_mean_load(run))
    return replace(result, notes=(*result.notes, note)) if note else result


def block_diffusion(asked: Simulation | Planning, made: Requests) -> BlockDiffusion:
    """Blocks of answers, and steps of each, as many as an answer of mean length takes in all."""
    refuse_unused(
        "`denoising_steps`",
        {
            "`draft`": bool(asked.draft),
            "`beams`": asked.beams > 1,
            "`adapters`": asked.adapters > 0,
            "`temperature`, `top_k` or `top_p`": Sampling(**shared(asked, Sampling)) != LIKELIEST,
            "`pue`, `usd_per_kwh` or `carbon`": setting.facility_of(asked) is not None,
            "a policy of batches that nobody joins": getattr(asked, "policy", None) in BATCHED,
        },
    )
    if asked.block < 1:
        raise InputError(
            "an answer that is denoised as a whole keeps no cache, and has no place in a batch "
            "that others join",
            hint="give `block`, or ask about a static batch",
        )
    mean = float(made.output.mean())
    return BlockDiffusion(asked.block, max(round(asked.denoising_steps * asked.block / mean), 1))


def check_decoding(asked: Simulation | Planning) -> None:
    """Refuse options of drafts, beams and blocks without a use, or beside what they exclude."""
    if asked.draft and asked.adapters:
        raise InputError(
            "drafts beside LoRA adapters are not priced", hint="leave out `draft` or `adapters`"
        )
    if asked.beams > 1:
        others = {"`samples`": bool(asked.samples and asked.samples > 1)}
        others |= {"`draft`": bool(asked.draft), "`adapters`": asked.adapters > 0}
        refuse_unused("beam search", others)
        housed = {"`beams`": setting.facility_of(asked) is not None}
        refuse_unused("a question of power and energy", housed)
    if not asked.denoising_steps:
        refuse_unused("decoding token by token", {"`block`": asked.block != 0})
    if not asked.draft:
        unused = {
            "`acceptance`": asked.acceptance != "",
            "`acceptance_spread`": asked.acceptance_spread != 0,
            "`draft_length`": length_of(asked.draft_length, "draft_length") != 0,
        }
        refuse_unused("plain decoding", unused)


def _doubt(run: Run) -> StepUncertainty:
    """Uncertainty of the prices of a run's steps, at their average content."""
    prompt, server = float(run.requests.prompt.mean()), run.fleet.server
    batch, context = _mean_load(run)
    return step_uncertainty(
        run.deployment,
        batch=batch,
        context=context,
        prompt=min(prompt, server.token_budget or prompt),
        misses=engine_misses(run.deployment, batch, context),
    )


def _mean_load(run: Run) -> tuple[float, float]:
    """Sequences that decode in a step, and what each of them sees, on average. [1] [token]"""
    totals, requests = run.served.totals, run.requests
    context = float(requests.prompt.mean()) + float(requests.output.mean()) / 2.0
    return totals.decoded_tokens / totals.steps, context


def within_context(
    network: Architecture, made: Requests, load: ServiceLoad, asked: TrafficOptions
) -> tuple[Requests, ServiceLoad, tuple[str, ...]]:
    """Requests that the network's context holds, their load, and what was done for it.

    InputError where some are longer and nobody says what to do with them.
    """
    if asked.drop_over_length and asked.clip:
        raise InputError("`drop_over_length` beside `clip`", hint="say one of them")
    limit = network.max_context
    over = np.zeros(0, np.bool_) if limit is None else made.prompt + made.output > limit
    if limit is None or not over.any():
        return made, load, ()
    said = f"{int(over.sum()):,} of {len(made):,} requests"
    what = f"longer than the {limit:,} tokens that {network.name} is made for"
    if not asked.drop_over_length and not asked.clip:
        raise InputError(
            f"{said} are {what}, the longest {int((made.prompt + made.output).max()):,}",
            hint="leave them out (`drop_over_length`), cut them (`clip`), give `prompt` and "
            "`output`, another workload, or a network with more context",
        )
    if (made.after >= 0).any():
        raise InputError(
            "turns of a session that are longer than the network's context",
            hint="give shorter sessions: what was said before is part of the prompt",
        )
    if asked.clip:
        note = f"{said} were {what}, and are cut: the end of the prompt first, then the answer."
        return clipped(made, limit), load, (note,)
    rows = np.flatnonzero(~over)
    if len(rows) <= load.warmup:
        raise InputError(f"{said} are {what}, and too few are left", hint="cut them with `clip`")
    rate = load.rate * len(rows) / len(made)
    others = f": the others are {rate:.3g} a second" if rate else ""
    note = f"{said} were {what}, and are left out{others}."
    return picked_rows(made, rows), replace(load, rate=rate), (note,)


HINT: Final = "write GPU, layout and number, as in l40s tp1 x3, b200-sxm"
_PART: Final = re.compile(r"([\w./-]+)(?: +(?!x *\d)([a-z]\S*))?(?: +x *(\d+))?")


def spelled(asked: str) -> tuple[tuple[str, str, int], ...]:
    """GPU, layout and number of replicas of each kind. [1]

    Examples:
        >>> spelled("l40s x3, h100-sxm tp2")
        (('l40s', 'tp1', 3), ('h100-sxm', 'tp2', 1))
    """
    out = []
    for part in (each.strip() for each in asked.split(",")):
        found = _PART.fullmatch(part)
        # Python refuses to convert thousands of digits.
        number = int((found[3] or "1")[:9]) if found else 0
        if found is None or not 1 <= number <= setting.MOST_GPUS:
            raise InputError(f"replicas {part!r:.40} beside others", hint=HINT)
        out.append((found[1], found[2] or "tp1", number))
    return tuple(out)


def others(
    asked: Simulation,
    network: Architecture,
    options: Options,
    wanted: ServerOptions,
    made: Requests,
) -> tuple[OtherReplicas, ...]:
    """Replicas that are asked for beside the first ones, with the same formats and engine.

    Args:
        asked: Question.
        network, options: Network, and how it is run.
        wanted: Settings of each server.
        made: Requests.

    Raises:
        RooflineError: A word, a GPU or a layout has no meaning, or one has no room.
    """
    refuse_unused(
        "replicas of several kinds",
        {
            "`draft`": bool(asked.draft),
            "`denoising_steps`": asked.denoising_steps > 0,
            "`scaling`": bool(asked.scaling),
            "`max_loras`": options.lora.moves,
            "`cache_pool`": wanted.pool_bytes > 0,
            "`cache_curve`": asked.cache_curve,
            "`pue`": setting.facility_of(asked) is not None,
        },
    )
    out = []
    for gpu, layout, number in spelled(asked.beside):
        with prefixed(f"{gpu} beside"):
            device, box = setting.machine_of(gpu, None, None)
            deployment = setting.make_asked_deployment(
                asked, network, device, box, parse(layout), options=options
            )
            check_groups(asked.routing, asked.two_batch, deployment)
            deployment = setting.profiled(deployment, asked.profile)
            server = server_of(deployment, wanted, made, asked.memory_utilization)
            prices = step_prices(deployment, sequences=server.max_sequences, longest=server.longest)
        out.append(OtherReplicas(deployment, prices, server, number))
    return tuple(out)
