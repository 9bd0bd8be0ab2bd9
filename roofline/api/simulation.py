"""What users of a deployment feel under traffic: requests come, wait, are served."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from roofline.api.setting import (
    DEFAULT_MODEL,
    Degrees,
    Form,
    check_share,
    deployed,
    layout_of,
    machine_of,
    network_of,
    options_of,
)
from roofline.api.speculation import draft_of, rates_of
from roofline.api.workload import Wanted, drawn
from roofline.bench.calibrations import AUTO, engine_misses, with_profile
from roofline.cost.deployment import Deployment
from roofline.cost.moe import UNIFORM, Routing
from roofline.errors import InputError, QuantityError
from roofline.hardware.engine import engine as engine_named
from roofline.hardware.machine import Gpu, Node
from roofline.model.architecture import Architecture
from roofline.serving.asking import check_parts, one_of, refuse_unused
from roofline.serving.draft_trees import chain
from roofline.serving.objectives import parse_slo
from roofline.serving.requests import Requests
from roofline.serving.run.doubt import Doubt, doubt_of
from roofline.serving.run.intervals import intervals
from roofline.serving.run.result import Run, result_of
from roofline.serving.run.serve import Fleet, drafting_fleet, saturation, serve
from roofline.serving.run.setup import Asked, page_of, server_of
from roofline.serving.simulate.drafting import Drafting
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.server import POLICIES, Policy
from roofline.serving.traffic.lengths import Lengths
from roofline.serving.traffic.traffic import Traffic
from roofline.table import Result
from roofline.units import parse

USUAL_DRAFT = 4
"""Tokens drafted in a row, if nothing is said."""


def simulate(
    model: str | Architecture = DEFAULT_MODEL,
    gpu: str | Gpu | None = None,
    *,
    workload: str | Traffic = "",
    trace: str | Path = "",
    rate: float | None = None,
    cv: float | None = None,
    concurrency: int | None = None,
    prompt: int | str | Lengths | None = None,
    output: int | str | Lengths | None = None,
    requests: int | None = None,
    warmup: int | None = None,
    length_spread: float | None = None,
    ramp_s: float | None = None,
    prompt_pool: int | None = None,
    slo: str | None = None,
    seed: int = 0,
    policy: Policy | None = None,
    first: Literal["decode", "prefill"] | None = None,
    max_sequences: int | None = None,
    token_budget: int | None = None,
    timeout_s: float = 0.0,
    preemption: Literal["recompute", "swap"] = "recompute",
    recv_interval: int = 1,
    stream_interval: int = 1,
    cold: bool = False,
    contiguous: bool = False,
    prefix_caching: bool | None = None,
    host_cache: str = "0 B",
    draft: str | Architecture = "",
    acceptance: str | float = "",
    draft_length: int = 0,
    node: str | Node | None = None,
    gpus: int | None = None,
    layout: str = "",
    tp: int | None = None,
    pp: int | None = None,
    ep: int | None = None,
    dp: int | None = None,
    cp: int | None = None,
    weights: str | None = None,
    kv: str = "auto",
    engine: str = "vllm",
    calibration: str = AUTO,
    profile: str | Path = "",
    mla: Form = "auto",
    routing: Routing = UNIFORM,
    overlap: float = 0.0,
    cuda_graphs: bool = True,
    memory_utilization: float | None = None,
    usd_per_hour: float | None = None,
    with_requests: bool = False,
    with_intervals: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Serve traffic in simulation: latencies and their percentiles, promises, queue, cache, price.

    Parameters
    ----------
    model, gpu, node, gpus, layout, tp, pp, ep, dp, cp, weights, kv, engine, calibration, mla, \
    routing, overlap, cuda_graphs, memory_utilization, usd_per_hour
        As for `roofline.api.analyze`; requests go to replicas in turn.
    workload, trace
        Name in the catalog, a YAML file, or a workload; else a file of recorded requests. ``chat``
        where neither they nor lengths are given.
    rate, cv
        Requests a second; standard deviation of their gaps over the mean: 0 even, 1 Poisson. [1/s]
    concurrency
        Clients that ask again when answered, in place of a rate. [1]
    prompt, output
        Lengths in place of the workload's: a number, ``"1638..2048"``, or a distribution. [token]
    requests, warmup
        How many are sent, and how many of the first do not count. [1]
    length_spread
        Half of the range of lengths over the single ones that are given, uniform in between; else
        as the workload has them. [1]
    ramp_s
        Time over which clients start, one after the other; 0 for all at once. [s]
    prompt_pool
        Different prompts that are sent in turn, so that prefixes hit; each its own if not stated.
        [1]
    slo
        Promises, ``"ttft=500ms,tpot_p90=50ms"``; None for those of the workload.
    seed
        Same seed, same requests. [1]
    policy, first, max_sequences, token_budget, timeout_s, preemption, recv_interval, \
    stream_interval, cold
        How steps are filled: see `roofline.serving.simulate.server.Server`; None for what the
        engine does.
    contiguous
        Whether each sequence has a region as long as the longest request, as before paging.
    prefix_caching
        Whether equal prefixes are kept once; None for whether the policy can.
    profile
        File of the engine's constants, as `roofline.api.learn_engine` writes it, in place of the
        shipped ones.
    host_cache
        Room on the host for prefixes that leave the devices of a replica: ``"256 GB"``. [B]
    draft, acceptance, draft_length
        What drafts, how often that is accepted, and tokens drafted in a row, 4 if not stated: as
        for `roofline.api.speculate`. Nothing drafts if not stated. [1] [token]
    with_requests
        Whether there is a table of every request.
    with_intervals
        Whether figures have a central 80 %, and promises a chance; it takes seven times as long.
        None have it at datasheet rates.
    progress
        Told how many requests are done, of how many.

    Returns
    -------
    Result
        Tables ``headline`` (latencies), ``throughput``, ``objectives``, ``server``, ``cache``,
        ``workload``, and ``requests`` where asked for.

    Raises
    ------
    RooflineError
        Anything the user can mend.
    """
    if policy is not None:
        one_of("policy", policy, POLICIES)
    refuse_unused("a policy without batches that wait", {"--timeout": _idle(policy, timeout_s)})
    if not draft:
        unused = {"--acceptance": acceptance != "", "--draft-length": bool(draft_length)}
        refuse_unused("plain decoding", unused)
    check_share(memory_utilization)
    promises = parse_slo(slo) if slo is not None else None
    network = network_of(model)
    check_parts(network, mla, routing)
    if network.is_encoder or not network.causal:
        raise InputError(
            f"{network.name} does not answer token by token",
            hint="give a network that decodes; roofline analyze prices a batch of this one",
        )
    device, box = machine_of(gpu, node, usd_per_hour)
    degrees = Degrees(layout, tp, cp, dp, ep, pp)
    if degrees.automatic:
        raise InputError(
            "a simulation does not choose a layout",
            hint="give one, like tp8: roofline layouts says which is best",
        )
    arranged, replicas = layout_of(gpus, degrees)
    deployment = deployed(
        network,
        device,
        box,
        arranged,
        weights=weights,
        kv=kv,
        engine=engine,
        options=options_of(mla=mla, routing=routing, overlap=overlap, cuda_graphs=cuda_graphs),
        calibration=calibration,
    )
    if profile:
        deployment = with_profile(deployment, profile)
    asked = Asked(
        policy,
        first,
        max_sequences,
        token_budget,
        timeout_s,
        preemption,
        contiguous,
        prefix_caching,
        _room(host_cache),
        recv_interval,
        stream_interval,
        cold,
    )
    page = page_of(engine_named(engine), sharing=True)
    wanted = Wanted(
        workload,
        trace,
        rate,
        cv,
        concurrency,
        prompt,
        output,
        requests,
        warmup,
        length_spread,
        ramp_s,
        prompt_pool,
    )
    made, load, usual, said = drawn(wanted, seed, page)
    _check_contexts(deployment, made)
    server = server_of(deployment, asked, made, memory_utilization)
    measured = deployment.calibration
    prices = step_prices(deployment, sequences=server.max_sequences, longest=server.longest)
    fleet = Fleet(prices, server, replicas)
    if draft:
        drafts = draft_of(draft, deployment, None, None, calibration)
        tree = chain(rates_of(acceptance), draft_length or USUAL_DRAFT)
        fleet = drafting_fleet(fleet, deployment, made, Drafting(drafts, tree, seed))
    served = serve(fleet, made, concurrency=load.concurrency, ramp_s=load.ramp_s, progress=progress)
    run = Run(
        deployment,
        fleet,
        load,
        made,
        served,
        saturation(fleet, made) if load.rate else 0.0,
        parse_slo(usual) if promises is None else promises,
        seed,
        said,
    )
    if measured is not None and with_intervals:
        run = replace(run, sure=intervals(run, _doubt(run)))
    return result_of(run, with_requests=with_requests)


def _room(asked: str) -> float:
    """Room on the host. [B]"""
    try:
        room = parse(asked, "B")
    except QuantityError as error:
        raise InputError(f"host cache: {error.message}", hint="write 256GB") from None
    if room < 0:
        raise InputError(f"host cache of {asked}", hint="give 0 or more")
    return room


def _doubt(run: Run) -> Doubt:
    """What is not known of the prices of a run's steps, with what is in them on average."""
    totals, requests, server = run.served.totals, run.requests, run.fleet.server
    prompt = float(requests.prompt.mean())
    return doubt_of(
        run.deployment,
        batch=totals.decoded_tokens / totals.steps,
        context=prompt + float(requests.output.mean()) / 2.0,
        prompt=min(prompt, server.token_budget or prompt),
        misses=engine_misses(run.deployment),
    )


def _idle(policy: Policy | None, timeout_s: float) -> bool:
    """Whether a timeout would change nothing."""
    return timeout_s != 0 and policy != "dynamic"


def _check_contexts(deployment: Deployment, requests: Requests) -> None:
    """Refuse requests beyond what the network is made for."""
    limit = deployment.architecture.max_context
    if limit is None:
        return
    whole = requests.prompt + requests.output
    long = int((whole > limit).sum())
    if long:
        raise InputError(
            f"{long:,} of {len(requests):,} requests are longer than the {limit:,} tokens that "
            f"{deployment.architecture.name} is made for, the longest {int(whole.max()):,}",
            hint="give --prompt and --output, another workload, or a network with more context",
        )
