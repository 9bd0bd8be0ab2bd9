"""``roofline validate --kind e2e``: measured serving against predictions of each metric."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
from roofline.view.words import heading, mid

if TYPE_CHECKING:
    import pandas

    from roofline.bench.end_to_end import EndToEnd

BY: Final = ("mode", "engine")
"""Columns that rows are grouped by, if no others are asked for."""
MADE: Final = ("kind", "profile")
"""Columns that are no file's: dense, mixture or latent; the profile that an engine is read as."""


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
    from roofline.bench.end_to_end import end_to_end
    from roofline.bench.end_to_end.kinds.row_kinds import PLAIN, READERS

    numbered = frame.reset_index(drop=True)
    _check(numbered, by)
    found = end_to_end(numbered, cross_validate=cross_validate)
    columns = {name: _column(found, numbered, name) for name in by}
    kinds = sorted(set(found.row_kind), key=lambda name: (name != PLAIN, name in READERS, name))
    groups = [
        (name, key, figures)
        for name in kinds
        for key, figures in found.groups(columns, found.of_kind(name))
    ]
    if out is not None:
        _write(found, numbered, out)
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


def _check(frame: "pandas.DataFrame", by: Sequence[str]) -> None:
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
    counts: dict[str, int] = {}
    for each in found.refused:
        counts[each.why] = counts.get(each.why, 0) + 1
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _write(found: "EndToEnd", frame: "pandas.DataFrame", out: Path) -> None:
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
