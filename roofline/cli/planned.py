"""A plan as text and as plain values."""

from typing import Any

from roofline.cli.render import (
    Format,
    echo,
    print_notes,
    print_rows,
    print_sentences,
    show_time,
    wrap,
)
from roofline.table import Derivation, Result, Table
from roofline.units import chance, show, significant

FEW = 12
"""Rows of a table that is printed."""


def to_json(result: Result, derivation: Derivation | None) -> dict[str, Any]:
    """Everything: how it was asked, every table as rows with units and basis, derivations."""
    return {
        **result.metadata,
        "tables": {
            name: {
                "units": {key: column.unit for key, column in entry.columns.items() if column.unit},
                "basis": {
                    key: column.basis for key, column in entry.columns.items() if column.basis
                },
                "columns": list(entry.columns),
                "rows": list(entry.rows()),
            }
            for name, entry in result.tables.items()
        },
        "derivations": {name: tree.to_json() for name, tree in result.derivations.items()},
        **({} if derivation is None else {"derivation": derivation.to_json()}),
    }


def print_plan(result: Result, style: Format) -> None:
    """Print the verdict and why, objectives, cost of confidence, other deployments, sensitivity."""
    meta, tables = result.metadata, result.tables
    if style is Format.CSV:
        name = "verdict" if meta["fits"] else "relaxations"
        rows = [
            ["" if value is None else str(value) for value in row.values()]
            for row in tables[name].rows()
        ]
        print_rows(rows, list(tables[name].columns), style)
        return
    if style is Format.TABLE:
        kinds = " or ".join(meta["gpu_titles"])
        echo(wrap(f"{meta['model']} on up to {meta['gpus_allowed']} × {kinds}"))
        echo(
            wrap(
                f"{meta['workload']}: {meta['arrivals']}; prompts {meta['prompt']}, answers "
                f"{meta['output']}"
            )
        )
        echo("")
        print_sentences(meta["summary"])
    if len(tables["objectives"]):
        _print_objectives(tables["objectives"], style)
    if len(tables["confidences"]):
        _print_confidences(tables["confidences"], style)
    if meta["fits"]:
        _print_runners_up(tables, style)
    if "bounds" in tables and len(tables["bounds"]):
        _print_bounds(tables["bounds"], meta, style)
    if len(tables["frontier"]):
        _print_frontier(tables["frontier"], meta, style)
    if len(tables["gpus_by_rate"]):
        _print_rates(tables["gpus_by_rate"], style)
    if len(tables["sensitivity"]):
        _print_sensitivity(tables["sensitivity"], tables["verdict"]["gpu"][0], style)
    if len(tables["break_even"]):
        _print_break_even(tables["break_even"], style)
    _print_candidates(tables["candidates"], style)
    print_notes(result.notes, style)


def _usd(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _print_objectives(entry: Table, style: Format) -> None:
    rows = [
        [
            row["objective"],
            show_time(row["limit_s"]),
            show_time(row["value_s"]),
            f"{show_time(row['low_s'])} to {show_time(row['high_s'])}"
            if row["probability"]
            else "",
            f"{row['attainment']:.1%}",
            "yes" if row["met"] else "no",
            "" if row["probability"] is None else chance(row["probability"]),
        ]
        for row in entry.rows()
    ]
    header = ["", "limit", "value", "central 80 %", "requests within", "kept", "likely"]
    print_rows(rows, header, style, "SLO")


def _print_confidences(entry: Table, style: Format) -> None:
    rows = [
        [
            chance(row["confidence"]),
            "none" if row["gpus"] is None else str(row["gpus"]),
            row["shape"],
            row["gpu"],
            row["weights"],
            _usd(row["usd_per_hour"]),
            _usd(row["usd_per_mtok"]),
            "asked" if row["asked"] else "",
        ]
        for row in entry.rows()
    ]
    header = ["confidence", "GPUs", "deployment", "on", "weights", "$/h", "$/Mtok", ""]
    _print_apart(rows, header, (3, 4), style, "Cost of confidence")


def _deployment(row: dict[str, Any]) -> list[str]:
    return [
        str(row["gpus"]),
        row["shape"],
        row["gpu"],
        row["weights"],
        _usd(row["usd_per_hour"]),
        _usd(row["usd_per_mtok"]),
    ]


def _print_runners_up(tables: Any, style: Format) -> None:
    rows = [["recommended", *_deployment(row), ""] for row in tables["verdict"].rows()]
    rows += [
        [row["why"], *_deployment(row), row["gives_up"] or "nothing"]
        for row in tables["runners_up"].rows()
    ]
    header = ["", "GPUs", "deployment", "on", "weights", "$/h", "$/Mtok", "gives up"]
    _print_apart(rows, header, (3, 4), style, "Deployments")


def _print_bounds(entry: Table, meta: Any, style: Format) -> None:
    """What was not measured, apart: each figure is the least that published rates allow."""
    rows = [
        [
            *_deployment(row)[:4],
            *(f"≥ {text}" if text else "" for text in _deployment(row)[4:]),
            f"≥ {show_time(row['ttft_s'])}",
            f"≥ {show_time(row['tpot_s'])}",
        ]
        for row in entry.rows()
    ]
    latencies = [meta["ttft_statistic"], meta["tpot_statistic"]]
    header = ["GPUs", "deployment", "on", "weights", "$/h", "$/Mtok", *latencies]
    print_rows(rows, header, style, "Not measured: bounds at published rates, not ranked")


def _print_apart(
    rows: list[list[str]],
    header: list[str],
    places: tuple[int, ...],
    style: Format,
    title: str,
    *,
    whole: int = 0,
) -> None:
    """Print a table without those of some columns that say the same in every row."""
    alike = [place for place in places if len({row[place] for row in rows} - {""}) <= 1]
    kept = [place for place in range(len(header)) if place not in alike]
    shown = [[row[place] for place in kept] for row in rows]
    print_rows(shown, [header[place] for place in kept], style, title, whole=whole)


def _print_frontier(entry: Table, meta: Any, style: Format) -> None:
    rows = [
        [
            str(row["gpus"]),
            row["gpu"],
            row["weights"],
            row["shape"],
            _usd(row["usd_per_hour"]),
            show_time(row["ttft_s"]),
            show_time(row["tpot_s"]),
            f"{row['headroom']:+.0%}",
            row["best_in"],
            "chosen" if row["chosen"] else "",
        ]
        for row in entry.rows()
    ][:FEW]
    header = [
        "GPUs",
        "on",
        "weights",
        "deployment",
        "$/h",
        meta["ttft_statistic"],
        meta["tpot_statistic"],
        "headroom",
        "best in",
        "",
    ]
    _print_apart(rows, header, (1, 2), style, "What more money buys")


def _print_rates(entry: Table, style: Format) -> None:
    every = list(entry.rows())
    rows = [
        [
            f"{significant(row['rate_from_per_s'])} to {significant(row['rate_to_per_s'])}",
            str(row["gpus"]),
            row["gpu"],
            row["weights"],
            row["shape"],
            _usd(row["usd_per_hour"]),
            _usd(row["usd_per_mtok"]),
            "asked" if row["asked"] else "",
        ]
        for row in every
    ]
    if len(rows) > FEW:
        asked = next((i for i, row in enumerate(every) if row["asked"]), 0)
        start = min(max(asked - FEW // 2, 0), len(rows) - FEW)
        rows = rows[start : start + FEW]
    header = ["requests/s", "GPUs", "on", "weights", "cheapest", "$/h", "$/Mtok, full", ""]
    _print_apart(rows, header, (2, 3), style, "GPUs by rate")


def _print_sensitivity(entry: Table, gpu: str, style: Format) -> None:
    rows = []
    for row in entry.rows():
        cells, changes = [row["what"]], []
        for end in ("low", "high"):
            gpus = row[f"gpus_{end}"]
            cells += [
                row[end],
                "none" if gpus is None else str(gpus),
                _usd(row[f"usd_per_mtok_{end}"]),
            ]
            if gpus is not None and row[f"changes_{end}"]:
                shape, other = row[f"shape_{end}"], row[f"gpu_{end}"]
                where = f" on {other}" if other != gpu and " on " not in shape else ""
                changes.append(f"at {row[end]}: {shape}{where}")
        rows.append([*cells, "; ".join(changes)])
    header = ["", "lower", "GPUs", "$/Mtok", "higher", "GPUs", "$/Mtok", "another deployment"]
    print_rows(rows, header, style, "Sensitivity")


def _print_break_even(entry: Table, style: Format) -> None:
    rows = [
        [
            row["what"],
            f"{row['training']:.3g} {row['unit']}",
            f"{row['inference_per_token']:.3g} {row['unit']}",
            f"{show(row['tokens'], '')}tokens",
            f"{row['days']:,.0f} days",
        ]
        for row in entry.rows()
    ]
    header = ["", "training", "an output token", "even after", "at this rate"]
    print_rows(rows, header, style, "Training once, inference again and again")


def _print_candidates(entry: Table, style: Format) -> None:
    every = list(entry.rows())
    rows = [
        [
            row["layout"],
            row["gpu"],
            row["weights"],
            row["status"],
            "" if row["gpus"] is None else str(row["gpus"]),
            row["reason"],
        ]
        for row in every
    ]
    header = ["layout", "on", "weights", "", "GPUs", "why"]
    shown = rows[:FEW]
    title = f"Layouts, {len(shown)} of {len(rows):,}"
    _print_apart(shown, header, (1, 2), style, title, whole=1)
