"""``roofline validate``: measured kernels against what fits that never saw them predict."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from roofline.cli import options
from roofline.cli.render import (
    OutputFormat,
    echo,
    print_json,
    print_rows,
    say,
    score_cells,
    write_csv,
)
from roofline.cli.report import write_page
from roofline.units import counted
from roofline.view.scores import refusals
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
MOST: Final = 8
"""Groups, the largest ones, that a table on a screen has if no columns are asked for."""
MADE: Final = ("kind", "profile")
"""Columns that are no file's: dense, mixture or latent; the profile that an engine is read as."""


class RowKind(StrEnum):
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
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Measurements: Parquet or CSV, time_s in seconds.")],
    kind: Annotated[RowKind, typer.Option(help="Kind of kernel that the rows are.")],
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
        int, typer.Option(min=0, help="Groups fitted at the same time; 0 for one per processor.")
    ] = 0,
    folds: Annotated[
        int,
        typer.Option(
            min=0, max=8, help="Eighths of the families that --cross-validate predicts; 0 for all."
        ),
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the prediction of each row here.")] = None,
    report: options.Report = None,
    format_: Annotated[
        OutputFormat, typer.Option("--format", help="How to print.")
    ] = OutputFormat.TABLE,
) -> None:
    """Say how well calibrated forms predict measured kernels: errors, and what intervals hold."""
    # Fits run side by side: threads of BLAS inside each would only wait for one another.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from roofline.bench.measurement_files import chosen, read_measurements
    from roofline.bench.predictors import left_out, one_by_one, shipped
    from roofline.bench.validation import validate as score
    from roofline.errors import InputError
    from roofline.files import check

    for path in (out, report):
        if path is not None:  # before minutes are spent on it
            check(path)
    frame = chosen(read_measurements(file), where)
    if frame.empty:
        raise InputError(f"no row is left of {file}", hint="loosen --where")
    names = [name.strip() for name in by.split(",") if name.strip()]
    if kind is RowKind.E2E:
        columns = BY if by == DEFAULT_BY else names
        validate_e2e(
            context,
            file,
            frame,
            by=columns,
            cross_validate=cross_validate,
            out=out,
            report=report,
            format_=format_,
        )
        return
    predictor = (
        left_out(jobs, folds) if cross_validate else one_by_one(partial(shipped, kind.value))
    )
    found = score(kind.value, frame, predictor, where=str(file))
    _check_by(f"{by!r:.60} ", names, [*map(str, frame)], also=("gpu", "backend", "dtype"))
    groups = list(found.grouped(names))
    if out is not None:
        _write(found, out)
        typer.echo(f"wrote {clean(str(out))}", err=True)
    bases = dict(Counter(found.basis[found.known]))
    answer = {
        "overall": found.figures(),
        "groups": [{"by": key, **figures} for key, figures in groups],
        "refused": [{"where": r.where, "rows": r.rows, "why": r.why} for r in found.refused],
        "basis": bases,
    }
    rows = [[*key.values(), *_cells(figures)] for key, figures in groups]
    if format_ is not OutputFormat.CSV and len(groups) != 1:
        rows.append(["all", *[""] * (len(names) - 1), *_cells(found.figures())])
    header = [*names, "rows", "of", "median", "mean", "p90", "inside", "datasheet"]
    said = [
        "Errors of the time in percent; rows inside their central 80 % interval; median, "
        "mean and p90 of the plain datasheet roofline on the same rows.",
        *(f"{counted(count, 'row')} {basis}." for basis, count in bases.items()),
    ]
    refused = ((r.rows, f"rows not predicted ({r.where})", r.why) for r in found.refused)
    _print(format_, answer, header, rows, said, refused)
    if report is not None:
        from roofline.api.validated import validated_kernels

        write_page(context, validated_kernels(found, groups, file), report)


def _print(
    style: OutputFormat,
    answer: Mapping[str, Any],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    said: Sequence[str],
    refused: Iterable[tuple[int, str, str]],
) -> None:
    """Print plain values as JSON, or a table and in a terminal what is said below it.

    Where a table goes into a file, what it lacks is said beside it, on standard error.
    """
    if style is OutputFormat.JSON:
        print_json("validate", answer)
        return
    print_rows(rows, header, style)
    if style is OutputFormat.TABLE:
        for sentence in (*said, *refusals(refused)):
            echo(wrap(sentence))
        return
    for sentence in refusals(refused):
        say(sentence)


def _check_by(
    asked: str, names: Sequence[str], columns: Sequence[str], also: Sequence[str] = ()
) -> None:
    """Refuse to group by what is no column of the file."""
    from roofline.errors import InputError

    unknown = [name for name in names if name not in columns and name not in also]
    if unknown or not names:
        said = f": {unknown[0]!r:.40}" if unknown else ""
        raise InputError(
            f"--by {asked}names no column of the file{said}", hint=f"columns: {', '.join(columns)}"
        )


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
    context: typer.Context,
    file: Path,
    frame: "pandas.DataFrame",
    *,
    by: Sequence[str],
    cross_validate: bool,
    out: Path | None,
    report: Path | None,
    format_: OutputFormat,
) -> None:
    """Predict end-to-end rows and print how far off each metric is.

    Rows are grouped by columns of the file, or of `MADE`.
    """
    from roofline.bench.end_to_end.kinds.row_kinds import PLAIN, READERS
    from roofline.bench.end_to_end.predicting import end_to_end

    numbered = frame.reset_index(drop=True)
    _check_by("", by, [*map(str, numbered), *MADE])
    found = end_to_end(numbered, cross_validate=cross_validate)
    columns = {
        name: list(getattr(found, name))
        if name in MADE and name not in numbered
        else [str(value) for value in numbered[name]]
        for name in by
    }
    names = sorted(set(found.row_kind), key=lambda name: (name != PLAIN, name in READERS, name))
    kinds = {name: found.figures(found.of_kind(name)) for name in names}
    groups = [
        (name, key, figures)
        for name in kinds
        for key, figures in found.groups(columns, found.of_kind(name))
    ]
    if out is not None:
        _write_serving(found, numbered, out)
        typer.echo(f"wrote {clean(str(out))}", err=True)
    counts = Counter(each.why for each in found.refused)
    reasons = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    overall = found.figures(~found.of_kind(*READERS))
    answer = {
        "overall": overall,
        "metrics": overall["metrics"],
        "kinds": kinds,
        "groups": [{"kind": name, "by": key, **figures} for name, key, figures in groups],
        "refused": [{"rows": rows, "why": why} for why, rows in reasons],
    }
    order = list(range(len(groups)))
    if format_ is OutputFormat.TABLE and by is BY:
        order = sorted(sorted(order, key=lambda at: -groups[at][2]["n_total"])[:MOST])
    picked = [groups[at] for at in order]
    shown = [(kind, list(key.values()), figures) for kind, key, figures in picked]
    if format_ is not OutputFormat.CSV:
        whole = ["all", *[""] * (len(by) - 1)]
        shown += [(kind, whole, figures) for kind, figures in kinds.items()]
    rows = [
        [kind, *keys, mid(heading(name)), *score_cells(metric)]
        for kind, keys, figures in shown
        for name, metric in figures["metrics"].items()
        if metric["n_total"]
    ]
    header = ["rows of", *by, "metric", "rows", "of", "median", "mean", "p90", "inside"]
    every = found.figures()
    said = [
        f"{every['n']:,} of {every['n_total']:,} rows predicted. Absolute errors in "
        "percent; rows inside their central 80 % interval."
    ]
    if smaller := len(groups) - len(order):
        said.append(f"{counted(smaller, 'smaller group')} with --format csv, or all with --by.")
    if apart := [name for name in kinds if name in READERS]:
        kinds_said = ", ".join(apart)
        said.append(f"Predicted apart from the rows that constants are fitted to: {kinds_said}.")
    refused = ((count, "not predicted", why) for why, count in reasons)
    _print(format_, answer, header, rows, said, refused)
    if report is not None:
        from roofline.api.validated import validated_serving

        scored = [
            (metric, {"kind": kind, **key}, figures["metrics"][metric])
            for kind, key, figures in groups
            for metric in figures["metrics"]
            if figures["metrics"][metric]["n_total"]
        ]
        write_page(context, validated_serving(found, numbered, scored, file), report)


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
