"""Attention and feed-forward parts on pools of their own (attention–FFN disaggregation).

Of every layer the attention pool computes the mixer and, of a mixture, the router; the other pool
computes the rest. In between, activations go over the interconnect, and come back.

Source: MegaScale-Infer, Zhu et al. 2025 (arXiv 2504.02263); Step-3, StepFun 2025
(arXiv 2507.19427).
"""

from typing import Final, Literal

import numpy as np

from roofline.cost.adapters import NO_ADAPTERS
from roofline.cost.collectives import send
from roofline.cost.deployment import Deployment, FeedForwardPool
from roofline.cost.expert_parallel import busiest, groups_met
from roofline.cost.layers.common import collective
from roofline.cost.layout import Layout
from roofline.cost.measured import Calibration
from roofline.cost.sampling import LIKELIEST
from roofline.cost.step import feed_forward_pass
from roofline.cost.work import Number, Op
from roofline.errors import InputError, LayoutError
from roofline.hardware.machine import Node
from roofline.model.architecture import Architecture, Block
from roofline.model.precision import Precision
from roofline.model.tower import TEXT_ALONE
from roofline.part import Part
from roofline.records import replace

LATENT: Final = "latent-in"
"""Role of the matrix that brings tokens to the width that experts work at."""


def halves(network: Architecture) -> tuple[Architecture, Architecture]:
    """Networks of the mixers and of the feed-forward parts, which together are the network.

    Embedding, LM head and routers are of the first one; every part has the norm before it.
    Source: the split of MegaScale-Infer (arXiv 2504.02263).

    Args:
        network: A network whose layers are mixers followed by feed-forward parts.

    Raises:
        InputError: Parts run side by side, or several residual streams or latent experts join them.
    """
    for block in network.kinds:
        roles = block.roles(network.d_model)
        if block.parallel or block.extra or LATENT in roles:
            raise InputError(
                f"the layers of {network.name} are not priced with attention and feed-forward "
                "parts on pools of their own",
                hint="leave `ffn` out",
            )
    if not any(block.feedforward for block in network.kinds):
        raise InputError(f"{network.name} has no feed-forward parts", hint="leave `ffn` out")
    both = {block: _split(block, network.d_model) for block in network.kinds}
    fed = replace(
        network,
        layers=tuple(both[block][1] for block in network.layers if block.feedforward is not None),
        vocab=0,
        embedding_width=network.d_model,
        position_rows=0,
        embedding_norm_parameters=0,
        final_norm_parameters=0,
        head_bias=False,
        other_parameters={},
        encoder=(),
        encoder_projector=(),
        towers=(),
    )
    return replace(network, layers=tuple(both[block][0] for block in network.layers)), fed


def _split(block: Block, d_model: int) -> tuple[Block, Block]:
    """A layer's mixer with the router behind it, and its feed-forward part."""
    part = block.feedforward
    routers = part.linears(d_model)[:1] if part is not None and part.experts else ()
    norms = block.norms // len(block.parts) if part is not None else 0
    parameters = block.norm_parameters * norms // max(block.norms, 1)
    mixing = replace(
        block,
        feedforward=None,
        norms=block.norms - norms,
        norm_parameters=block.norm_parameters - parameters,
        extra=routers,
    )
    return mixing, replace(block, mixer=None, norms=norms, norm_parameters=parameters)


def with_ffn_pool(
    whole: Deployment,
    groups: int,
    layout: Layout,
    *,
    node: Node | None = None,
    calibration: Calibration | None = None,
    precision: Precision | None = None,
    microbatches: int = 3,
    over: Literal["network", "link"] = "network",
) -> Deployment:
    """A replica whose feed-forward parts have devices of their own.

    Args:
        whole: The network on an instance of the attention pool: its layout is that of one.
        groups: Instances that feed the other pool. [1]
        layout: Of the other pool.
        node, calibration: Of its devices; the same where no node is given.
        precision: Of its devices; that of the attention pool if not stated.
        microbatches: That take turns. [1]
        over: Interconnect between the pools.

    Raises:
        InputError, LayoutError: Layers that cannot be taken apart, or layouts that cannot be.
    """
    if groups < 1 or microbatches < 1:
        raise InputError(
            f"{groups} attention instances and {microbatches} micro-batches", hint="give 1 or more"
        )
    if whole.offload.any or whole.offload.least or whole.options.lora.adapters:
        raise InputError(
            "offloading and adapters are not priced with a pool of feed-forward parts",
            hint="leave `ffn` out",
        )
    for each in (whole.layout, layout):
        if each.pp > 1 or each.cp > 1:
            raise LayoutError(
                f"{each}: pipelines and shared contexts are not priced with a pool of "
                "feed-forward parts",
                hint="use tensor, expert and attention data parallelism",
            )
    mixing, feeding = halves(whole.architecture)
    where = node or whole.node
    options = replace(whole.options, sampling=LIKELIEST, lora=NO_ADAPTERS, media=TEXT_ALONE)
    other = replace(
        whole,
        architecture=feeding,
        layout=layout,
        node=where,
        precision=precision or whole.precision,
        options=options,
        calibration=whole.calibration if node in (None, whole.node) else calibration,
        fed=True,
    )
    for end in (whole.node, where):
        if (end.network if over == "network" else end.link) is None:
            raise LayoutError(
                f"{end.name} has no {over} between attention and feed-forward parts",
                hint="use a node whose file states it, or `over` the other one",
            )
    own = replace(whole.layout, dp=groups, ep=1)
    if over == "link" and (
        where.name != whole.node.name or own.devices + layout.devices > where.gpus
    ):
        raise LayoutError(
            f"{int(own.devices + layout.devices)} GPUs of both pools are not in one node of "
            f"{where.gpus} ({where.name})",
            hint="use `over=network`, smaller layouts or a larger node",
        )
    pool = FeedForwardPool(other, microbatches, over)
    return replace(whole, architecture=mixing, layout=own, ffn=pool)


def transfers(deployment: Deployment, mine: Number, tokens: Number) -> tuple[list[Op], list[Op]]:
    """Activations of a step to the feed-forward pool, layer by layer, and back.

        α + max(m·c·D·w / (t·W), M·c·D·w / (n·W'))

    for m tokens of an attention instance of t devices, M of all instances, n devices of the other
    pool and c copies of a token: one where the devices of that pool share every matrix, and gather
    what each of them got; else one for each group of devices that has an expert of the token, or
    its shared part. The fullest group gets more than its share. In the format that the feed-forward
    part computes in on the way there, in that of activations on the way back.
    Source: MegaScale-Infer, M2N communication; each end's own wires at once.

    Args:
        deployment: Both pools.
        mine, tokens: Tokens of the instance that has most, and of all. [token]
    """
    pool = deployment.ffn
    assert pool is not None, "one pool sends nothing"
    feeding = pool.deployment
    seen = feed_forward_pass(feeding, tokens)
    there: list[Op] = []
    back: list[Op] = []
    for block, layers in feeding.architecture.kinds.items():
        copies, fullest = _copies(block, feeding, tokens)
        p = replace(seen, block=block)
        role = block.roles(feeding.architecture.d_model)[-2]
        wide = (p.made(role).multiplied.width, p.width)
        for name, width, ops in (("to-ffn", wide[0], there), ("from-ffn", wide[1], back)):
            ops.append(_sent(name, deployment, mine, tokens, copies, fullest, width, layers))
    return there, back


def _copies(block: Block, feeding: Deployment, tokens: Number) -> tuple[Number, Number]:
    """Copies of a token that are sent, and the fullest group's share over the mean. [1]"""
    part, layout = block.feedforward, feeding.layout
    if part is None or not part.experts or not layout.apart:
        return 1.0, 1.0
    met = groups_met(part, layout.ep)
    if any(linear.group == "shared" for linear in part.linears(feeding.architecture.d_model)):
        met = met + 1.0 - met / layout.ep
    rows, _ = busiest(tokens, part, layout.ep, feeding.options.routing)
    return met, rows * layout.ep / (tokens * part.active)


def _sent(
    name: str,
    deployment: Deployment,
    mine: Number,
    tokens: Number,
    copies: Number,
    fullest: Number,
    width: float,
    layers: int,
) -> Op:
    """All that one layer sends one way."""
    assert deployment.ffn is not None, "one pool sends nothing"
    feeding, d = deployment.ffn.deployment, float(deployment.architecture.d_model)
    crosses = float(deployment.ffn.over == "network")
    each = copies * d * width
    payloads = (
        mine * each / deployment.layout.tp,
        tokens * fullest * each / feeding.layout.devices,
    )
    ends = [
        (payload, replace(end.ranks(1.0), size=2.0))
        for payload, end in zip(payloads, (deployment, feeding), strict=True)
    ]
    moved = [send(payload, ranks, crosses) for payload, ranks in ends]
    seconds = np.maximum(moved[0].seconds, moved[1].seconds)
    symbols = {"tokens": mine / deployment.layout.tp, "copies": copies, "D": d, "width": width}
    whole = Part("M", payloads[0], "tokens · copies · D · width", symbols, "of a sender's device")
    op = collective(name, replace(moved[0], seconds=seconds), whole, ends[0][1], layers)
    return replace(op, dims={**op.dims, "nodes": 1.0 + crosses})
