"""``roofline validate``: measured kernels against what fits that never saw them predict."""

import os
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from roofline.cli.render import (
    Format,
    echo,
    print_json,
    print_refused,
    print_rows,
    score_cells,
    write_csv,
)
from roofline.view.terminal import clean, wrap
from roofline.view.words import heading, mid

if TYPE_CHECKING:
    import pandas

    from roofline.bench.end_to_end.result import EndToEnd
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
BY: Final = ("mode", "engine")
"""Columns that rows are grouped by, if no others are asked for."""
MADE: Final = ("kind", "profile")
"""Columns that are no file's: dense, mixture or latent; the profile that an engine is read as."""


class Kind(StrEnum):
    """Kind of kernel, or whole rows of serving."""

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

    frame = chosen(read_measurements(file), where)
    if frame.empty:
        raise InputError(f"no row is left of {file}", hint="loosen --where")
    names = [name.strip() for name in by.split(",") if name.strip()]
    if kind is Kind.E2E:
        columns = BY if by == DEFAULT_BY else names
        validate_e2e(frame, by=columns, cross_validate=cross_validate, out=out, format_=format_)
        return
    predictor = left_out(jobs) if cross_validate else one_by_one(partial(shipped, kind.value))
    found = score(kind.value, frame, predictor, where=str(file))
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
    return dict(Counter(found.basis[found.known]))


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


def validate_e2e(
    frame: "pandas.DataFrame",
    *,
    by: Sequence[str],
    cross_validate: bool,
    out: Path | None,
    format_: Format,
) -> None:
    """Predict end-to-end rows and print how far off each metric is.

    Args:
        frame: Rows asked for, in the columns of the shared measurements.
        by: Columns to group by: of the file, or of `MADE`.
        cross_validate: Whether each row is predicted by constants of other GPUs, engines and
            models.
        out: Where each row's prediction goes; None for nowhere.
        format_: How to print.
    """
    from roofline.bench.end_to_end.kinds.row_kinds import PLAIN, READERS
    from roofline.bench.end_to_end.predicting import end_to_end

    numbered = frame.reset_index(drop=True)
    _known_serving(numbered, by)
    found = end_to_end(numbered, cross_validate=cross_validate)
    columns = {name: _column(found, numbered, name) for name in by}
    kinds = sorted(set(found.row_kind), key=lambda name: (name != PLAIN, name in READERS, name))
    groups = [
        (name, key, figures)
        for name in kinds
        for key, figures in found.groups(columns, found.of_kind(name))
    ]
    if out is not None:
        _write_serving(found, numbered, out)
        typer.echo(f"wrote {clean(str(out))}", err=True)
    reasons = _reasons(found)
    overall = found.figures(~found.of_kind(*READERS))
    if format_ is Format.JSON:
        print_json(
            "validate",
            {
                "overall": overall,
                "metrics": overall["metrics"],
                "kinds": {name: found.figures(found.of_kind(name)) for name in kinds},
                "groups": [{"kind": name, "by": key, **figures} for name, key, figures in groups],
                "refused": [{"rows": rows, "why": why} for why, rows in reasons],
            },
        )
        return
    rows = [
        [kind, *key.values(), mid(heading(name)), *score_cells(metric)]
        for kind, key, figures in groups
        for name, metric in figures["metrics"].items()
        if metric["n_total"]
    ]
    if format_ is not Format.CSV:
        blank = [""] * (len(by) - 1)
        rows += [
            [kind, "all", *blank, mid(heading(name)), *score_cells(metric)]
            for kind in kinds
            for name, metric in found.figures(found.of_kind(kind))["metrics"].items()
            if metric["n_total"]
        ]
    header = ["rows of", *by, "metric", "rows", "of", "median", "mean", "p90", "inside"]
    print_rows(rows, header, format_)
    if format_ is Format.TABLE:
        whole = found.figures()
        echo(
            wrap(
                f"{whole['n']:,} of {whole['n_total']:,} rows predicted. Absolute errors in "
                "percent; rows inside their central 80 % interval."
            )
        )
        if apart := [name for name in kinds if name in READERS]:
            echo(wrap(f"Predicted apart, and fitted to by no constant: {', '.join(apart)}."))
        print_refused((count, "not predicted", why) for why, count in reasons)


def _known_serving(frame: "pandas.DataFrame", by: Sequence[str]) -> None:
    from roofline.errors import InputError

    unknown = [name for name in by if name not in frame and name not in MADE]
    if unknown or not by:
        said = f": {unknown[0]!r:.40}" if unknown else ""
        raise InputError(
            f"--by names no column of the file{said}",
            hint=f"columns: {', '.join([*map(str, frame.columns), *MADE])}",
        )


def _column(found: "EndToEnd", frame: "pandas.DataFrame", name: str) -> list[str]:
    if name in MADE and name not in frame:
        return list(getattr(found, name))
    return [str(value) for value in frame[name]]


def _reasons(found: "EndToEnd") -> list[tuple[str, int]]:
    """Why rows or metrics were not predicted, most frequent first."""
    counts = Counter(each.why for each in found.refused)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _write_serving(found: "EndToEnd", frame: "pandas.DataFrame", out: Path) -> None:
    why = [""] * found.rows
    for each in found.refused:
        why[each.place] = each.why
    columns: dict[str, Any] = {}
    for name, metric in found.metrics.items():
        columns[f"{name}_predicted"] = metric.predicted
        columns[f"{name}_low"], columns[f"{name}_high"] = metric.low, metric.high
    columns |= {"profile": found.profile, "kind": found.kind, "rows_of": found.row_kind}
    columns |= {"basis": found.basis, "why": why}
    write_csv(frame.assign(**columns), out)
