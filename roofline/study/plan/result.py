"""A plan as a result: what the command line prints, and what JSON and reports carry."""

import shlex
from collections.abc import Mapping
from typing import Any, Final

import roofline
from roofline.study.plan import speculation, tables
from roofline.study.plan.assumptions import assumed, assumptions
from roofline.study.plan.break_even import UNITS as BREAK_EVEN
from roofline.study.plan.break_even import break_even
from roofline.study.plan.curve import SHARES
from roofline.study.plan.explain import derivations
from roofline.study.plan.figures import missed, named, shape
from roofline.study.plan.frontier import frontier
from roofline.study.plan.lifts import Remake, lifts, limit
from roofline.study.plan.option import Option
from roofline.study.plan.plan import Plan, without_drafts
from roofline.study.plan.rates import steps
from roofline.study.plan.runners_up import RunnerUp, runners_up
from roofline.study.plan.sensitivity import tornado
from roofline.study.plan.summary import summary
from roofline.table import Result, Table, table
from roofline.units import counted

STARTED: Final = ("vllm", "sglang", "trtllm")
"""Engines that there are commands of."""
PLAIN: Final = "plain decoding"
"""What is said of what would be recommended where nothing drafts."""
SURE: Final = 0.8
"""Probability below which a plan says that it is not sure."""


def result_of(
    plan: Plan,
    remake: Remake,
    *,
    given: Mapping[str, Any],
    training_tokens: float | None = None,
    pools: bool = True,
    notes: tuple[str, ...] = (),
) -> Result:
    """Tables, derivations, notes and inputs of a plan.

    Parameters
    ----------
    plan
        What was planned.
    remake
        Makes other kinds, where nothing fits.
    given
        How it was asked, for the record.
    training_tokens
        That the network was trained on, to compare with; None to leave that out. [token]
    pools
        Whether prefill and decode may have instances of their own.
    notes
        What requests and formats rest on.
    """
    names, basis = named(plan.goal.promises), _basis(plan)
    options = (*plan.found.options, *plan.pooled)
    best = plan.best
    out: dict[str, Table] = {
        "verdict": tables.verdict(plan, names, basis),
        "objectives": tables.objectives(best, len(plan.goal.promises), basis),
    }
    found = () if best is not None else lifts(plan, remake)
    if best is None:
        out["lifts"] = tables.lifts(plan, found)
    others: tuple[RunnerUp, ...] = ()
    if best is not None:
        others = runners_up(best.option, plan.others, plan.question, plan.full, plan.tables)
        if plan.full.acceptance is not None:
            plain = without_drafts(plan, pools=pools).best
            others += () if plain is None else (RunnerUp(plain, PLAIN),)
    out["runners_up"] = tables.runners_up(plan, others, names, basis)
    points = frontier(options, plan.question, names, plan.refuted)
    out["frontier"] = tables.frontier(plan, points, names, basis)
    able = [each for each in (*options, *plan.found.short) if each.capacity > 0]
    by_rate = steps(able, plan.question, plan.tables, pools=pools, refuted=plan.refuted)
    out["gpus_by_rate"] = tables.gpus_by_rate(plan, by_rate)
    bars = tornado(best, plan.others, plan.question, plan.tables, pools=pools) if best else ()
    out["sensitivity"] = tables.sensitivity(plan, bars)
    even = []
    if best is not None and training_tokens is not None:
        even = break_even(best, plan.full, training_tokens)
    out["break_even"] = table(even, BREAK_EVEN, "assumed")
    if plan.bounds is not None:
        out["bounds"] = tables.bounds(plan, plan.bounds, names)
    out["candidates"] = tables.candidates(plan, basis)
    out["assumptions"] = assumptions(plan)
    every = (plan,) if plan.bounds is None else (plan, plan.bounds)
    commands = {} if best is None else _commands(plan, best.option, given)
    return Result(
        kind="plan",
        tables=out,
        derivations={} if best is None else derivations(best, plan.full, plan.goal),
        notes=(*notes, *_notes(plan), *(_start(role, text) for role, text in commands.items())),
        metadata={
            "version": roofline.__version__,
            **given,
            "fits": best is not None,
            "limit": "" if best is not None else limit(plan),
            "ttft_statistic": names.ttft,
            "tpot_statistic": names.tpot,
            "prompt_mean": plan.full.prompt,
            "output_mean": plan.full.output,
            "requests": len(plan.full.requests),
            "layouts": sum(len(each.candidates) for each in every),
            "tabulated": sum(len(each.tables.made) for each in every),
            "simulated": sum(len(each.tables.curves) for each in every) * len(SHARES),
            "basis": basis,
            "commands": list(commands.values()),
            "summary": summary(plan, found),
            **speculation.facts(plan),
        },
    )


def _basis(plan: Plan) -> str:
    return "datasheet" if any(kind.bounded for kind in plan.kinds) else "interpolated"


def _notes(plan: Plan) -> tuple[str, ...]:
    """What must be known to read the figures right."""
    made = len(plan.tables.made)
    were = "was" if len(plan.candidates) == 1 else "were"
    those = "that layout" if made == 1 else f"those {counted(made, 'layout')}"
    out = [
        f"{counted(len(plan.candidates), 'layout')} {were} bounded, {made:,} tabulated and "
        f"simulated under {counted(len(plan.tables.curves), 'growing load')}; what cannot be "
        "cheaper than the best is left out.",
        f"No replica is planned for more than {SHARES[-1]:.0%} of the load at which its queue "
        "grows without end.",
        f"GPUs by rate and what-ifs are planned again over {those}.",
        "Sizes rest on one replica under load; several, among which requests take turns, do a "
        "little better. What is recommended, and the deployments beside it, were simulated whole.",
    ]
    if plan.refused:
        cheapest = plan.refused[0]
        out.append(
            f"Curves are of each pool by itself: by them {shape(cheapest.option)} is enough, and "
            f"simulated whole it is not, {missed(cheapest)}. What more money buys and GPUs by "
            "rate leave out what simulation refuted; else they, and what-ifs, go by curves."
        )
    out += speculation.notes(plan)
    bare = [kind.gpu for kind in plan.compared if kind.bounded]
    if bare:
        out.append(
            f"Steps on {', '.join(dict.fromkeys(bare))} are priced at the datasheet roofline, the "
            "least the hardware allows: real deployments need more, and how sure this is nobody "
            "can say."
        )
    if plan.bounds is not None:
        out.append(
            "A bound is no forecast: what was not measured is planned apart, and recommended only "
            "where nothing measured is enough."
        )
    unpriced = [kind.gpu for kind in plan.compared if not kind.usd_per_hour]
    if unpriced:
        names = ", ".join(dict.fromkeys(unpriced))
        out.append(f"No price is assumed for {names}: a device counts as 1 $/h. Give --price.")
    if any(assumed(kind) for kind in plan.compared):
        out.append("Prices are assumed: give --price for those you pay.")
    if plan.best is not None and plan.best.probability is not None and plan.best.probability < SURE:
        out.append("That is not very sure: --sure 90% plans until it is, for a price.")
    return tuple(out)


def _commands(plan: Plan, option: Option, given: Mapping[str, Any]) -> dict[str, str]:
    """What prints the command that starts an instance of each pool, by role, of a real engine."""
    out: dict[str, str] = {}
    for pool in option.pools if given["engine"] in STARTED else ():
        words = {
            "--gpu": pool.kind.gpu,
            "--layout": pool.candidate.layout.spelled,
            "--engine": given["engine"],
            "--weights": pool.kind.weights,
            "--kv": pool.kind.kv,
            "--max-sequences": pool.server.max_sequences,
            "--token-budget": pool.server.token_budget,
            **speculation.words(plan),
        }
        flags = [str(part) for pair in words.items() for part in pair]
        out[pool.role] = shlex.join(["roofline", "serve-command", str(given["model"]), *flags])
    return out


def _start(role: str, command: str) -> str:
    which = "each instance" if role == "all" else f"each {role} instance"
    return f"What starts {which}: {command}"
