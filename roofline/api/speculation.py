"""Gain of speculative decoding at a batch, and the batch at which it becomes a loss."""

from typing import Final, get_args

from roofline.api import setting
from roofline.api.parameters import DraftComparison
from roofline.api.question import question, refuse_unused, shared
from roofline.api.setting import check_groups
from roofline.cost.deployment import Deployment
from roofline.errors import InputError, prefixed
from roofline.model.architecture import Architecture
from roofline.serving import drafts
from roofline.serving.acceptance import PUBLISHED, Acceptance, parse, spread_out
from roofline.serving.draft_schedule import schedule
from roofline.serving.drafts import Draft
from roofline.serving.speculative import check
from roofline.serving.speculative import speculate as priced
from roofline.serving.speculative_result import result_of
from roofline.serving.workload import Workload
from roofline.table import Result

AUTO: Final = "auto"
"""Draft length that adapts to the batch."""
LARGEST: Final = 512
"""Batch up to which draft lengths are told, where no larger one is asked for. [1]"""


@question(DraftComparison)
def speculate(asked: DraftComparison) -> Result:
    """Say what speculative decoding gains: tokens a round, cost of draft and verification, TPOT.

    Returns:
        Result: Tables ``headline``, ``schedule`` where the length is ``auto``, ``by_request`` where
            requests differ, ``round_work``, ``drafts``, ``batches``, ``memory``, ``published``;
            derivations by metric.
    """
    rates = rates_of(asked.acceptance, asked.acceptance_spread)
    if asked.tree or asked.tokens:
        refuse_unused("a tree", {"`acceptance_spread`": asked.acceptance_spread != 0})
    options = setting.options_asked(asked)
    network, device, box = setting.subject_of(asked)
    layout = setting.one_replica(asked.gpus, asked.layout)
    target = setting.make_asked_deployment(asked, network, device, box, layout, options=options)
    check_groups(asked.routing, False, target)
    draft = draft_of(asked.draft, target, asked.draft_weights, asked.draft_tp, asked.calibration)
    work, length, scheduled = Workload(**shared(asked, Workload)), length_of(asked.length), None
    if length is None:
        check(target, draft, work)
        most = max(2 * work.batch, LARGEST)
        scheduled = schedule(target, draft, rates, work, most)
        length = max(int(scheduled.lengths[work.batch - 1]), 1)
    return result_of(
        priced(
            target,
            draft,
            rates,
            work,
            length=length or (0 if asked.tree or asked.tokens else 4),
            widths=tuple(asked.tree),
            tokens=asked.tokens,
            utilization=asked.memory_utilization,
        ),
        scheduled,
    )


def length_of(asked: int | str | None, name: str = "length") -> int | None:
    """Tokens drafted in a row, 0 where nothing is said; None where the load decides."""
    if asked is None or isinstance(asked, int):
        return asked or 0
    text = asked.strip().lower()
    if text == AUTO:
        return None
    if not text.lstrip("-").isdigit():
        raise InputError(f"`{name}` is {asked!r:.40}", hint="give 1 to 16, or auto")
    return int(text)


def rates_of(acceptance: str | float, spread: float = 0.0) -> Acceptance:
    """Acceptance rates as given, as no rate stands for all text, and how far requests differ."""
    if isinstance(acceptance, str) and not acceptance.strip():
        known = PUBLISHED[0]
        raise InputError(
            "no acceptance rate is right for every text, draft and sampling",
            hint=f"give one that was measured on yours, or assume one: {known.draft} for "
            f"{known.target} on {known.text} has `acceptance={known.rounded}`",
        )
    mean = parse(acceptance) if isinstance(acceptance, str) else Acceptance(((acceptance,),))
    return spread_out(mean, spread)


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
            setting.make_deployment(
                setting.network_of(draft),
                target.node.gpu,
                target.node,
                drafts.draft_layout(target, tp),
                weights=weights,
                engine=target.engine.name,
                calibration=calibration,
            )
        )
