"""Form of each probe, and a probe's rows as the columns of its form."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from roofline.bench.published import PublishedRates
from roofline.bench.records import Record
from roofline.bench.rows import LEAST
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.collective import moved
from roofline.cost.kernels.decode import decode_dims
from roofline.cost.kernels.experts import GATED, expert_dims, tallest
from roofline.cost.kernels.form import Dims, FormConstant, Machine, free
from roofline.cost.kernels.latent import latent_dims
from roofline.cost.kernels.latent_prefill import latent_prefill_dims
from roofline.cost.kernels.prefill import prefill_dims
from roofline.cost.kernels.processor import OF_KIND
from roofline.cost.kernels.recurrent import STATE_SHAPE, state_dims
from roofline.cost.kernels.routing import padding
from roofline.cost.work import Array

NUMPY: Final = "numpy"
PRODUCTS: Final[Mapping[str, str]] = {
    "fp32": "product-4",
    "tf32": "product-4",
    "fp16": "product-2",
    "bf16": "product-2",
    "fp8": "gemm-fp8",
    "int8": "product-int8",
}
ON_GPU: Final[Mapping[str, str]] = {
    "decode-attention": "decode-own",
    "latent-decode": "latent-decode",
    "prefill-attention": "prefill-own",
    "pointwise": "memory",
}
"""Usual form of a kind on a GPU; linear layers by their arithmetic, any other as a roofline."""
WIDTHS: Final[Mapping[str, float]] = {"fp32": 4.0, "tf32": 4.0, "fp8": 1.0}
"""Bytes of an element by arithmetic, where they are not 2."""
KERNEL: Final = "roofline"
"""Schedule of decoding in ``microbench/cuda``, a key of `roofline.cost.kernels.decode`."""
SCHEDULES: Final = {"flashinfer-decode": "vllm_flashinfer_fidecode"}
"""The same of other probes."""
PATHS: Final = {"send_recv": "direct", "all_to_all": "direct"}
"""Algorithm that the bytes of a collective are counted by, where it is not a ring."""
SPARE: Final = 1.5
"""Points that a form gets for each that it needs: a fifth of them is left out of every fit that
validates it, families are uneven, and some points cannot be measured."""
USUAL: Final = 28
EACH: Final = 5
"""Points of a probe, and for each constant, with which most forms can be fitted and validated."""


def form_of(kind: str, arithmetic: str, provider: str, named: str = "") -> str:
    """Name of the form of a probe, a key of `roofline.cost.kernels.catalog.FORMS`.

    Args:
        kind, arithmetic: Of the probe.
        provider: ``"numpy"``, ``"cupy"``.
        named: The form that the probe itself names for a GPU.

    Examples:
        >>> form_of("gemm", "bf16", "cupy"), form_of("gemm", "fp32", "numpy")
        ('product-2', 'processor-product')
    """
    if provider == NUMPY:
        return OF_KIND.get(kind, "processor-roof")
    if named:
        return named
    return PRODUCTS[arithmetic] if kind == "gemm" else ON_GPU.get(kind, "roof")


def least(form: str) -> int:
    """Points of a probe with which its form can be fitted at all. [1]"""
    return math.ceil(SPARE * (2 * free(FORMS[form]) + LEAST))


def needed(form: str) -> int:
    """Points of a probe with which its form can be fitted and validated. [1]"""
    return math.ceil(max(USUAL, least(form), EACH * free(FORMS[form])))


SHARES: Final[Mapping[str, str]] = {
    "compute": "FLOP/s",
    "memory": "B/s",
    "cache": "cache",
    "l2": "cache",
}
"""Unit of the rate that a constant without a unit is a share of, by its name."""


def rate_of(constant: FormConstant, machine: Machine) -> tuple[float, str]:
    """Published rate that a constant is held against, 0 for none, and its unit."""
    of = SHARES.get(constant.name, "") if constant.unit == "1" else constant.unit
    if of == "cache":
        return machine.l2_bytes_per_s, "B/s"
    return {"FLOP/s": machine.flops_per_s, "B/s": machine.hbm_bytes_per_s}.get(of, 0.0), of


def columns(rows: Sequence[Record], form: str, published: PublishedRates | None = None) -> Dims:
    """Columns of a form from rows of one probe: axes, work, how arrays lie, and what follows.

    ``rows`` are runs of an array that are passed over one by one; ``reuse`` is what is touched
    between two uses of what is streamed; ``cold`` is 1 where that is far beyond the cache. Forms
    of wires have the published rate of the link.
    """
    out = {name: np.array([float(row.at[name]) for row in rows]) for name in rows[0].at}
    moved_bytes = ("weight_bytes", "activation_bytes", "kv_bytes")
    out["bytes"] = np.array([sum(row.work[name] for name in moved_bytes) for row in rows])
    out["flops"] = np.array([row.work["flops"] for row in rows])
    out["cold"] = np.array([float(row.state == "cold") for row in rows])
    out["reuse"] = np.array([row.reuse for row in rows])
    out["rows"] = out.get("m", np.ones(len(rows))) * out.get("heads", 1.0)
    family, _, _ = form.partition("-")
    if more := _MORE.get(form, _MORE.get(family)):
        out |= more(rows, out, published)
    return out


_Columns = dict[str, Array]


def _width(rows: Sequence[Record]) -> Array:
    """Bytes of an element. [B]"""
    return np.array([WIDTHS.get(row.arithmetic, 2.0) for row in rows])


def _heads(rows: Sequence[Record], out: _Columns) -> list[Array]:
    """Columns that both forms of attention begin with; no window."""
    count = len(rows)
    width = _width(rows)
    cached = out.get("kv_width", width)
    new, context = (out[name if name in out else "tokens"] for name in ("new", "context"))
    shape = (out[name] for name in ("heads", "kv_heads", "head_dim"))
    return [out["count"], new, context, *shape, np.zeros(count), width, cached]


def _collective(
    rows: Sequence[Record], out: _Columns, published: PublishedRates | None
) -> _Columns:
    ones, operation = np.ones(len(rows)), rows[0].probe.replace("-", "_")
    rate = published.link_bytes_per_s if published else 0.0
    _, share = moved(operation, PATHS.get(operation, "ring"), out["ranks"])
    return {
        "bytes_per_s": rate * ones,
        "in_switch": float(published.in_switch if published else False) * ones,
        "wire_s": share * out["payload"] / rate if rate else 0.0 * ones,
    }


def _latent(rows: Sequence[Record], out: _Columns, _: PublishedRates | None) -> _Columns:
    ones = np.ones(len(rows))
    width = _width(rows)
    return latent_dims(out["count"], ones, out["context"], out["heads"], width, width)


def _expanded(rows: Sequence[Record], out: _Columns, _: PublishedRates | None) -> _Columns:
    width = _width(rows)
    shape = (out[name] for name in ("count", "new", "context", "heads"))
    return latent_prefill_dims(*shape, width, width)


def _experts(rows: Sequence[Record], out: _Columns, _: PublishedRates | None) -> _Columns:
    """Rows and experts touched follow from the work; tiles are priced as operators' are."""
    each = GATED * out["hidden"] * out["inter"]
    weights = np.array([row.work["weight_bytes"] for row in rows])
    width = _width(rows)
    taken, touched = out["flops"] / (2.0 * each), weights / (each * width)
    shape = {
        **{name: out[name] for name in ("hidden", "inter", "active", "local")},
        "tokens": out["m"],
        "matrices": np.full(len(rows), GATED),
        "weight_width": width,
        "width": np.full(len(rows), 2.0),
        "highest": np.full(len(rows), tallest(8.0 * width[0], 8.0 * width[0])),
        "rows": taken,
        "touched": touched,
    }
    return expert_dims(shape, padding(taken, touched))


def _states(rows: Sequence[Record], out: _Columns, _: PublishedRates | None) -> _Columns:
    shape = {"chunk": np.zeros(len(rows)), **out}  # the usual one where it is no axis
    return state_dims(*(shape[name] for name in STATE_SHAPE))


_MORE: Final[
    Mapping[str, Callable[[Sequence[Record], _Columns, PublishedRates | None], _Columns]]
] = {
    "decode": lambda rows, out, _: decode_dims(
        *_heads(rows, out), kernel=SCHEDULES.get(rows[0].probe, KERNEL)
    ),
    "latent": _latent,
    "latent-heads": lambda rows, *_: {
        "weight_width": np.full(len(rows), 2.0),
        "quantised": np.zeros(len(rows)),
    },
    "latent-prefill": _expanded,
    "experts": _experts,
    "scan": _states,
    "recurrent": _states,
    "prefill": lambda rows, out, _: prefill_dims(*_heads(rows, out)),
    "pass": lambda rows, out, _: (
        {} if "width" in out else {"width": out["heads"] * out["head_dim"]}
    ),
    "collective": _collective,
}
"""More columns, by the name of a form or its beginning."""
