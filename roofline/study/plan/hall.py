"""A hall of limited power or cost: GPUs that it holds, what fills it, and what that draws.

A hall is filled by blocks that share nothing but the traffic: one is planned and simulated by
itself, for all that it carries, and the hall has as many as it holds. Requests that are dealt out
evenly come to a block no more unevenly than those that come to it alone.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from roofline.records import replace
from roofline.serving.facility import Consumption, Facility
from roofline.serving.price import owned_usd_per_hour
from roofline.serving.running_cost import request_energy
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from roofline.study.plan.candidate import DeploymentKind
from roofline.study.plan.confirm import MEAN, SimulatedOption
from roofline.study.plan.demand import Demand, Goal
from roofline.study.plan.figures import named, shape, usd_per_mtok
from roofline.study.plan.option import PlanQuestion
from roofline.study.plan.plan import Plan, probes_of
from roofline.study.plan.plan import plan as planned
from roofline.study.plan.relaxations import MARGIN, strongest
from roofline.study.plan.screen import screen
from roofline.study.plan.tabled import Budget, Tables
from roofline.table import Table, table
from roofline.units import PREFIX, SECONDS_PER_DAY, counted, show, significant

BLOCK: Final = 8
"""Devices of a block; twice as many, and so on, where nothing fits on them. A small hall is one
block. [1]"""
LARGEST: Final = 64
"""Devices of the largest block that is tried. [1]"""
SLOWER: Final = 0.94
"""Factor on the rate of a block where a run does not confirm it. [1]"""
TRIES: Final = 5
"""Rates that are tried. [1]"""


class Ceiling(Struct, frozen=True):
    """Most GPUs of one kind, and what allows no more."""

    gpus: int
    """Devices that it holds. [1]"""
    binds: str
    """``"power"``, ``"budget"`` or ``"gpus"``."""
    said: str
    """The ceiling in words, with its verb: ``"2.00 MW hold"``."""


class Hall(Struct, frozen=True):
    """A hall filled with GPUs of one kind."""

    ceiling: Ceiling
    plan: Plan
    """Plan of a block, for what it carries; its best is None where nothing fits."""

    @property
    def best(self) -> SimulatedOption | None:
        """Block that is repeated; None where nothing fits."""
        return self.plan.best

    @property
    def blocks(self) -> int:
        """Blocks in the hall. [1]"""
        return 0 if self.best is None else self.ceiling.gpus // self.best.option.gpus

    @property
    def requests_per_s(self) -> float:
        """Requests a second of the whole hall, for which all limits hold. [1/s]"""
        return self.blocks * self.plan.demand.rate

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second of the whole hall. [token/s]"""
        return self.requests_per_s * self.plan.demand.output


def filled(
    kinds: Sequence[DeploymentKind],
    demand: Demand,
    goal: Goal,
    ceiling: Ceiling,
    *,
    pools: bool = True,
    ffn: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Hall:
    """Fill a hall with the deployment that carries most on a block of its GPUs.

    Args:
        kinds: Kinds of one GPU.
        demand: Traffic, at any rate.
        goal: Limits that have to hold.
        ceiling: Devices that the hall holds.
        pools, ffn: As of `roofline.study.plan.plan.plan`.
    """
    (gpu,) = {kind.gpu for kind in kinds}
    size = BLOCK if ceiling.gpus > LARGEST else ceiling.gpus
    while True:
        limited = replace(goal, gpus=size, held={gpu: size})
        found = _block(kinds, demand, limited, tell, pools, ffn)
        if found.best is not None or 2 * size > min(LARGEST, ceiling.gpus):
            return Hall(ceiling, found)
        size *= 2


def _block(
    kinds: Sequence[DeploymentKind],
    demand: Demand,
    goal: Goal,
    tell: Callable[[str], None],
    pools: bool,
    ffn: bool,
) -> Plan:
    """Plan of a block for nearly all that its strongest layout carries."""
    tables = Tables(probes_of(goal.objectives), tell, Budget())
    question = PlanQuestion(demand, goal)
    candidates = [each for kind in kinds for each in screen(kind, demand, goal.gpus)]
    _, most = strongest(candidates, question, tables)
    rate = most / (1.0 + goal.headroom) / MARGIN
    found = None
    for _ in range(TRIES if most else 0):
        at = replace(demand, rate=float(significant(rate).replace(",", "")))
        found = planned(kinds, at, goal, pools=pools, ffn=ffn, tell=tell)
        if found.best is not None:
            return found
        rate *= SLOWER
    return found or planned(kinds, demand, goal, pools=pools, ffn=ffn, tell=tell)


def consumers(
    done: SimulatedOption, demand: Demand, facility: Facility, blocks: int
) -> list[Consumption]:
    """Pools of a deployment at its load, each with what it draws, in so many blocks. [1]

    A pool decodes as many sequences as come in the time of an answer (Little's law).
    """
    option, out = done.option, []
    for pool in option.pools:
        deployment, rate = pool.replica.deployment, option.rate / pool.instances
        waiting = rate * option.seconds(MEAN) * demand.steps if pool.role != "prefill" else 1.0
        batch = min(max(round(waiting), 1), pool.server.max_sequences)
        work = Workload(
            batch=batch,
            prompt=max(round(demand.prompt), 1),
            output=max(round(demand.output), 1),
            prefix_hit=max(1.0 - demand.mean_new_tokens / demand.prompt, 0.0),
        )
        energy = request_energy(static_batch(deployment, work))
        out.append(
            Consumption(
                facility,
                deployment.node,
                energy.power(rate, done.utilisation, pool.role),
                blocks * pool.gpus,
                blocks * option.rate,
                blocks * option.rate * demand.output,
            )
        )
    return out


def halls_table(halls: Mapping[str, Hall], facility: Facility | None, chosen: Hall) -> Table:
    """Halls side by side, one for each GPU, and what each serves."""
    rows = [_row(each, facility, each is chosen) for each in halls.values()]
    units = {
        "requests_per_s": "request/s",
        "tokens_per_day": "token",
        "ttft_s": "s",
        "tpot_s": "s",
        "facility_w": "W",
        "provisioned_w": "W",
        "usd_per_hour": "$/h",
        "usd_per_mtok": "$",
    }
    return table(rows, units, "assumed")


def _row(hall: Hall, facility: Facility | None, chosen: bool) -> dict[str, object]:
    done, demand = hall.best, hall.plan.demand
    gpu = hall.plan.compared[0].gpu
    row: dict[str, object] = {"gpu": gpu, "held": hall.ceiling.gpus, "binds": hall.ceiling.binds}
    empty = ("gpus", "requests_per_s", "tokens_per_day", "ttft_s", "tpot_s")
    if done is None:
        more = dict.fromkeys((*empty, "facility_w", "provisioned_w", "usd_per_hour"))
        return {**row, "shape": "", "blocks": 0, **more, "usd_per_mtok": None, "chosen": False}
    names = named(hall.plan.goal.objectives)
    parts = [] if facility is None else consumers(done, demand, facility, hall.blocks)
    return {
        **row,
        "shape": shape(done.option),
        "blocks": hall.blocks,
        "gpus": hall.blocks * done.option.gpus,
        "requests_per_s": hall.requests_per_s,
        "tokens_per_day": hall.tokens_per_s * SECONDS_PER_DAY,
        "ttft_s": done.seconds(names.ttft).kept.value_s,
        "tpot_s": done.seconds(names.tpot).kept.value_s,
        "facility_w": sum(part.building.value for part in parts) or None,
        "provisioned_w": sum(part.provisioned_w for part in parts) or None,
        "usd_per_hour": hall.blocks * done.option.usd_per_hour or None,
        "usd_per_mtok": usd_per_mtok(done.option, demand.output),
        "chosen": chosen,
    }


def sentences(hall: Hall, facility: Facility | None) -> tuple[str, ...]:
    """Size of a hall, what it serves, which ceiling binds, and the power that it draws."""
    done, ceiling = hall.best, hall.ceiling
    title = hall.plan.compared[0].base.node.gpu.title
    holds = f"{ceiling.said} {counted(ceiling.gpus, 'GPU')}, {title}: {ceiling.binds} binds"
    if done is None:
        return (
            f"{holds}; no block of up to {min(LARGEST, ceiling.gpus)} of them keeps the limits.",
        )
    names = named(hall.plan.goal.objectives)
    tpot = done.seconds(names.tpot)
    used = hall.blocks * done.option.gpus
    out = [
        f"{holds}.",
        f"{counted(hall.blocks, 'block')} of {shape(done.option)}, {counted(used, 'GPU')}, "
        f"{'carries' if hall.blocks == 1 else 'carry'} "
        f"{significant(hall.requests_per_s)} requests/s and "
        f"{show(hall.tokens_per_s * SECONDS_PER_DAY, '')} output tokens a day, with "
        f"{names.tpot} {show(tpot.kept.value_s, 's')}.",
    ]
    if facility is not None:
        parts = consumers(done, hall.plan.demand, facility, hall.blocks)
        drawn = sum(part.building.value for part in parts)
        needed = sum(part.provisioned_w for part in parts)
        out.append(
            f"They draw {show(drawn, 'W')} at that load and need {show(needed, 'W')} with all at "
            f"their limits, which is what a hall is sized by: {drawn / needed:.0%} is used."
        )
    out.append(
        "Deployments, their price and the SLO below are of one block, at "
        f"{significant(hall.plan.demand.rate)} requests/s; power is of all."
    )
    return tuple(out)


def owned_table(parts: Sequence[Consumption], server_usd: float, years: float) -> Table:
    """Hour of a GPU of one's own beside a rented one, for each GPU of a deployment.

    Its own costs all hours and a rented one those in use: from the share of hours in which both
    cost the same it is cheaper to own.
    """
    rows = []
    for part in {each.node.gpu.name: each for each in parts}.values():
        rented, paid = part.node.gpu.usd_per_hour, part.facility.usd_per_kwh or 0.0
        bought = float(owned_usd_per_hour(server_usd, part.node.gpus, years))
        alike = [each for each in parts if each.node.gpu.name == part.node.gpu.name]
        watts = sum(each.building.value for each in alike) / sum(each.devices for each in alike)
        power = watts / PREFIX["k"] * paid
        rows.append(
            {
                "gpu": part.node.gpu.name,
                "server_gpus": part.node.gpus,
                "depreciation_usd_per_hour": bought,
                "electricity_usd_per_hour": power,
                "owned_usd_per_hour": bought + power,
                "usd_per_hour": rented or None,
                "break_even_share": (bought + power) / rented if rented else None,
            }
        )
    units = {name: "$/h" for name in rows[0] if name.endswith("usd_per_hour")}
    return table(rows, units, "assumed")
