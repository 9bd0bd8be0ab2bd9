"""Records of a run as measured kernels that `roofline validate` reads: one row a point.

So a user sees what the shipped calibrations say of shapes that his own device was measured on.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from roofline.bench.prices import PRICES
from roofline.bench.records import Record, Records, alike
from roofline.errors import InputError

if TYPE_CHECKING:
    import pandas

KINDS: Final[Mapping[str, str]] = {
    "gemm": "gemm",
    "decode-attention": "attention-decode",
    "latent-decode": "mla-decode",
    "latent-prefill": "mla-prefill",
    "latent-heads": "mla-bmm",
    "moe": "moe",
    "linear-attention": "linear-attention",
    "prefill-attention": "attention-prefill",
    "pointwise": "pointwise",
    "collective": "collective",
}
"""Kind that ``roofline validate`` knows, by kind of probe."""
COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "gemm": {"m": "m", "n": "n", "k": "k"},
    "attention-decode": {
        "count": "batch",
        "new": "seq_q",
        "context": "seq_kv",
        "heads": "n_heads",
        "kv_heads": "n_kv_heads",
        "head_dim": "head_dim",
    },
    "mla-decode": {"count": "batch", "context": "seq_kv", "heads": "n_heads"},
    "mla-prefill": {"count": "batch", "new": "seq_q", "context": "seq_kv", "heads": "n_heads"},
    "mla-bmm": {"tokens": "num_tokens", "heads": "n_heads"},
    "moe": {
        "m": "num_tokens",
        "hidden": "hidden",
        "inter": "inter",
        "active": "topk",
        "experts": "experts",
    },
    "linear-attention": {
        "batch": "batch",
        "new": "seq_len",
        "key_heads": "n_k_heads",
        "heads": "n_v_heads",
        "key_dim": "k_head_dim",
        "value_dim": "v_head_dim",
        "chunk": "chunk",
        "channels": "conv_channels",
        "taps": "d_conv",
    },
    "attention-prefill": {
        "count": "batch",
        "new": "seq_q",
        "context": "seq_kv",
        "tokens": "seq_kv",  # of libraries, from an empty cache
        "heads": "n_heads",
        "kv_heads": "n_kv_heads",
        "head_dim": "head_dim",
    },
    "pointwise": {"m": "num_tokens", "width": "width"},
    "collective": {"ranks": "n_ranks", "payload": "bytes"},
}
"""Column of an axis, by kind."""
BY_OPERATION: Final = frozenset({"pointwise", "collective"})
"""Kinds whose variant is the operation, not the formats."""


def exported(records: Records, kind: str, backend: str) -> "pandas.DataFrame":
    """Rows of a kind: the device, formats or operation, shape, time and probe.

    Args:
        records: A run.
        kind: As ``roofline validate`` names it, a key of `COLUMNS`.
        backend: Engine that they are told to be of; not stated where it is empty.

    Raises:
        InputError: No probe of that kind was measured in the run.
    """
    import pandas as pd

    device = records.header.environment.get("datasheet") or records.header.environment["machine"]
    rows = [
        {"gpu": device, "backend": backend, **_row(row, kind)}
        for probe in records.header.probes
        if probe in PRICES
        for row in alike(records.of(probe))
        if KINDS.get(row.kind) == kind
    ]
    if not rows:
        there = sorted({KINDS[row.kind] for row in records.rows if row.probe in PRICES})
        raise InputError(
            f"no {kind} was measured in this run",
            hint=f"there are {', '.join(there)}" if there else "measure: roofline calibrate",
        )
    return pd.DataFrame(rows)


def _row(row: Record, kind: str) -> dict[str, object]:
    """Columns of a point."""
    _, variant = PRICES[row.probe]
    query, _, cache = variant.partition("-")
    formats = {"op": variant} if kind in BY_OPERATION else {"dtype": query}
    if kind == "attention-decode" and cache:
        formats["kv_dtype"] = cache
    if kind == "mla-bmm":
        formats = {"op": query, "dtype": cache}
    if kind == "linear-attention":
        formats = {"op": query, "phase": cache.partition("-")[0]}
    shape = {column: row.at[axis] for axis, column in COLUMNS[kind].items() if axis in row.at}
    if kind == "moe":
        shape["ep"] = row.at["experts"] // row.at["local"]
        skew = row.at["skew"] / 10.0
        formats["distribution"] = f"power_law_{skew:g}" if skew else "balanced"
    if kind == "pointwise" and "heads" in row.at:
        shape["width"] = row.at["heads"] * row.at["head_dim"]
    return {**formats, **shape, "time_s": row.median.value, "probe": row.probe}
