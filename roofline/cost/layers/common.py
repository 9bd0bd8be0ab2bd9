"""What the operators of a step share, and operators that every kind of layer has."""

from dataclasses import dataclass

from roofline.cost import collectives, linear
from roofline.cost.deployment import Deployment
from roofline.cost.work import Number, Op, Work
from roofline.model.architecture import Linear
from roofline.model.precision import Format


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward step.

    Attributes
    ----------
    deployment
        Network, formats, layout and options.
    groups
        Name, count [1], new tokens and context [token] of each group.
    tokens
        New tokens of all groups. [token]
    rows
        Sequences of all groups. [1]
    """

    deployment: Deployment
    groups: tuple[tuple[str, Number, Number, Number], ...]
    tokens: Number
    rows: Number

    @property
    def width(self) -> float:
        """Bytes per activation. [B]"""
        return self.deployment.precision.activations.width


def product(
    p: Pass,
    name: str,
    n: float,
    k: float,
    layers: int,
    stored: Format,
    *,
    biased: float = 0.0,
    tokens: Number | None = None,
) -> Op:
    """Matrix product; its bias is read with the matrix."""
    precision = p.deployment.precision
    m = p.tokens if tokens is None else tokens
    work = linear.gemm(m, n, k, weight_width=stored.width, width=p.width)
    if biased:
        work = work + Work(weight_bytes=biased * p.width)
    native = stored is precision.weights
    return Op(
        name,
        "gemm",
        work,
        layers,
        precision.linear_arithmetic if native else precision.attention_arithmetic,
        dims={"m": m, "n": n, "k": k},
        formats={"weights": stored.name, "activations": precision.activations.name},
    )


def split(p: Pass, matrix: Linear, layers: int, tokens: Number | None = None) -> Op:
    """Product with a matrix that is split as it says, over the tensor-parallel group."""
    tp = p.deployment.tp
    n = matrix.n / tp if matrix.split == "column" else float(matrix.n)
    k = matrix.k / tp if matrix.split == "row" else float(matrix.k)
    biased = matrix.biased / tp if matrix.split == "column" else float(matrix.biased)
    stored = p.deployment.precision.weights
    return product(p, matrix.name, n, k, layers, stored, biased=biased, tokens=tokens)


def elementwise(
    p: Pass,
    name: str,
    reads: float,
    writes: float,
    layers: int,
    *,
    parameters: float = 0.0,
    tokens: Number | None = None,
) -> Op:
    """One pass over activations."""
    m = p.tokens if tokens is None else tokens
    work = linear.pointwise(m, reads=reads, writes=writes, width=p.width, parameters=parameters)
    return Op(name, "pointwise", work, layers, dims={"reads": reads, "writes": writes})


def norm(p: Pass, name: str, parameters: float, layers: int, streams: int = 1) -> Op:
    """Norm fused with the residual add: reads the stream and the update, writes both."""
    d = float(p.deployment.architecture.d_model)
    moved = (1 + streams) * d
    return elementwise(p, name, moved, moved, layers, parameters=parameters)


def all_reduce(p: Pass, name: str, d: float, layers: int) -> Op:
    """Sum over the tensor-parallel group of a tensor as wide as given."""
    tp = p.deployment.tp
    payload = (d * p.width) * p.tokens
    dims = {"n": d, "ranks": float(tp)}
    return Op(name, "collective", collectives.all_reduce(payload, tp), layers, dims=dims)


def is_one(new: Number) -> bool:
    """Whether every sequence decodes one token: a question about scalars only."""
    return isinstance(new, (int, float)) and new == 1


def phase_kind(new: Number) -> str:
    """``"decode"`` or ``"prefill"``, whose kernels differ."""
    return "decode" if is_one(new) else "prefill"
