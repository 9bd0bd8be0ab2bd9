"""A plan as a result: what the command line prints, and what JSON and reports carry."""

from collections.abc import Mapping
from typing import Any, Final

from roofline.study.commands import command_line
from roofline.study.plan import day, day_tables, tables
from roofline.study.plan.choose import RunnerUp, larger, runners_up
from roofline.study.plan.confirm import SimulatedOption
from roofline.study.plan.curve import SHARES
from roofline.study.plan.explain import UNITS as BREAK_EVEN
from roofline.study.plan.explain import assumed, assumptions, break_even, derivations
from roofline.study.plan.figures import named
from roofline.study.plan.option import CHEAPER, Option, Pool
from roofline.study.plan.plan import Plan, without_drafts
from roofline.study.plan.relaxations import Relaxation, Remake, limit, relaxations
from roofline.study.plan.sensitivity import InputSensitivity, frontier, levels, steps, tornado
from roofline.study.plan.summary import drafting_facts, drafting_notes, drafting_options, summary
from roofline.table import Result, Table, table, worst
from roofline.units import counted
from roofline.version import __version__

STARTED: Final = ("vllm", "sglang", "trtllm")
"""Engines whose commands can be written."""
DYNAMO: Final = ("vllm", "sglang")
"""Engines whose two pools are written for Dynamo."""
UNDRAFTED: Final = "plain decoding"
"""Name of the deployment that would be recommended without speculative decoding."""
SPARE: Final = 2
"""Simulations kept back for larger sizes of the recommended deployment. [1]"""


def result_of(
    plan: Plan,
    remake: Remake,
    *,
    given: Mapping[str, Any],
    training_tokens: float | None = None,
    pools: bool = True,
    notes: tuple[str, ...] = (),
    follow: day.FollowRule | None = None,
) -> Result:
    """Tables, derivations, notes and inputs of a plan.

    Args:
        plan, remake, given: What was found, how it is planned again with something changed, and
            what was asked.
        training_tokens: Tokens that the network was trained on; None leaves break-even out. [token]
        pools: Whether prefill and decode may have pools of their own.
        notes: Sentences that come first.
        follow: Rate over a day that a fleet follows; None leaves such fleets out.
    """
    names, best = named(plan.goal.objectives), plan.best
    bounded = any(kind.bounded for kind in plan.kinds)
    basis = "datasheet" if bounded else worst(kind.base.basis for kind in plan.kinds)
    options = (*plan.found.options, *plan.found.short, *plan.pooled)
    able = [each for each in options if each.capacity > 0]
    found: tuple[Relaxation, ...] = ()
    others: tuple[RunnerUp, ...] = ()
    known: dict[float, Option | None] = {}
    points: list[tuple[SimulatedOption, tuple[str, ...]]] = []
    bars: tuple[InputSensitivity, ...] = ()
    even: list[dict[str, Any]] = []
    # First, as simulations of other deployments and confidences correct curves further.
    by_rate = steps(
        able,
        plan.question,
        plan.tables,
        best=None if best is None else best.option,
        refused=plan.choice.refused,
    )
    if best is None:
        found = relaxations(plan, remake)
    else:
        bars = tornado(best, able, plan.question, plan.tables)
        others = runners_up(plan.choice, plan.question, plan.tables)
        spare = SPARE * plan.question.allowed(best.option.larger())
        known = levels(best, able, plan.question, plan.tables, spare=spare)
        more = (each for each in larger(best.option, plan.question, plan.tables) if each.met)
        points = frontier([best, *(each.done for each in others), *more], plan.question, names)
        if plan.demand.acceptance is not None:
            plain = without_drafts(plan, pools=pools).best
            others += () if plain is None else (RunnerUp(plain, UNDRAFTED),)
        if training_tokens is not None:
            even = break_even(best, plan.demand, training_tokens)
    out: dict[str, Table] = {
        "verdict": tables.verdict(plan, names, basis),
        "objectives": tables.objectives(best, len(plan.goal.objectives), basis),
        "confidences": tables.confidences(plan, known),
        "runners_up": tables.runners_up(plan, others, names, basis),
        "frontier": tables.frontier(plan, points, names, basis),
        "gpus_by_rate": tables.gpus_by_rate(plan, by_rate),
        "sensitivity": tables.sensitivity(plan, bars),
        "break_even": table(even, BREAK_EVEN, "assumed"),
        "candidates": tables.candidates(plan, basis),
        "assumptions": assumptions(plan),
    }
    if best is None:
        out["relaxations"] = tables.relaxations(plan, found)
    if plan.bounds is not None:
        out["bounds"] = tables.bounds(plan, plan.bounds, names)
    over: day.Day | None = None
    if follow is not None and best is not None:
        over = day.day_of(
            best.option, [each.done.option for each in others], plan.question, follow, plan.tables
        )
        out |= {"fleets": day_tables.fleets(over), "by_hour": day_tables.by_hour(over, names)}
        out["assumptions"] = table([*out["assumptions"].rows(), *day_tables.assumed(over)], {})
    every = (plan,) if plan.bounds is None else (plan, plan.bounds)
    commands = {} if best is None else _commands(plan, best.option, given)
    started = [
        f"What starts each {'' if role == 'all' else f'{role} '}instance: {text}"
        for role, text in commands.items()
    ]
    if best is not None and (both := both_pools(plan, best.option, given)):
        started.append(f"What starts both pools under NVIDIA Dynamo: {both}")
    if given.get("simulation"):
        started.append(f"What simulates it, with the same figures: {given['simulation']}")
    return Result(
        kind="plan",
        tables=out,
        derivations={} if best is None else derivations(best, plan.demand, plan.goal),
        notes=(*notes, *_notes(plan), *(() if over is None else day_tables.notes(over)), *started),
        metadata={
            "version": __version__,
            **given,
            "confidence": plan.goal.confidence,
            "fits": best is not None,
            "limit": "" if best is not None else limit(plan),
            "ttft_statistic": names.ttft,
            "tpot_statistic": names.tpot,
            "prompt_mean": plan.demand.prompt,
            "output_mean": plan.demand.output,
            "requests": len(plan.demand.requests),
            "layouts": sum(len(each.candidates) for each in every),
            "curves": sum(len(each.tables.curves) for each in every),
            "tabulated": sum(replica.tabulated for each in every for replica in each.tables.made),
            "simulated": plan.tables.budget.used,
            "basis": basis,
            "commands": list(commands.values()),
            "summary": (
                *summary(plan, found, others, peak=over is not None),
                *(() if over is None else (day_tables.said(over),)),
            ),
            **drafting_facts(plan),
        },
    )


def _notes(plan: Plan) -> tuple[str, ...]:
    """Notes that a reader of the figures needs."""
    were = "was" if len(plan.candidates) == 1 else "were"
    out = [
        f"{counted(len(plan.candidates), 'layout')} {were} bounded, "
        f"{counted(len(plan.tables.made), 'layout')} screened under growing load in closed form, "
        f"and {counted(plan.tables.budget.used, 'run')} simulated; what cannot be cheaper than the "
        "best is left out.",
        f"No replica is planned for more than {SHARES[-1]:.0%} of the load at which its queue "
        "grows without end.",
        f"One pool of replicas inside nodes is preferred, unless something else is {CHEAPER:.0%} "
        "cheaper.",
        "What is recommended, and the deployments beside it, were simulated whole. GPUs by rate "
        "and the sensitivity go by closed forms.",
    ]
    out += drafting_notes(plan)
    bare = [kind.gpu for kind in plan.compared if kind.bounded]
    if bare:
        out.append(
            f"Steps on {', '.join(dict.fromkeys(bare))} are priced at the datasheet roofline, the "
            "least the hardware allows: real deployments need more, and no confidence is known."
        )
    if plan.bounds is not None:
        out.append(
            "A bound is no forecast: what was not measured is planned apart, and recommended only "
            "where nothing measured is enough."
        )
    unpriced = [kind.gpu for kind in plan.compared if not kind.usd_per_hour]
    if unpriced:
        rank = "behind what has a price, and" if len(unpriced) < len(plan.compared) else "only"
        out.append(
            f"No price is known for {', '.join(dict.fromkeys(unpriced))}: ranked {rank} by number "
            "of devices. Give `usd_per_hour`, one for each `gpu`."
        )
    if any(assumed(kind) for kind in plan.compared):
        out.append("Prices are assumed: give `usd_per_hour` for those you pay.")
    return tuple(out)


def _commands(plan: Plan, option: Option, given: Mapping[str, Any]) -> dict[str, str]:
    """Commands that print how an instance of each pool is started, by role, of a real engine."""
    out: dict[str, str] = {}
    for pool in option.pools if given["engine"] in STARTED else ():
        out[pool.role] = command_line(
            "serve-command", str(given["model"]), _flags(plan, pool, given)
        )
    return out


def _flags(plan: Plan, pool: Pool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the command that starts an instance of a pool; None for those left out."""
    lora = pool.kind.base.options.lora
    return {
        "gpu": pool.kind.gpu,
        "layout": pool.candidate.spelled,
        "engine": given["engine"],
        "weights": pool.kind.weights,
        "kv": pool.kind.kv,
        "max_sequences": pool.server.max_sequences * pool.kind.base.options.sampling.beams,
        "token_budget": pool.server.token_budget,
        "memory_utilization": pool.kind.utilization,
        "no_cuda_graphs": None if pool.kind.base.options.cuda_graphs else True,
        **drafting_options(plan),
        "adapters": lora.adapters or None,
        "lora_rank": lora.lora_rank if lora.adapters else None,
        "max_loras": lora.max_loras or None,
    }


def both_pools(plan: Plan, option: Option, given: Mapping[str, Any]) -> str:
    """Command that writes both pools for Dynamo; empty without two of one device and format.

    Both get the limits of the decode pool.
    """
    pools = {pool.role: pool for pool in option.pools}
    if given["engine"] not in DYNAMO or set(pools) != {"prefill", "decode"}:
        return ""
    before, after = pools["prefill"], pools["decode"]
    alike = [(pool.kind.gpu, pool.kind.weights, pool.kind.kv) for pool in (before, after)]
    if alike[0] != alike[1] or after.candidate.ffn is not None:
        return ""
    return command_line(
        "serve-command",
        str(given["model"]),
        _flags(plan, after, given)
        | {
            "gpus": after.instances * int(after.candidate.layout.devices),
            "prefill": before.candidate.spelled,
            "prefill_replicas": before.instances,
            "for": "dynamo",
        },
    )
