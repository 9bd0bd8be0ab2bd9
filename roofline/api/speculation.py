"""What speculative decoding gains at a batch, and where the gain becomes a loss."""

from collections.abc import Sequence
from typing import get_args

from roofline.api.setting import (
    DEFAULT_MODEL,
    Degrees,
    Form,
    check_gpus,
    check_share,
    deployed,
    layout_of,
    machine_of,
    network_of,
    options_of,
)
from roofline.bench.calibrations import AUTO
from roofline.cost.deployment import Deployment
from roofline.cost.moe import UNIFORM, Routing
from roofline.errors import InputError, RooflineError
from roofline.hardware.machine import Gpu, Node
from roofline.model.architecture import Architecture
from roofline.serving import drafts
from roofline.serving.acceptance import PUBLISHED, Acceptance, parse
from roofline.serving.asking import check_parts, refuse_unused
from roofline.serving.drafts import Draft
from roofline.serving.speculative import speculate as priced
from roofline.serving.speculative_result import result_of
from roofline.serving.workload import Workload
from roofline.table import Result


def speculate(
    model: str | Architecture = DEFAULT_MODEL,
    gpu: str | Gpu | None = None,
    *,
    draft: str | Architecture,
    acceptance: str | float,
    length: int = 0,
    tree: Sequence[int] = (),
    tokens: int = 0,
    draft_weights: str | None = None,
    draft_tp: int | None = None,
    node: str | Node | None = None,
    gpus: int | None = None,
    layout: str = "",
    batch: int = 16,
    prefill_batch: int = 0,
    prompt: int = 2048,
    prefix_hit: float = 0.0,
    output: int = 256,
    weights: str | None = None,
    kv: str = "auto",
    engine: str = "vllm",
    calibration: str = AUTO,
    mla: Form = "auto",
    routing: Routing = UNIFORM,
    overlap: float = 0.0,
    cuda_graphs: bool = True,
    memory_utilization: float | None = None,
    usd_per_hour: float | None = None,
) -> Result:
    """Say what speculative decoding gains: tokens a round, cost of draft and verification, TPOT.

    Parameters
    ----------
    model
        The target: catalog name, hub id, a ``config.json`` or its folder, or an architecture.
    gpu, node
        Catalog name, a YAML file, or a machine, None for that of the node or `DEFAULT_GPU`; the
        node that it is in, None for the usual one.
    draft
        What drafts: ``"mtp"``, ``"eagle"``, ``"medusa"``, ``"ngram"``, or a network like ``model``.
    acceptance
        Probability that the target accepts a drafted token when it has accepted those before:
        ``0.7``; ``"0.73,0.71,0.68"`` position by position; ``"0.6+0.1,0.5+0.1"`` with those of the
        next best token. [1]
    length
        Tokens drafted in a row; 4 where no tree is asked for. [token]
    tree, tokens
        In place of a row, a tree of so many alternatives at each position, or the best tree of so
        many tokens. [token]
    draft_weights, draft_tp
        Number format of a draft of its own, None for that of the checkpoint; devices that share its
        matrices, None for as many as share the target's. [1]
    gpus, layout
        Devices of the replica; ``"tp8"``, ``"dp8-ep8"``. [1]
    batch, prefill_batch
        Sequences of the replica; prompts prefilled in one step, 0 for all. [1]
    prompt, output
        Tokens of each prompt and answer. [token]
    prefix_hit
        Share of the prompt that is cached already. [1]
    weights, kv, engine, calibration, mla, routing, overlap, cuda_graphs, \
    memory_utilization
        Of the target: see `analyze`.
    usd_per_hour
        Price of one device; None for the assumed one. [$/h]

    Returns
    -------
    Result
        Tables ``headline``, ``drafts``, ``batches``, ``memory``, ``published``; derivations by
        metric.

    Raises
    ------
    RooflineError
        Anything the user can mend.
    """
    rates = rates_of(acceptance)
    options = options_of(mla=mla, routing=routing, overlap=overlap, cuda_graphs=cuda_graphs)
    network = network_of(model)
    check_parts(network, mla, routing)
    check_share(memory_utilization)
    check_gpus(gpus)
    device, box = machine_of(gpu, node, usd_per_hour)
    arranged, replicas = layout_of(gpus, Degrees(spelled=layout))
    if replicas > 1:
        raise InputError(
            f"{gpus} GPUs are {replicas} replicas of {arranged}",
            hint="ask for one replica: all of them do the same",
        )
    target = deployed(
        network,
        device,
        box,
        arranged,
        weights=weights,
        kv=kv,
        engine=engine,
        options=options,
        calibration=calibration,
    )
    return result_of(
        priced(
            target,
            draft_of(draft, target, draft_weights, draft_tp, calibration),
            rates,
            Workload(batch, prompt, output, prefill_batch, prefix_hit),
            length=length or (0 if tree or tokens else 4),
            widths=tuple(tree),
            tokens=tokens,
            utilization=memory_utilization,
        )
    )


def rates_of(acceptance: str | float) -> Acceptance:
    """How often drafts are accepted: as given, as nothing stands for all text."""
    if isinstance(acceptance, str) and not acceptance.strip():
        known = PUBLISHED[0]
        raise InputError(
            "no acceptance rate is right for every text, draft and sampling",
            hint=f"give one that was measured on yours, or assume one: {known.draft} for "
            f"{known.target} on {known.text} has --acceptance {known.rounded}",
        )
    return parse(acceptance) if isinstance(acceptance, str) else Acceptance(((acceptance,),))


def draft_of(
    draft: str | Architecture,
    target: Deployment,
    weights: str | None,
    tp: int | None,
    calibration: str,
) -> Draft:
    """What drafts, on the target's devices."""
    kind = draft.strip().lower() if isinstance(draft, str) else ""
    if kind in drafts.OWN:
        refuse_unused(
            f"--draft {kind}",
            {"--draft-weights": weights is not None, "--draft-tp": tp is not None},
        )
        return drafts.named(next(name for name in get_args(drafts.Kind) if name == kind), target)
    if isinstance(draft, str) and not kind:
        raise InputError(
            "nothing drafts", hint=f"give --draft {', '.join(drafts.OWN)}, or a network"
        )
    try:
        return drafts.model(
            deployed(
                network_of(draft),
                target.node.gpu,
                target.node,
                drafts.draft_layout(target, tp),
                weights=weights,
                engine=target.engine.name,
                calibration=calibration,
            )
        )
    except RooflineError as error:
        message = f"draft: {error.message}"
        raise type(error)(message, hint=error.hint, where=error.where) from None
