"""``roofline validate``: measured kernels against what fits that never saw them predict."""

import os
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.render import (
    Format,
    clean,
    echo,
    print_json,
    print_refused,
    print_rows,
    score_cells,
    wrap,
    write_csv,
)

if TYPE_CHECKING:
    import pandas

    from roofline.bench.validation import Validation

EPILOG = (
    "Columns are those of the kind: m n k; batch seq_q seq_kv n_heads n_kv_heads head_dim window; "
    "num_tokens hidden inter topk experts tp ep distribution; op n_ranks bytes topology; gpu and "
    "time_s in seconds always. Where a column or value is missing: dtype bfloat16 (fp8 for "
    "quantize), kv_dtype and gemm_dtype as dtype, n_kv_heads as n_heads, head_dim 128, window 0 "
    "for none, seq_q 1 in decoding and seq_kv in prefill, phase after seq_q, tp, ep and node_num "
    "1, sms 0, slots as experts, rank_tokens 0 for as many as distribution says, distribution "
    "balanced and for moe-wideep uniform, phase of experts any, mode normal, op scale_matrix for "
    "quantize and module for MLA, compress_ratio 1, score_mode none, topology one node, d_conv 4, "
    "conv_channels and chunk 0 for none, sites 2; backend, version, kernel and model not stated. "
    "Unknown GPUs and formats, times and dimensions that are not above 0 are refused with their "
    "reason and count against coverage. "
    "Shipped calibrations predict the rows; with --cross-validate fits of the file do, and a group "
    "that is a small sample of a device whose sibling is in the file is transferred from it: one "
    "factor from the other families of the sample."
)


DEFAULT_BY = "gpu,backend,dtype"
"""Columns of kernels to group by; end-to-end rows have others."""


class Kind(StrEnum):
    """Of kernel, or whole rows of serving."""

    GEMM = "gemm"
    ATTENTION_PREFILL = "attention-prefill"
    ATTENTION_DECODE = "attention-decode"
    MLA_PREFILL = "mla-prefill"
    MLA_DECODE = "mla-decode"
    MLA_MODULE = "mla-module"
    MLA_BMM = "mla-bmm"
    SPARSE_ATTENTION = "sparse-attention"
    MSA = "msa"
    MOE = "moe"
    MOE_WIDEEP = "moe-wideep"
    MOE_ALLTOALL = "moe-alltoall"
    MOE_MEGA = "moe-mega"
    COLLECTIVE = "collective"
    DEEPEP = "deepep"
    QUANTIZE = "quantize"
    POINTWISE = "pointwise"
    LINEAR_ATTENTION = "linear-attention"
    ATTENTION_ENCODER = "attention-encoder"
    MHC = "mhc"
    MLP = "mlp"
    E2E = "e2e"


def validate(
    file: Annotated[Path, typer.Argument(help="Measurements: Parquet or CSV, time_s in seconds.")],
    kind: Annotated[Kind, typer.Option(help="Kind of kernel that the rows are.")],
    where: Annotated[
        str, typer.Option(help="Rows to take: gpu=h100_sxm,backend=vllm|trtllm; , is and, | is or.")
    ] = "",
    by: Annotated[
        str, typer.Option(help="Columns of the file to group by: gpu,dtype; tp; n_ranks.")
    ] = DEFAULT_BY,
    cross_validate: Annotated[
        bool,
        typer.Option(
            "--cross-validate",
            help="Predict each family by fits of the others, not by shipped ones.",
        ),
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=0, help="Fits at the same time; 0 for one per processor.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the prediction of each row here.")] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Say how well calibrated forms predict measured kernels: errors, and what intervals hold."""
    # Fits run side by side: threads of BLAS inside each would only wait for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from roofline.bench.predictors import left_out, one_by_one, shipped
    from roofline.bench.validation import chosen, read_measurements
    from roofline.bench.validation import validate as score
    from roofline.errors import InputError

    if kind is Kind.E2E:
        from roofline.cli.validate_e2e import BY, validate_e2e

        wanted = chosen(read_measurements(file), where)
        if wanted.empty:
            raise InputError(f"no row is left of {file}", hint="loosen --where")
        asked = [name.strip() for name in by.split(",") if name.strip()]
        columns = BY if by == DEFAULT_BY else asked
        validate_e2e(wanted, by=columns, cross_validate=cross_validate, out=out, format_=format_)
        return
    frame = chosen(read_measurements(file), where)
    if frame.empty:
        raise InputError(f"no row is left of {file}", hint="loosen --where")
    predictor = left_out(jobs) if cross_validate else one_by_one(partial(shipped, kind.value))
    found = score(kind.value, frame, predictor, where=str(file))
    names = [name.strip() for name in by.split(",") if name.strip()]
    _known(names, by, frame)
    groups = list(found.grouped(names))
    if out is not None:
        _write(found, out)
        typer.echo(f"wrote {clean(str(out))}", err=True)
    if format_ is Format.JSON:
        print_json(
            "validate",
            {
                "overall": found.figures(),
                "groups": [{"by": key, **figures} for key, figures in groups],
                "refused": [
                    {"where": r.where, "rows": r.rows, "why": r.why} for r in found.refused
                ],
                "basis": _bases(found),
            },
        )
        return
    rows = [[*key.values(), *_cells(figures)] for key, figures in groups]
    if format_ is not Format.CSV and len(groups) != 1:
        rows.append(["all", *[""] * (len(names) - 1), *_cells(found.figures())])
    header = [*names, "rows", "of", "median", "mean", "p90", "inside", "datasheet"]
    print_rows(rows, header, format_)
    if format_ is Format.TABLE:
        echo(
            wrap(
                "Errors of the time in percent; rows inside their central 80 % interval; median, "
                "mean and p90 of the plain datasheet roofline on the same rows."
            )
        )
        for basis, count in _bases(found).items():
            echo(wrap(f"{count:,} rows {basis}."))
        print_refused(
            (each.rows, f"rows not predicted ({each.where})", each.why) for each in found.refused
        )


def _known(names: list[str], by: str, frame: "pandas.DataFrame") -> None:
    from roofline.errors import InputError

    usual = {"gpu", "backend", "dtype"}
    if not names or (unknown := [n for n in names if n not in frame and n not in usual]):
        said = f" {unknown[0]!r:.40}" if names else ""
        raise InputError(
            f"--by {by!r:.60} names no column of the file{said and ':'}{said}",
            hint=f"columns: {', '.join(map(str, frame.columns))}",
        )


def _bases(found: "Validation") -> dict[str, int]:
    out: dict[str, int] = {}
    for basis in found.basis[found.known]:
        out[basis] = out.get(basis, 0) + 1
    return out


def _cells(figures: dict[str, Any]) -> list[str]:
    plain = figures["datasheet"] if figures["n"] else {}
    sheet = " / ".join(f"{plain[name]:.0f}" for name in ("median", "mean", "p90") if plain)
    return [*score_cells(figures), sheet]


def _write(found: "Validation", out: Path) -> None:
    low, high = found.interval()
    why = [""] * len(found.frame)
    for refused in found.refused:
        for row in refused.index:
            why[row] = refused.why
    rows = found.frame.assign(
        predicted_s=found.predicted,
        low_s=low,
        high_s=high,
        datasheet_s=found.datasheet,
        basis=found.basis,
        why=why,
    )
    write_csv(rows, out)
