"""Ceilings on power and cost of a plan, and its answer with the building around it."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from roofline.api import setting
from roofline.api.parameters import USUAL_YEARS, Planning
from roofline.api.question import refuse_unused
from roofline.errors import InputError, QuantityError
from roofline.hardware.machine import Gpu
from roofline.records import replace
from roofline.serving.facility import Facility, consumption
from roofline.serving.facility import notes as energy_notes
from roofline.study.plan.candidate import DeploymentKind
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.hall import (
    Ceiling,
    Hall,
    consumers,
    filled,
    halls_table,
    owned_table,
    sentences,
)
from roofline.study.plan.option import ROUNDING
from roofline.study.plan.plan import Plan
from roofline.study.plan.tabled import Tell
from roofline.table import Result
from roofline.units import counted, dollars, parse, show

MOST_YEARS: Final = 50
"""Years beyond which no server is written off. [a]"""


def _watts(asked: str | float) -> float:
    """Power of a hall, as a number or in words. [W]"""
    text = str(asked).strip()
    try:
        watts = float(text)
    except ValueError:
        try:
            watts = parse(text, "W")
        except QuantityError as error:
            raise InputError(f"power: {error.message}", hint="write 2MW or 500kW") from None
    if not 0 < watts < inf:
        raise InputError(f"power of {text!r:.40}", hint="write 2MW or 500kW")
    return watts


def ceilings_of(
    asked: Planning,
    facility: Facility | None,
    devices: Sequence[str | Gpu | None],
    prices: Sequence[float | None],
) -> dict[str, Ceiling]:
    """Most devices of each GPU, by its name, that power and budget allow; empty without both."""
    if asked.power == "" and asked.budget is None:
        return {}
    out: dict[str, Ceiling] = {}
    for each, price in zip(devices, prices, strict=True):
        device, box = setting.machine_of(each, asked.node, price)
        setting.check_powered(facility, device)
        found = (
            []
            if asked.gpus is None
            else [Ceiling(asked.gpus, "gpus", f"`gpus={asked.gpus}` allow")]
        )
        if asked.power != "":
            assert facility is not None, "power without a facility"
            watts, node = _watts(asked.power), box or setting.roomiest(device, setting.MOST_GPUS)
            number = facility.most(node, watts)
            if not number:
                raise InputError(
                    f"{show(watts, 'W')} hold no {node.title}: it needs "
                    f"{show(facility.provisioned_w(node) * node.gpus, 'W')}",
                    hint="give more `power`, or another `gpu` or `node`",
                )
            found.append(Ceiling(number, "power", f"{show(watts, 'W')} hold"))
        if asked.budget is not None:
            if not device.usd_per_hour:
                raise InputError(
                    f"no price is assumed for {device.name}",
                    hint="give `usd_per_hour` for `budget`",
                )
            number = int(asked.budget / device.usd_per_hour * (1.0 + ROUNDING))
            if number < 1:
                raise InputError(
                    f"{dollars(asked.budget)}/h pay for no {device.name} at "
                    f"{dollars(device.usd_per_hour)}/h",
                    hint="give more `budget`, or another `gpu`",
                )
            found.append(Ceiling(number, "budget", f"{dollars(asked.budget)}/h pay for"))
        least = min(found, key=lambda one: one.gpus)
        setting.check_gpus(least.gpus)
        out[device.name] = least
    return out


def check_owned(asked: Planning) -> None:
    """Refuse a price of a server, or years, without a meaning."""
    if asked.own is None:
        refuse_unused("a rented server", {"`years`": asked.years != USUAL_YEARS})
        return
    if not 0 < asked.own < inf:
        raise InputError(f"a server for ${asked.own:,g}", hint="give dollars, like `own=280000`")
    if not 0 < asked.years <= MOST_YEARS:
        raise InputError(f"{asked.years:g} years", hint=f"give a number up to {MOST_YEARS}")


def filled_halls(
    kinds: Sequence[DeploymentKind],
    ceilings: Mapping[str, Ceiling],
    demand: Demand,
    goal: Goal,
    *,
    pools: bool,
    ffn: bool,
    tell: Tell,
) -> tuple[dict[str, Hall], Hall]:
    """Hall of each GPU by its name, and the one that makes most tokens."""
    halls = {
        name: filled(some, demand, goal, ceiling, pools=pools, ffn=ffn, tell=tell)
        for name, ceiling in ceilings.items()
        if (some := [kind for kind in kinds if kind.gpu == name])
    }
    return halls, max(halls.values(), key=lambda each: each.tokens_per_s)


def housed(
    asked: Planning,
    result: Result,
    found: Plan,
    facility: Facility | None,
    chosen: Hall | None,
    halls: Mapping[str, Hall],
    ceilings: Mapping[str, Ceiling],
) -> Result:
    """The result of a plan with the power it draws, and with the hall that it fills."""
    tables, notes, summary = dict(result.tables), result.notes, result.metadata["summary"]
    if found.best is not None and facility is not None:
        blocks = 1 if chosen is None else chosen.blocks
        parts = consumers(found.best, found.demand, facility, blocks)
        tables["facility"] = consumption(parts)
        if asked.own is not None:
            tables["owned"] = owned_table(parts, asked.own, asked.years)
            notes = (*notes, _owning(asked, facility))
        deployment = found.best.option.pools[0].replica.deployment
        notes = (*notes, *energy_notes(facility, deployment))
    if chosen is not None:
        tables["halls"] = halls_table(halls, facility, chosen)
        others = (each for each in halls.values() if each is not chosen and each.best is None)
        short = [line for each in others for line in sentences(each, facility)]
        summary = (*sentences(chosen, facility), *summary, *short)
    elif ceilings:
        held = [
            f"{each.said} {counted(each.gpus, 'GPU')} of {name}, by {each.binds}"
            for name, each in ceilings.items()
        ]
        summary = (*summary, f"{'; '.join(held)}.")
    metadata = {**result.metadata, "summary": summary}
    return replace(result, tables=tables, notes=notes, metadata=metadata)


def _owning(asked: Planning, facility: Facility) -> str:
    """Sentence on the parts of an owned GPU's hour."""
    paid = "with electricity at this load"
    if facility.usd_per_kwh is None:
        paid = "without electricity: give `usd_per_kwh`"
    return (
        f"Owned: ${asked.own:,g} a server, worth nothing after {asked.years:g} years of 8,766 "
        f"hours, {paid}; interest, space and staff are left out. It costs all hours, a rented GPU "
        "those in use."
    )
