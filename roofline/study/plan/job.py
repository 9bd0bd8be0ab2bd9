"""A job of many requests that all wait: time and price until the last of them is answered.

Replicas are never idle, so that each serves at its saturation rate, and they are given back when
all is done. The price is then that of the work, whatever the number of replicas: n · devices · $/h
over the saturation rate.

Source: makespan of equal servers that are always busy; Asmussen 2003, Applied Probability and
Queues, chapter III, for the rate.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from roofline.errors import InputError
from roofline.serving.price import usd_per_mtok
from roofline.serving.requests import Requests
from roofline.serving.run.serve import saturation
from roofline.study.plan.demand import Demand
from roofline.study.plan.figures import shape
from roofline.study.plan.option import Option, deviations
from roofline.study.plan.plan import Plan
from roofline.table import Table, table
from roofline.units import SECONDS_PER_HOUR, chance, counted, dollars, show, significant

BUSY: Final = 0.9
"""Share of the time in which all has to be served; the rest is for starts and failures. Assumed.
[1]"""


class Job(Struct, frozen=True):
    """Tokens that have to be through, and the time in which they have to be."""

    tokens: float
    """Number of tokens of prompts and answers together. [token]"""
    within_s: float
    """Time from the start to the last answer. [s]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if not 0 < self.tokens < float("inf"):
            raise InputError(f"a job of {self.tokens:g} tokens", hint="write `job=10G`")
        if not 0 < self.within_s < float("inf"):
            raise InputError(f"a job within {self.within_s:g} s", hint="write `within=24h`")

    def number(self, made: Requests) -> float:
        """Requests of it, if all are like those that were drawn. [1]"""
        return self.tokens / float((made.prompt + made.output).mean())

    def rate(self, made: Requests) -> float:
        """Requests a second that have to be served in `BUSY` of the time. [1/s]

        Examples:
            100 tokens in each of two requests a second are 648,000 in nine tenths of an hour:

            >>> from roofline.serving.requests import requests
            >>> Job(648_000.0, 3600.0).rate(requests([0.0], [60], [40]))
            2.0
        """
        return self.number(made) / (BUSY * self.within_s)


def served_per_s(option: Option, demand: Demand) -> float:
    """Requests a second of an option whose queue is never empty. [1/s]

    Simulated where one pool does everything; two pools serve what the curve of the slower says.
    """
    if option.wires is not None:
        return option.saturation
    (pool,) = option.pools
    fleet = pool.replica.fleet(pool.server, demand, number=pool.instances)
    return saturation(fleet, demand.requests)


def tabulated(job: Job, plan: Plan, others: Sequence[Option]) -> Table:
    """The recommended deployment, and others, until the job is done; the cheapest first."""
    assert plan.best is not None, "a job that nothing carries"
    number, rows = job.number(plan.demand.requests), []
    for option in (plan.best.option, *others):
        rate = served_per_s(option, plan.demand)
        seconds = number / rate
        hours = seconds / SECONDS_PER_HOUR
        late = hours * plan.question.slowness(option.kind)
        rows.append(
            {
                "shape": shape(option),
                "gpu": " + ".join(dict.fromkeys(pool.kind.gpu for pool in option.pools)),
                "weights": option.kind.weights,
                "gpus": option.gpus,
                "requests_per_s": rate,
                "hours": hours,
                "latest_hours": late,
                "gpu_hours": hours * option.gpus,
                "job_usd": hours * option.usd_per_hour or None,
                "usd_per_mtok_all": usd_per_mtok(option.usd_per_hour, seconds, job.tokens) or None,
                "chosen": option is plan.best.option,
            }
        )
    rows.sort(key=lambda row: (row["job_usd"] or row["gpu_hours"], not row["chosen"]))
    units = {
        "requests_per_s": "request/s",
        "hours": "h",
        "latest_hours": "h",
        "gpu_hours": "h",
        "job_usd": "$",
        "usd_per_mtok_all": "$",
    }
    return table(rows, units)


def said(job: Job, plan: Plan, found: Table) -> tuple[str, ...]:
    """Sentences on the job: its requests, its time, its price."""
    assert plan.best is not None, "a job that nothing carries"
    row = next(row for row in found.rows() if row["chosen"])
    number = job.number(plan.demand.requests)
    usd, each = row["job_usd"], row["usd_per_mtok_all"]
    price = "" if usd is None else f", for {dollars(usd)}: {dollars(each)} for a million of them"
    sure = plan.goal.confidence
    late = f", {show(row['latest_hours'], 'h')} at {chance(sure)} confidence"
    return (
        f"{show(job.tokens, '')} tokens of prompts and answers are {show(number, '')} requests. "
        f"{counted(row['gpus'], 'GPU')}, {row['gpu']}, {row['shape']}, are through in "
        f"{show(row['hours'], 'h')}"
        f"{late if deviations(sure) and row['latest_hours'] > row['hours'] else ''} of "
        f"{show(job.within_s / SECONDS_PER_HOUR, 'h')}{price}.",
        f"Each replica is always busy, and {1.0 - BUSY:.0%} of the time is kept for starts and "
        "failures; more replicas end sooner at the same price.",
        f"Below, deployments and their price are of {significant(plan.demand.rate)} requests/s, "
        "which is all of it in the other time, as if requests came one by one.",
    )
