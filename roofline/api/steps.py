"""The steps of a planned deployment, for its page: operators, roofs, memory, figures by batch."""

from typing import Final

from roofline.errors import RooflineError
from roofline.records import replace
from roofline.serving import room
from roofline.serving.result import capacity, kernels, operators, roofs
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.static_batches import curve
from roofline.serving.workload import Workload
from roofline.study.plan.confirm import MEAN, SimulatedOption
from roofline.study.plan.option import Pool
from roofline.study.plan.plan import Plan
from roofline.table import Result, Table, table

TOGETHER: Final = ("ttft", "latency")
"""Figures of a static batch that do not hold for traffic: its prompts come at once."""


def with_steps(result: Result, plan: Plan) -> Result:
    """A plan with the steps of the recommended deployment; as it is where nothing fits.

    Tables ``ops``, ``roofs``, ``memory``, ``capacity``, ``batch_curve`` and ``kernels`` are of a
    static batch.
    """
    if plan.best is None:
        return result
    first, last = plan.best.option.pools[0], plan.best.option.pools[-1]
    batch = _together(plan.best, last, plan)
    try:
        decode = _priced(last, plan, batch)
        prefill = decode if first is last else _priced(first, plan, 1)
        most = room.largest_batch(decode.deployment, decode.workload, decode.utilization)
        batches = curve(decode, most)
    except RooflineError:
        return result  # no static batch is like its steps; the plan has everything else
    same = first.kind.gpu == last.kind.gpu
    # Operators of two devices do not stand under the same roofs.
    found = {
        "roofs": roofs(decode),
        "memory": room.memory_table(decode.memory),
        "capacity": capacity(decode, most),
        "batch_curve": Table(
            {n: c for n, c in batches.columns.items() if not n.startswith(TOGETHER)}
        ),
        "ops": _phases(decode, prefill if same else None),
        "kernels": _kernels(decode, prefill if same else None),
    }
    measured = decode.deployment.calibration
    layouts = [pool.candidate.spelled for pool in (first, last)]
    where = f"prefill on {layouts[0]}, decode on {layouts[1]}" if first is not last else layouts[0]
    if not same:
        where = f"only of what decodes, {layouts[1]} on {last.kind.gpu}"
    steps = (
        f"Of the recommended deployment, {where}: prompts of {plan.demand.prompt:,.0f} tokens, one "
        f"in a step, and {batch:,} sequences that decode together, about as many as an instance "
        f"has at the planned load{'' if last.replica.draft is None else ', without drafts'}."
    )
    more = {
        "batch": batch,
        "calibration": "none" if measured is None else measured.name,
        "steps": steps,
    }
    return replace(result, tables={**result.tables, **found}, metadata={**result.metadata, **more})


def _together(best: SimulatedOption, pool: Pool, plan: Plan) -> int:
    """Sequences that an instance decodes at the planned load, by Little's law. [1]"""
    seconds = best.seconds(MEAN).kept.value_s * plan.demand.output
    several = plan.demand.rate * seconds / pool.instances
    return int(min(max(round(several), 1), pool.server.max_sequences))


def _priced(pool: Pool, plan: Plan, batch: int) -> StaticBatch:
    """A static batch on an instance of a pool, with the lengths of the traffic."""
    prompt, output = max(1, round(plan.demand.prompt)), max(2, round(plan.demand.output))
    return static_batch(
        pool.replica.deployment,
        Workload(batch, prompt, output, prefill_batch=1),
        utilization=pool.kind.utilization,
    )


def _phases(decode: StaticBatch, prefill: StaticBatch | None) -> Table:
    """Operators of prefill as one batch has them, those of decode as the other."""
    every = operators(decode)
    rows = [row for row in every.rows() if row["phase"] != "prefill"]
    if prefill is not None:
        others = every if prefill is decode else operators(prefill)
        rows[:0] = [row for row in others.rows() if row["phase"] == "prefill"]
    return every.of_rows(rows)


def _kernels(decode: StaticBatch, prefill: StaticBatch | None) -> Table:
    """Measured kernels of both, each with its share of the phase that it is used in."""
    if prefill is decode:
        return kernels(decode)
    rows = [{**row, "prefill": 0.0} for row in kernels(decode).rows() if row["decode"]]
    if prefill is not None:
        used = [row for row in kernels(prefill).rows() if row["prefill"]]
        rows[:0] = [{**row, "decode": 0.0} for row in used]
    return table(rows, {})
