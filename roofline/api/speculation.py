"""Gain of speculative decoding at a batch, and the batch at which it becomes a loss."""

from typing import get_args

from roofline.api import setting
from roofline.api.parameters import Drafting, shared
from roofline.api.question import question
from roofline.cost.deployment import Deployment
from roofline.errors import InputError, prefixed
from roofline.model.architecture import Architecture
from roofline.serving import drafts
from roofline.serving.acceptance import PUBLISHED, Acceptance, parse
from roofline.serving.asking import refuse_unused
from roofline.serving.drafts import Draft
from roofline.serving.speculative import speculate as priced
from roofline.serving.speculative_result import result_of
from roofline.serving.workload import Workload
from roofline.table import Result


@question(Drafting)
def speculate(asked: Drafting) -> Result:
    """Say what speculative decoding gains: tokens a round, cost of draft and verification, TPOT.

    Returns:
        Result: Tables ``headline``, ``drafts``, ``batches``, ``memory``, ``published``; derivations
            by metric.
    """
    rates = rates_of(asked.acceptance)
    options = setting.options_asked(asked)
    network, device, box = setting.subject_of(asked)
    layout = setting.one_replica(asked.gpus, asked.layout)
    target = setting.deployed_as(asked, network, device, box, layout, options=options)
    return result_of(
        priced(
            target,
            draft_of(asked.draft, target, asked.draft_weights, asked.draft_tp, asked.calibration),
            rates,
            Workload(**shared(asked, Workload)),
            length=asked.length or (0 if asked.tree or asked.tokens else 4),
            widths=tuple(asked.tree),
            tokens=asked.tokens,
            utilization=asked.memory_utilization,
        )
    )


def rates_of(acceptance: str | float) -> Acceptance:
    """Acceptance rates as given, as no rate stands for all text."""
    if isinstance(acceptance, str) and not acceptance.strip():
        known = PUBLISHED[0]
        raise InputError(
            "no acceptance rate is right for every text, draft and sampling",
            hint=f"give one that was measured on yours, or assume one: {known.draft} for "
            f"{known.target} on {known.text} has `acceptance={known.rounded}`",
        )
    return parse(acceptance) if isinstance(acceptance, str) else Acceptance(((acceptance,),))


def draft_of(
    draft: str | Architecture,
    target: Deployment,
    weights: str | None,
    tp: int | None,
    calibration: str,
) -> Draft:
    """Draft on the target's devices."""
    kind = draft.strip().lower() if isinstance(draft, str) else ""
    if kind in drafts.OWN:
        refuse_unused(
            f"`draft={kind}`",
            {"`draft_weights`": weights is not None, "`draft_tp`": tp is not None},
        )
        return drafts.named(next(name for name in get_args(drafts.Kind) if name == kind), target)
    if isinstance(draft, str) and not kind:
        raise InputError(
            "nothing drafts", hint=f"give `draft={', '.join(drafts.OWN)}`, or a network"
        )
    with prefixed("draft"):
        return drafts.model(
            setting.deployed(
                setting.network_of(draft),
                target.node.gpu,
                target.node,
                drafts.draft_layout(target, tp),
                weights=weights,
                engine=target.engine.name,
                calibration=calibration,
            )
        )
