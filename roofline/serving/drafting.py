"""What drafts adds to a batch: time in the prompts, memory of each device; and to which it can."""

from roofline.cost.deployment import Deployment
from roofline.cost.memory import Memory, budget
from roofline.errors import InputError
from roofline.serving import room
from roofline.serving.draft_trees import Tree
from roofline.serving.drafts import Draft, held, pass_
from roofline.serving.rounds import Span
from roofline.serving.static import check_context
from roofline.serving.workload import Workload


def prefill_of(draft: Draft, target: Deployment, workload: Workload) -> Span:
    """What drafts takes in the prompts, as many in a step as the target does."""
    if not draft.sequential:
        return Span(0.0, 0.0)
    parts = pass_(draft, target, workload.prefill(float(workload.together)))
    # Inside the target's steps, as drafting is: the engine's factor on kernels, and no more.
    times = target.engine_costs.prefill_gain * workload.batch / workload.together
    seconds, serial = float(parts.seconds(target)), float(parts.serial)
    return Span(seconds, serial, float(parts.log_sd)) * times


def memory_of(
    target: Deployment, tree: Tree, workload: Workload, utilization: float | None
) -> Memory:
    """Budget of one device whose steps verify: drafted tokens are cached, and have logits."""
    rows = float(workload.batch * (1 + tree.nodes))
    return budget(
        target,
        batch=workload.batch,
        context=workload.longest + tree.nodes,
        step_tokens=max(float(room.step_tokens(target, workload)), rows),
        step_rows=rows,
        utilization=utilization,
    )


def taken(target: Deployment, draft: Draft, tree: Tree, workload: Workload) -> tuple[float, float]:
    """Weights and cache of what drafts, on each device. [B]"""
    context = workload.longest + tree.nodes
    return held(draft, target, workload.batch, context, tree.depth)


def check(target: Deployment, draft: Draft, workload: Workload) -> None:
    """Refuse what speculative decoding is not priced for."""
    network, layout = target.architecture, target.layout
    if network.is_encoder or not network.causal:
        raise InputError(
            f"{network.name} does not decode token by token",
            hint="speculative decoding is for decoders",
        )
    if workload.output < 2:
        raise InputError("nothing is decoded", hint="give --output 2 or more")
    if layout.pp != 1 or layout.cp != 1:
        raise InputError(
            f"speculative decoding under {layout} is not priced",
            hint="use tensor, expert and attention data parallelism",
        )
    check_context(target, workload)
    if draft.kind == "model" and draft.deployment is not None:
        check_context(draft.deployment, workload)
