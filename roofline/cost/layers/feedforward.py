"""Operators of feed-forward parts: dense, and mixtures of experts."""

from collections.abc import Iterator

from roofline.cost.layers.common import Pass, elementwise, product, quantised, split
from roofline.cost.moe import experts_gemm, padded_rows, touched
from roofline.cost.work import Number, Op, Work
from roofline.model.architecture import Linear, Mlp, Moe


def dense(p: Pass, part: Mlp, d: float, layers: int) -> Iterator[Op]:
    """Up (and gate), activation function, down."""
    up, down = part.linears(int(d))
    yield from _mlp(p, up, down, part.gated, layers)


def _mlp(p: Pass, up: Linear, down: Linear, gated: bool, layers: int) -> Iterator[Op]:
    inner = down.k / p.deployment.tp
    yield from split(p, up, layers)
    name = "activation" if up.name in ("up", "gate-up") else "shared-activation"
    yield elementwise(p, name, inner * (2 if gated else 1), inner, layers)
    yield from split(p, down, layers)


def experts(p: Pass, part: Moe, d: float, layers: int) -> Iterator[Op]:
    """Router, shared part, and the routed experts that the tokens of the step touch."""
    deployment = p.deployment
    matrices = {matrix.name: matrix for matrix in part.linears(int(d))}
    router = matrices["router"]
    yield from product(p, "router", router.n, router.k, layers, biased=float(router.biased))
    if part.latent:
        yield from split(p, matrices["latent-in"], layers)
    if part.shared_width:
        up = matrices["shared-gate-up" if part.gated else "shared-up"]
        yield from _mlp(p, up, matrices["shared-down"], part.gated, layers)
    if part.shared_gate:
        gate = matrices["shared-gate"]
        yield from product(p, "shared-gate", gate.n, gate.k, layers)

    met = touched(p.tokens, part.experts, part.active, deployment.options.routing)
    rows = p.tokens * float(part.active)
    up, down = part.expert_linears(int(d))
    inner = part.width / deployment.tp
    yield from _grouped(p, up, up.n / deployment.tp, float(up.k), rows, met, layers, part)
    wide = inner * (2 if part.gated else 1)
    yield elementwise(p, "experts-activation", wide, inner, layers, tokens=rows)
    yield from _grouped(p, down, float(down.n), inner, rows, met, layers, part)
    apart = bool(part.latent and part.shared_width)  # added where it is as wide as the stream
    combined = float(part.active) * down.n + (d if part.shared_width and not apart else 0.0)
    yield elementwise(p, "experts-combine", combined, float(down.n), layers)
    if part.latent_norm:
        width = float(part.latent)
        yield elementwise(p, "latent-norm-out", width, width, layers, parameters=width)
    if part.latent:
        yield from split(p, matrices["latent-out"], layers)
    if apart:
        yield elementwise(p, "shared-add", 2 * d, d, layers)


def _grouped(
    p: Pass,
    matrix: Linear,
    n: float,
    k: float,
    rows: Number,
    met: Number,
    layers: int,
    part: Moe,
) -> Iterator[Op]:
    """One matrix of all touched experts, with its biases."""
    made = p.made(matrix.name)
    work = experts_gemm(rows, met, n, k, weight_width=made.stored.width, width=p.width)
    if matrix.biased:
        work = work + Work(weight_bytes=(n * p.width) * met)
    if made.quantised is not None:
        yield quantised(made, matrix.name, rows, k, layers)
    yield Op(
        matrix.name,
        "moe",
        work,
        layers,
        made.arithmetic,
        dims={
            "m": rows,
            "n": n,
            "k": k,
            "experts": float(part.experts),
            "active": float(part.active),
            "touched": met,
            "padded": padded_rows(rows, met),
        },
        formats={"weights": made.stored.name, "activations": made.activations.name},
    )
