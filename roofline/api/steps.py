"""The steps of a planned deployment, for its page: operators, roofs, memory, figures by batch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from roofline.api.analysis import analyze
from roofline.errors import RooflineError
from roofline.model.architecture import Architecture
from roofline.study.plan.kinds import Kind
from roofline.table import Column, Result, Table, table

WHOLE: Final = ("roofs", "memory", "capacity", "batch_curve")
"""Tables that are those of the instances that decode."""
FIRST: Final = "ttft"
"""What a static batch does not say of traffic: its prompts come at once."""


def with_steps(plan: Result, network: Architecture, kinds: Sequence[Kind], **how: Any) -> Result:
    """A plan with what the steps of the recommended deployment are made of.

    Parameters
    ----------
    plan
        Of `roofline.api.plan`.
    network, kinds
        What it was made for.
    how
        Other arguments of `roofline.api.analyze` that steps were priced with.

    Returns
    -------
    Result
        With the tables ``ops``, ``roofs``, ``memory``, ``capacity``, ``batch_curve`` and
        ``kernels`` of a static batch; as it is where nothing fits.
    """
    rows = list(plan.tables["verdict"].rows())
    if not rows:
        return plan
    (best,) = rows
    batch = _together(best, plan.metadata)
    apart = bool(best["decode_layout"])
    decoding = best["decode_layout"] or best["layout"]
    try:
        prefill = _priced(best, network, kinds, best["layout"], 1, plan, how) if apart else None
        decode = _priced(best, network, kinds, decoding, batch, plan, how)
    except RooflineError:
        return plan  # it was priced otherwise: the plan has everything else
    found = {name: decode.tables[name] for name in WHOLE if name in decode.tables}
    found["batch_curve"] = _without(found["batch_curve"], FIRST)
    found["ops"] = _phases(decode, prefill or decode, "ops")
    if "kernels" in decode.tables:
        found["kernels"] = _kernels(decode, prefill or decode)
    where = f"prefill on {best['layout']}, decode on {decoding}" if apart else decoding
    return replace(
        plan,
        tables={**plan.tables, **found},
        metadata={
            **plan.metadata,
            "batch": batch,
            "calibration": str(decode.metadata.get("calibration") or ""),
            "steps": (
                f"Of the recommended deployment, {where}: one prompt of "
                f"{plan.metadata['prompt_mean']:,.0f} tokens, and {batch:,} sequences that decode "
                "together, about as many as an instance has at the planned load."
            ),
        },
    )


def _together(best: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    """Sequences of an instance at the planned load, by Little's law. [1]"""
    instances = best["decode_instances"] or best["instances"]
    seconds = best["tpot_s"] * given["output_mean"]
    several = best["rate_per_s"] * seconds / instances
    return int(min(max(round(several), 1), best["max_sequences"]))


def _priced(
    best: Mapping[str, Any],
    network: Architecture,
    kinds: Sequence[Kind],
    layout: str,
    batch: int,
    plan: Result,
    how: Mapping[str, Any],
) -> Result:
    named = (best["gpu"], best["weights"], best["kv"])
    kind = next(kind for kind in kinds if (kind.gpu, kind.weights, kind.kv) == named)
    return analyze(
        network,
        kind.base.node.gpu,
        node=kind.base.node,
        layout=layout,
        weights=kind.weights,
        kv=kind.kv,
        batch=batch,
        prefill_batch=1,
        prompt=max(1, round(plan.metadata["prompt_mean"])),
        output=max(2, round(plan.metadata["output_mean"])),
        engine=plan.metadata["engine"],
        **how,
    )


def _without(curve: Table, stem: str) -> Table:
    """A table without the columns of a figure."""
    kept = {n: column for n, column in curve.columns.items() if not n.startswith(stem)}
    return Table({n: c for n, c in kept.items() if not n.startswith("latency")})


def _phases(decode: Result, prefill: Result, name: str) -> Table:
    """Operators of prefill as one result has them, those of decode as the other."""
    rows = [row for row in prefill.tables[name].rows() if row["phase"] == "prefill"]
    rows += [row for row in decode.tables[name].rows() if row["phase"] != "prefill"]
    columns = decode.tables[name].columns
    return Table(
        {
            key: Column(tuple(row[key] for row in rows), column.unit, column.basis)
            for key, column in columns.items()
        }
    )


def _kernels(decode: Result, prefill: Result) -> Table:
    """Measured kernels of both, each with its share of the phase that it is used in."""
    if prefill is decode:
        return decode.tables["kernels"]
    rows = [{**row, "decode": 0.0} for row in prefill.tables["kernels"].rows() if row["prefill"]]
    rows += [{**row, "prefill": 0.0} for row in decode.tables["kernels"].rows() if row["decode"]]
    return table(rows, {})
