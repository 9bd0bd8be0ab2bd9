"""Jobs of a plan: what is asked, and their time and price beside the plan's own figures."""

from typing import Final

from roofline.api.parameters import Planning
from roofline.api.question import refuse_unused
from roofline.api.setting import tokens_of
from roofline.errors import InputError, QuantityError
from roofline.records import replace
from roofline.study.plan.job import Job, said, tabulated
from roofline.study.plan.plan import Plan
from roofline.table import Result
from roofline.units import duration

JOBS: Final = 4
"""Deployments beside the recommended one that a job is timed on. [1]"""


def job_of(asked: Planning) -> Job | None:
    """Job of a plan; None where there is none, and RooflineError where it has no meaning."""
    if asked.job is None:
        refuse_unused("traffic that goes on", {"`within`": asked.within != ""})
        return None
    other = {
        "`rate`": asked.rate is not None,
        "`sessions_per_day`": asked.sessions_per_day is not None,
        "`rate_curve`": bool(asked.rate_curve),
        "`cv`": asked.cv is not None,
        "`slo`": asked.slo is not None,
        "`length_pools`": asked.length_pools,
    }
    refuse_unused("a job, whose requests all wait at its start,", other)
    hint = "give both: `job=10G` and `within=24h`"
    if asked.within == "":
        raise InputError("a job without a time in which it has to be done", hint=hint)
    try:
        seconds = float(asked.within)
    except ValueError:
        try:
            seconds = duration(str(asked.within))
        except QuantityError as error:
            raise InputError(f"`within`: {error.message}", hint=error.hint) from None
    return Job(tokens_of("job", asked.job), seconds)


def with_job(result: Result, job: Job, plan: Plan) -> Result:
    """The result of a plan with the time and price of a job."""
    others = [
        each
        for each in (*plan.found.options, *plan.pooled)
        if plan.best is not None and not each.same(plan.best.option)
    ]
    found = tabulated(job, plan, sorted(others, key=plan.question.order)[:JOBS])
    summary = (*said(job, plan, found), *result.metadata["summary"])
    return replace(
        result,
        tables={**result.tables, "job": found},
        metadata={**result.metadata, "summary": summary},
    )
