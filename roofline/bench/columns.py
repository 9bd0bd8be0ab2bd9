"""Columns of measured kernels by kind: which are needed, and what others are taken for.

A file may leave out what has a usual value. A row without a meaning is refused with its reason; it
never stops the others.
"""

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.bench.expert_rows import EXPONENTS, WEIGHTS
from roofline.cost.kernels.gemm import PRODUCTS
from roofline.cost.kernels.hyper import HYPER
from roofline.cost.kernels.pointwise import POINTWISE, QUANTIZE
from roofline.errors import InputError, RooflineError, described
from roofline.hardware.catalog import gpu
from roofline.records import replace

if TYPE_CHECKING:
    import pandas

Places: TypeAlias = NDArray[np.int64]

LARGEST: Final = 2.0**53
"""Whole numbers beyond this have no place of their own in float64."""
FORMATS: Final[Mapping[str, str]] = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp8_e4m3": "fp8",
    "float8_e4m3fn": "fp8",
}
"""Other names of number formats."""
SUFFIXES: Final = ("_pairnvlink", "_pairwise_nvlink")
"""Ends of a GPU's name in sources that say how it is wired in it; the topology says it too."""


class KernelColumns(Struct, frozen=True):
    """Columns of one kind of kernel."""

    needed: tuple[str, ...]
    """Numbers from 1 up."""
    usual: Mapping[str, float | str] = {}
    """Numbers and words that are taken where a column or a value is missing."""
    like: Mapping[str, str] = {}
    """Columns that are taken from another where missing."""
    words: tuple[str, ...] = ("gpu",)
    """Columns that are words and have no usual value."""
    known: Mapping[str, tuple[str, ...]] = {}
    """Words of a column that a form is for."""
    most: tuple[tuple[str, str], ...] = ()
    """Pairs of columns of which the first is never above the second."""


class RefusedRows(Struct, frozen=True):
    """Rows that are not predicted."""

    where: str
    """Column and value that they have in common, or their group."""
    index: Places
    """Their places in the file. [1]"""
    why: str
    """One sentence."""

    @property
    def rows(self) -> int:
        """Number of rows. [1]"""
        return len(self.index)


LIBRARY: Final[Mapping[str, str]] = {
    "backend": "",
    "version": "",
    "kernel": "",
    "dtype": "bfloat16",
}
"""Not stated: rows of the same device and formats are then one library's."""
SIXTEEN: Final = ("bfloat16", "float16")
CACHED: Final = (*SIXTEEN, "fp8")
DISTRIBUTIONS: Final = ("balanced", "power_law_1.01", "power_law_1.2")
ALLTOALL: Final = (
    "alltoall_prepare",
    "alltoall_dispatch",
    "alltoall_combine",
    "alltoall_combine_low_precision",
)
WIDE: Final = tuple(name for name in EXPONENTS if name != "balanced")
ATTENTION: Final = KernelColumns(
    ("batch", "seq_q", "seq_kv", "n_heads", "n_kv_heads", "head_dim"),
    {**LIBRARY, "head_dim": 128, "window": 0},
    {"n_kv_heads": "n_heads", "kv_dtype": "dtype"},
    known={"dtype": CACHED, "kv_dtype": CACHED},
    most=(("seq_q", "seq_kv"), ("n_kv_heads", "n_heads")),
)
LATENT: Final = KernelColumns(
    ("batch", "seq_q", "seq_kv", "n_heads"),
    LIBRARY,
    {"kv_dtype": "dtype"},
    known={"dtype": CACHED, "kv_dtype": CACHED},
    most=(("seq_q", "seq_kv"),),
)
PHASES: Final = ("prefill", "decode")
PROJECTIONS: Final = (*CACHED, "fp8_block", "nvfp4")
"""Formats of the matrices around attention."""
PARTS_OF_SPARSE: Final = (
    "csa_topk", "csa_indexer_logits", "hca_attn", "dsa_topk", "dsa_indexer_logits", "dsa_attn",
)  # fmt: skip
"""Kernels of sparse attention that are measured by themselves."""
PREFILLED: Final = {"seq_q": "seq_kv"}
"""A prefill from an empty cache."""
ONE: Final = {"seq_q": 1}
"""A token a step."""

COLUMNS: Final[Mapping[str, KernelColumns]] = {
    "gemm": KernelColumns(("m", "n", "k"), LIBRARY, known={"dtype": tuple(PRODUCTS)}),
    "attention-prefill": replace(ATTENTION, like={**ATTENTION.like, **PREFILLED}),
    "attention-decode": replace(ATTENTION, usual={**ATTENTION.usual, **ONE}),
    "mla-prefill": replace(LATENT, like={**LATENT.like, **PREFILLED}),
    "mla-decode": replace(LATENT, usual={**LATENT.usual, **ONE}),
    "mla-module": replace(
        LATENT,
        usual={**LIBRARY, "op": "module"},
        like={**LATENT.like, "gemm_dtype": "dtype"},
        words=("gpu", "phase"),
        known={
            **LATENT.known,
            "dtype": (*CACHED, "fp8_block"),
            "op": ("module", "wideep"),
            "gemm_dtype": PROJECTIONS,
            "phase": PHASES,
        },
    ),
    "mla-bmm": KernelColumns(
        ("num_tokens", "n_heads"),
        LIBRARY,
        words=("gpu", "op"),
        known={"dtype": CACHED, "op": ("mla_gen_pre", "mla_gen_post")},
    ),
    "sparse-attention": replace(
        LATENT,
        usual={**LIBRARY, "score_mode": "", "compress_ratio": 1, "phase": "any"},
        like={**LATENT.like, "gemm_dtype": "dtype"},
        words=("gpu", "op", "model"),
        known={
            **LATENT.known,
            "gemm_dtype": PROJECTIONS,
            "phase": (*PHASES, "any"),
            "op": ("dsa", "dsa_skip_indexer", "csa", "hca", *PARTS_OF_SPARSE),
        },
    ),
    "msa": replace(
        LATENT,
        like={**LATENT.like, "gemm_dtype": "dtype"},
        words=("gpu", "phase", "model"),
        known={**LATENT.known, "gemm_dtype": PROJECTIONS, "phase": PHASES},
    ),
    "moe": KernelColumns(
        ("num_tokens", "hidden", "inter", "topk", "experts", "tp", "ep"),
        {**LIBRARY, "distribution": "balanced", "tp": 1, "ep": 1},
        known={"dtype": tuple(WEIGHTS), "distribution": DISTRIBUTIONS},
        most=(("topk", "experts"), ("ep", "experts")),
    ),
    "moe-wideep": KernelColumns(
        ("num_tokens", "hidden", "inter", "topk", "experts", "slots", "tp", "ep"),
        {**LIBRARY, "distribution": "uniform", "tp": 1, "phase": "any", "rank_tokens": 0},
        {"slots": "experts"},
        known={
            "dtype": tuple(WEIGHTS),
            "distribution": (*WIDE, *(f"{each}_eplb" for each in WIDE)),
            "phase": ("any", "decode", "prefill"),
        },
        most=(("topk", "experts"), ("ep", "experts"), ("experts", "slots")),
    ),
    "moe-mega": KernelColumns(
        ("num_tokens", "hidden", "inter", "topk", "experts", "ep"),
        {**LIBRARY, "distribution": "balanced", "phase": "any"},
        known={
            "dtype": tuple(WEIGHTS),
            "distribution": (*DISTRIBUTIONS, "power_law_sampled_1.9"),
            "phase": ("any", "decode", "prefill"),
        },
        most=(("topk", "experts"), ("ep", "experts")),
    ),
    "moe-alltoall": KernelColumns(
        ("num_tokens", "hidden", "topk", "experts", "ep"),
        LIBRARY,
        words=("gpu", "op"),
        known={"dtype": ("bfloat16", "fp8", "nvfp4"), "op": ALLTOALL},
        most=(("topk", "experts"), ("ep", "experts")),
    ),
    "collective": KernelColumns(
        ("n_ranks", "bytes"),
        {"backend": "", "version": "", "mode": "", "topology": "", "dtype": "bfloat16"},
        words=("gpu", "op"),
    ),
    "deepep": KernelColumns(
        ("num_tokens", "hidden", "topk", "experts", "node_num"),
        {"backend": "deepep", "version": "", "mode": "normal", "node_num": 1, "sms": 0},
        words=("gpu", "op"),
        known={"op": ("dispatch", "combine"), "mode": ("normal", "ll")},
        most=(("topk", "experts"),),
    ),
    "quantize": KernelColumns(
        ("m", "k"),
        {"backend": "", "version": "", "op": "scale_matrix", "dtype": "fp8"},
        known={"op": tuple(QUANTIZE), "dtype": ("fp8",)},
    ),
    "linear-attention": KernelColumns(
        ("batch", "seq_len", "n_k_heads", "k_head_dim", "n_v_heads", "v_head_dim"),
        {**LIBRARY, "d_conv": 4, "conv_channels": 0, "chunk": 0},
        words=("gpu", "op", "phase"),
        known={"op": ("gdn", "kda", "mamba2"), "phase": ("prefill", "decode", "verify")},
    ),
    "attention-encoder": KernelColumns(
        ("batch", "seq", "n_heads", "head_dim"), LIBRARY, known={"dtype": ("bfloat16",)}
    ),
    "mhc": KernelColumns(
        ("num_tokens", "hidden", "hc_mult"),
        {**LIBRARY, "sites": 2},
        words=("gpu", "op"),
        known={"op": tuple(HYPER)},
    ),
    "mlp": KernelColumns(
        ("num_tokens", "hidden", "inter"), LIBRARY, known={"dtype": (*SIXTEEN, "fp8", "fp8_block")}
    ),
    "pointwise": KernelColumns(
        ("num_tokens", "width"),
        {"backend": "", "version": "", "model": "", "dtype": "bfloat16"},
        words=("gpu", "op"),
        known={"op": tuple(POINTWISE), "dtype": SIXTEEN},
    ),
}
"""Columns by kind; all need ``gpu`` and ``time_s`` too."""
TIME: Final = "time_s"


def prepared(
    kind: str, frame: "pandas.DataFrame", where: str = ""
) -> tuple["pandas.DataFrame", list[RefusedRows]]:
    """Rows that mean something, with all columns of their kind, and those that do not.

    Args:
        kind: A key of `COLUMNS`.
        frame: Measurements; places are counted from 0.
        where: File they are from, for the error.

    Returns:
        tuple: Rows at their places, the GPU by its name in the catalog; and what is refused.

    Raises:
        InputError: A column is missing that has no usual value.
    """
    rule = COLUMNS[kind]
    filled = _filled(kind, rule, frame.reset_index(drop=True), where)
    keep = np.ones(len(filled), dtype=np.bool_)
    refused: list[RefusedRows] = []

    def refuse(wrong: NDArray[np.bool_], where: str, why: str) -> None:
        if (new := np.flatnonzero(wrong & keep)).size:
            refused.append(RefusedRows(where, new, why))
            keep[new] = False

    for name in (*rule.needed, TIME):
        values = filled[name].to_numpy(np.float64)
        least = 0.0 if name == TIME else 1.0
        wrong = ~((values >= least) & (values > 0.0) & (values < LARGEST))
        said = f"above {least:g}" if name == TIME else f"from {least:g} up"
        shown = sorted({f"{value:g}" for value in values[wrong & keep][:1000]})
        examples = f": {', '.join(shown[:3])}" if shown else ""
        refuse(wrong, name, f"{name} is no number {said}{examples}")
    for low, high in rule.most:
        refuse((filled[low] > filled[high]).to_numpy(), low, f"{low} is above {high}")
    for name, words in rule.known.items():
        for word in sorted(set(filled[name]) - set(words)):
            refuse(
                (filled[name] == word).to_numpy(),
                f"{name}={word:.40}",
                f"no form of {kind} is for {name} {word!r:.40}, only for {', '.join(words)}",
            )
    names = {}
    for word in sorted(set(filled.gpu[keep])):
        try:
            names[word] = gpu(reduce(str.removesuffix, SUFFIXES, word)).name
        except RooflineError as error:
            refuse((filled.gpu == word).to_numpy(), f"gpu={word:.40}", described(error))
    out = filled[keep].copy()
    out["gpu"] = out.gpu.map(names)
    return out, refused


def _filled(
    kind: str, rule: KernelColumns, frame: "pandas.DataFrame", where: str
) -> "pandas.DataFrame":
    """All columns, numbers as float64 and words as str; what is not a number is NaN."""
    import pandas as pd

    if "phase" in rule.words and "phase" not in frame and "seq_q" in frame:
        new = pd.to_numeric(frame.seq_q, errors="coerce")
        frame = frame.assign(phase=np.where(new > 1, "prefill", "decode"))
    numbers = {*rule.needed, TIME, *(k for k, v in rule.usual.items() if not isinstance(v, str))}
    asked = [*rule.words, TIME, *rule.needed, *rule.usual, *rule.like]
    given = {name: frame[name] for name in frame.columns}
    for name in dict.fromkeys(asked):
        if name not in given and name not in rule.usual and name not in rule.like:
            every = dict.fromkeys((*rule.words, *rule.needed, TIME))
            needed = [each for each in every if each not in rule.usual and each not in rule.like]
            raise InputError(
                f"the measurements have no column {name} of {kind}",
                hint=f"{kind} needs {', '.join(needed)}; other columns have usual values",
                where=where,
            )
    for name in dict.fromkeys(asked):
        column = given.get(name, pd.Series(np.nan, index=frame.index, dtype=object))
        if name in numbers:
            column = pd.to_numeric(column, errors="coerce").astype(np.float64)
        else:
            column = column.astype(object).where(column.notna(), None)
            column = column.map(lambda v: None if v in (None, "", "nan") else str(v).strip())
        if name in rule.usual:
            column = column.fillna(rule.usual[name])
        given[name] = column
    for name, other in rule.like.items():
        given[name] = given[name].fillna(given[other])
    for name in ("dtype", "kv_dtype", "gemm_dtype"):
        if name in given:
            given[name] = given[name].replace(FORMATS)
    for name in rule.words:
        given[name] = given[name].fillna("")
    if "window" in given:
        given["window"] = given["window"].clip(lower=0.0)
    return pd.DataFrame(given, index=frame.index)
