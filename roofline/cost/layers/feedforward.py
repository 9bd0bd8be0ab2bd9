"""Operators of feed-forward parts: dense, and mixtures of experts."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from roofline.cost.collectives import all_gather, exchange, reduce_scatter
from roofline.cost.expert_parallel import busiest, groups_met, held_experts
from roofline.cost.layers.common import (
    ForwardPass,
    collective,
    elementwise,
    other,
    product,
    quantised,
    split,
)
from roofline.cost.moe import experts_gemm
from roofline.cost.work import (
    ACTIVATION,
    AROUND,
    COMBINE,
    CONVERSION_OF_EXPERTS,
    DISPATCH,
    FIRST,
    SECOND,
    Formula,
    Number,
    Op,
    anywhere,
    by,
)
from roofline.model.architecture import Linear, Mlp, Moe
from roofline.part import Part
from roofline.records import replace


def dense(p: ForwardPass, part: Mlp, d: float, layers: int) -> Iterator[Op]:
    """Up (and gate), activation function, down."""
    up, down = part.linears(int(d))
    yield from _mlp(p, up, down, part.gated, layers, "activation")


def _mlp(
    p: ForwardPass, up: Linear, down: Linear, gated: bool, layers: int, name: str
) -> Iterator[Op]:
    inner, wide = down.k / p.tp, 2 if gated else 1
    if p.fusion == "all":  # of what is before it
        spared = other(
            "activation_bytes", "never written", -(wide - 1) * inner * p.width * p.tokens
        )
        for op in split(p, up, layers):
            yield replace(op, work=op.work + spared) if gated and op.kind == "gemm" else op
    else:
        yield from split(p, up, layers)
        if p.fusion == "none" and gated:
            yield elementwise(p, f"lone-{name}", inner, inner, layers)
            yield elementwise(p, f"product-after-{name}", 2 * inner, inner, layers)
        else:
            yield elementwise(p, name, wide * inner, inner, layers, kernel=ACTIVATION)
    yield from split(p, down, layers)


def experts(p: ForwardPass, part: Moe, d: float, layers: int) -> Iterator[Op]:
    """Router, shared part, and the routed experts that the tokens of the step touch.

    Where the devices of a stage hold different tokens, each routes its own share of them, sends
    them to the devices of their experts and gets them back; the shared part is whole on each.
    """
    deployment, layout = p.deployment, p.deployment.layout
    apart = np.asarray(layout.apart) > 0
    mine = replace(
        p,
        tokens=p.tokens / np.where(apart, p.tp * p.copies, 1.0)[()],
        tp=np.where(apart, 1.0, p.tp)[()],
    )
    matrices = {matrix.name: matrix for matrix in part.linears(int(d))}
    if not deployment.fed:
        router = matrices["router"]
        yield from product(mine, "router", router.n, router.k, layers, biased=float(router.biased))
    if part.latent:
        yield from split(mine, matrices["latent-in"], layers)
    if part.shared_width:
        up = matrices["shared-gate-up" if part.gated else "shared-up"]
        down = matrices["shared-down"]
        yield from _mlp(mine, up, down, part.gated, layers, "shared-activation")
    if part.shared_gate:
        gate = matrices["shared-gate"]
        yield from product(mine, "shared-gate", gate.n, gate.k, layers)

    up, down = part.expert_linears(int(d))
    rows, met = busiest(p.everyone, part, layout.ep, deployment.options.routing)
    yield from _moved(mine, part, up, rows, layers, back=False)
    inner = part.width / layout.expert_tp
    # Sent to their experts, a device sorts the tokens that arrive; else all that there are.
    arriving = groups_met(part, layout.ep) / layout.ep
    fused: dict[str, Number] = {
        "tokens": p.everyone * np.where(apart, arriving, 1.0)[()],
        "hidden": float(up.k),
        "inter": inner,
        "active": float(part.active),
        "local": held_experts(part.experts, layout.ep, deployment.options.routing),
        "matrices": 3.0 if part.gated else 2.0,
        "rows": rows,
        "touched": met,
        "experts": float(part.experts),
        "limited": float(part.groups > 1),
        "apart": 1.0 * np.asarray(layout.apart)[()],
        "own": mine.tokens,
    }
    made = p.made(up.name)
    formats = {"weights": made.stored.name, "activations": made.multiplied.name}
    yield from _grouped(
        p, up, up.n / layout.expert_tp, float(up.k), rows, met, layers, fused, FIRST
    )
    wide = inner * (2 if part.gated else 1)
    activation = elementwise(p, "experts-activation", wide, inner, layers, tokens=rows)
    yield replace(activation, dims={**activation.dims, **fused}, formats=formats)
    yield from _grouped(p, down, float(down.n), inner, rows, met, layers, fused, SECOND)
    yield from _moved(mine, part, up, rows, layers, back=True)
    added = bool(part.latent and part.shared_width)  # added where it is as wide as the stream
    combined = float(part.active) * down.n + (d if part.shared_width and not added else 0.0)
    combine = elementwise(mine, "experts-combine", combined, float(down.n), layers)
    dims = {**combine.dims, **fused}
    yield replace(combine, dims=dims, formats=formats, kernel=AROUND)
    if part.latent_norm:
        width = float(part.latent)
        yield elementwise(mine, "latent-norm-out", width, width, layers, parameters=width)
    if part.latent:
        yield from split(mine, matrices["latent-out"], layers)
    if added:
        yield elementwise(mine, "shared-add", 2 * d, d, layers)


def _moved(
    p: ForwardPass, part: Moe, up: Linear, rows: Number, layers: int, *, back: bool
) -> Iterator[Op]:
    """Tokens to the devices of their experts, or what these made of them back.

    A token goes once to each group of devices with an expert of its own, and across the network
    once to each node, in the format the experts compute in; it comes back in that of the
    activations. The busiest group gets more than its share, the fullest device sends more: the
    larger counts. The devices of a group each take a part of what arrives and gather it; on the way
    back they sum first.
    """
    layout = p.deployment.layout
    if p.deployment.fed or not anywhere(layout.apart):
        return
    apart, ep = layout.apart, layout.ep
    width = p.width if back else p.made(up.name).multiplied.width
    ranks = p.deployment.ranks(ep, layout.expert_tp)
    # The device with most to send, or that with most to receive.
    arriving = rows * ep / (layout.stage_devices * float(part.active))
    most = np.maximum(p.tokens, arriving)
    each = (float(up.k) * width) * most
    met, nodes = groups_met(part, ep), groups_met(part, ranks.nodes)
    far = apart * each * (nodes * (1.0 - 1.0 / ranks.nodes))
    near = apart * each * (met * (1.0 - 1.0 / ranks.inside))
    name = COMBINE if back else DISPATCH
    if anywhere(ep > 1):
        said = "of the device that sends most, in the node and out of it"
        whole = Part("M", near + far, source=said)
        op = collective(name, exchange(near, far, ranks), whole, ranks, layers, operation=name)
        routed = {
            "tokens": most,
            "d": float(up.k),
            "width": width,
            "inside": ranks.inside,
            "active": float(part.active),
            "experts": float(part.experts),
        }
        dims = {**op.dims, **routed, "groups_met": met, "nodes_met": nodes}
        symbols = {**routed, "groups_met": met, "nodes_met": nodes, "nodes": ranks.nodes}
        work = replace(op.work, made=op.work.made + by(_ROUTED, symbols))
        yield replace(op, work=work * apart, wire_s=op.wire_s * apart, dims=dims)
    if anywhere(layout.expert_tp > 1):
        group = p.deployment.ranks(layout.expert_tp)
        arrived = apart * (float(up.k) * width) * p.everyone * (met / ep)
        total = reduce_scatter(arrived, group) if back else all_gather(arrived, group)
        called = f"{name}-{'reduce-scatter' if back else 'all-gather'}"
        symbols = {"tokens": p.everyone * (met / ep), "D": float(up.k), "width": width}
        whole = Part("M", arrived, "tokens · D · width", symbols, "of a group of experts")
        operation = "reduce_scatter" if back else "all_gather"
        op = collective(called, total, whole, group, layers, operation=operation)
        yield replace(op, work=op.work * apart, wire_s=op.wire_s * apart)


_MEAN: Final = "expected, of a token's experts: draws without replacement, hypergeometric"
_ROUTED: Final = Formula(
    wire_bytes="tokens · d · width · groups_met · (1 − 1 / inside)[ · hops]",
    network_bytes="tokens · d · width · nodes_met · (1 − 1 / nodes)",
    meanings=(
        ("tokens", "of the device that sends or gets most, on average"),
        ("groups_met", _MEAN),
        ("nodes_met", _MEAN),
    ),
)
"""Tokens to the groups and nodes of their experts, or back from them."""


def _grouped(
    p: ForwardPass,
    matrix: Linear,
    n: Number,
    k: Number,
    rows: Number,
    met: Number,
    layers: int,
    fused: Mapping[str, Number],
    kernel: str,
) -> Iterator[Op]:
    """One matrix of all touched experts, with its biases; ``fused`` is the whole mixture."""
    made = p.made(matrix.name)
    work = experts_gemm(rows, met, n, k, weight_width=made.stored.width, width=p.width)
    if matrix.biased:
        work = work + other("weight_bytes", "biases", (n * p.width) * met)
    if made.quantised is not None:
        yield quantised(made, matrix.name, rows, k, layers, CONVERSION_OF_EXPERTS)
    yield Op(
        matrix.name,
        "moe",
        work,
        layers,
        made.arithmetic,
        dims={"m": rows, "n": n, "k": k, **fused},
        formats={"weights": made.stored.name, "activations": made.multiplied.name},
        kernel=kernel,
    )
