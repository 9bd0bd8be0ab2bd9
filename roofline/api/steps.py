"""The steps of a planned deployment, for its page: operators, roofs, memory, figures by batch."""

from dataclasses import replace
from typing import Final

from roofline.errors import RooflineError
from roofline.serving.result import result_of
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from roofline.study.plan.confirm import MEAN, Confirmed
from roofline.study.plan.option import Pool
from roofline.study.plan.plan import Plan
from roofline.table import Column, Result, Table, table

WHOLE: Final = ("roofs", "memory", "capacity", "batch_curve")
"""Tables that are those of the instances that decode."""
TOGETHER: Final = ("ttft", "latency")
"""What a static batch does not say of traffic: its prompts come at once."""


def with_steps(result: Result, plan: Plan) -> Result:
    """A plan with what the steps of the recommended deployment are made of.

    Parameters
    ----------
    result, plan
        Tables of a plan, and the plan.

    Returns
    -------
    Result
        With the tables ``ops``, ``roofs``, ``memory``, ``capacity``, ``batch_curve`` and
        ``kernels`` of a static batch; as it is where nothing fits.
    """
    if plan.best is None:
        return result
    first, last = plan.best.option.pools[0], plan.best.option.pools[-1]
    batch = _together(plan.best, last, plan)
    try:
        decode = _priced(last, plan, batch)
        prefill = decode if first is last else _priced(first, plan, 1)
    except RooflineError:
        return result  # no static batch is like its steps; the plan has everything else
    same = first.kind.gpu == last.kind.gpu
    found = {name: decode.tables[name] for name in WHOLE if name in decode.tables}
    found["batch_curve"] = _without(found["batch_curve"])
    # Operators of two devices do not stand under the same roofs.
    found["ops"] = _phases(decode, prefill if same else None)
    if "kernels" in decode.tables:
        found["kernels"] = _kernels(decode, prefill if same else None)
    layouts = [pool.candidate.layout.spelled for pool in (first, last)]
    where = f"prefill on {layouts[0]}, decode on {layouts[1]}" if first is not last else layouts[0]
    if not same:
        where = f"only of what decodes, {layouts[1]} on {last.kind.gpu}"
    steps = (
        f"Of the recommended deployment, {where}: prompts of {plan.full.prompt:,.0f} tokens, one "
        f"in a step, and {batch:,} sequences that decode together, about as many as an instance "
        f"has at the planned load{'' if last.replica.draft is None else ', without drafts'}."
    )
    more = {
        "batch": batch,
        "calibration": str(decode.metadata.get("calibration") or ""),
        "steps": steps,
    }
    return replace(result, tables={**result.tables, **found}, metadata={**result.metadata, **more})


def _together(best: Confirmed, pool: Pool, plan: Plan) -> int:
    """Sequences that an instance decodes at the planned load, by Little's law. [1]"""
    seconds = best.seconds(MEAN).kept.value_s * plan.full.output
    several = plan.full.rate * seconds / pool.instances
    return int(min(max(round(several), 1), pool.server.max_sequences))


def _priced(pool: Pool, plan: Plan, batch: int) -> Result:
    """A static batch on an instance of a pool, with the lengths of the traffic."""
    prompt, output = max(1, round(plan.full.prompt)), max(2, round(plan.full.output))
    made = static_batch(
        pool.replica.deployment,
        Workload(batch, prompt, output, prefill_batch=1),
        utilization=pool.kind.utilization,
    )
    return result_of(made, 1)


def _without(curve: Table) -> Table:
    """Figures by batch without those of prompts that come at once."""
    return Table({n: c for n, c in curve.columns.items() if not n.startswith(TOGETHER)})


def _phases(decode: Result, prefill: Result | None) -> Table:
    """Operators of prefill as one result has them, those of decode as the other."""
    rows = [row for row in decode.tables["ops"].rows() if row["phase"] != "prefill"]
    if prefill is not None:
        rows[:0] = [row for row in prefill.tables["ops"].rows() if row["phase"] == "prefill"]
    return Table(
        {
            name: Column(tuple(row[name] for row in rows), column.unit, column.basis)
            for name, column in decode.tables["ops"].columns.items()
        }
    )


def _kernels(decode: Result, prefill: Result | None) -> Table:
    """Measured kernels of both, each with its share of the phase that it is used in."""
    if prefill is decode:
        return decode.tables["kernels"]
    rows = [{**row, "prefill": 0.0} for row in decode.tables["kernels"].rows() if row["decode"]]
    if prefill is not None:
        used = [row for row in prefill.tables["kernels"].rows() if row["prefill"]]
        rows[:0] = [{**row, "decode": 0.0} for row in used]
    return table(rows, {})
