"""``roofline validate``: measured kernels against what fits that never saw them predict."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.render import Format, clean, echo, print_json, print_rows, wrap

if TYPE_CHECKING:
    import pandas

    from roofline.bench.validation import Validation


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
    MOE = "moe"
    DEEPEP = "deepep"
    QUANTIZE = "quantize"
    POINTWISE = "pointwise"
    E2E = "e2e"


def validate(
    file: Annotated[Path, typer.Argument(help="Measurements: Parquet or CSV, time_s in seconds.")],
    kind: Annotated[Kind, typer.Option(help="Kind of kernel that the rows are.")],
    where: Annotated[
        str, typer.Option(help="Rows to take: gpu=h100_sxm,backend=vllm|trtllm; , is and, | is or.")
    ] = "",
    by: Annotated[str, typer.Option(help="Columns to group by: gpu,dtype.")] = DEFAULT_BY,
    cross_validate: Annotated[
        bool, typer.Option("--cross-validate", help="Predict each family by fits of the others.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the prediction of each row here.")] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Say how well calibrated forms predict measured kernels: errors, and what intervals hold."""
    from roofline.bench.validation import chosen
    from roofline.bench.validation import validate as score
    from roofline.errors import InputError

    if kind is Kind.E2E:
        from roofline.cli.validate_e2e import BY, validate_e2e

        wanted = chosen(_read(file), where)
        if wanted.empty:
            raise InputError(f"no row is left of {file}", hint="loosen --where")
        asked = [name.strip() for name in by.split(",") if name.strip()]
        columns = BY if by == DEFAULT_BY else asked
        validate_e2e(wanted, by=columns, cross_validate=cross_validate, out=out, format_=format_)
        return
    if not cross_validate:
        raise InputError(
            "only --cross-validate is there: no profile is shipped to predict the rows with",
            hint="add --cross-validate: each family is predicted by a fit of the others",
        )
    frame = chosen(_read(file), where)
    if frame.empty:
        raise InputError(f"no row is left of {file}", hint="loosen --where")
    found = score(kind.value, frame)
    names = [name.strip() for name in by.split(",") if name.strip()]
    groups = _grouped(found, names)
    if out is not None:
        _write(found, frame, out)
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
            },
        )
        return
    rows = [[*key.values(), *_cells(figures)] for key, figures in groups]
    if format_ is not Format.CSV and len(groups) != 1:
        rows.append(["all", *[""] * (len(names) - 1), *_cells(found.figures())])
    header = [*names, "rows", "median", "mean", "p90", "in interval"]
    print_rows(rows, header, format_)
    if format_ is Format.TABLE:
        echo(
            wrap("Errors of the time in percent; the share of rows in their central 80 % interval.")
        )
        for refused in found.refused:
            echo(wrap(f"{refused.rows:,} rows not predicted ({refused.where}): {refused.why}"))


def _cells(figures: dict[str, Any]) -> list[str]:
    if not figures["n"]:
        return ["0", "", "", "", ""]
    return [
        f"{figures['n']:,}",
        *(f"{figures[name]:.1f}" for name in ("median", "mean", "p90")),
        f"{figures['interval_coverage']:.0%}",
    ]


def _grouped(found: "Validation", names: list[str]) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """Figures of scored rows that agree in some columns."""
    together: dict[tuple[str, ...], list[Any]] = {}
    for group in found.scored:
        key = tuple(group.name.get(name, "") for name in names)
        together.setdefault(key, []).append(group)
    return [
        (
            dict(zip(names, key, strict=True)),
            found.figures(groups, sum(len(group.measured) for group in groups)),
        )
        for key, groups in sorted(together.items())
    ]


def _read(file: Path) -> "pandas.DataFrame":
    import pandas as pd

    from roofline.errors import DocumentError

    try:
        frame = pd.read_csv(file) if ".csv" in file.suffixes else pd.read_parquet(file)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DocumentError(
            f"cannot be read as measurements: {reason[:120]}",
            hint="give a Parquet or CSV file in the columns of the kind",
            where=str(file),
        ) from None
    for column in frame.select_dtypes("category"):
        frame[column] = frame[column].astype(str)
    return frame


def _write(found: "Validation", frame: "pandas.DataFrame", out: Path) -> None:
    import numpy as np

    wide = frame.reset_index(drop=True)
    for name in ("predicted_s", "low_s", "high_s"):
        wide[name] = np.nan
    for group in found.scored:
        ends = np.exp(1.2815515655446004 * group.log_sd)
        wide.loc[group.index, "predicted_s"] = group.predicted
        wide.loc[group.index, "low_s"] = group.predicted / ends
        wide.loc[group.index, "high_s"] = group.predicted * ends
    wide.to_csv(out, index=False)
