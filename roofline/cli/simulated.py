"""The answer of a simulation as text and as plain values."""

from typing import Any

from roofline.cli import answer
from roofline.cli.render import (
    Format,
    echo,
    print_columns,
    print_notes,
    print_rows,
    print_sentences,
    show_time,
    wrap,
)
from roofline.table import Result, Table
from roofline.units import chance, count, counted, significant


def to_json(result: Result) -> dict[str, Any]:
    """Answer as plain values; of every request only where it is written to a file."""
    out: dict[str, Any] = dict(result.metadata)
    for name in ("headline", "throughput", "server"):
        rows = [dict(row) for row in result.tables[name].rows()]
        out["metrics" if name == "headline" else name] = {row.pop("metric"): row for row in rows}
    for name in ("objectives", "cache", "workload"):
        out[name] = list(result.tables[name].rows())
    return out


def print_run(result: Result, style: Format) -> None:
    """Print the summary, what users feel, promises, the server and its cache, and the workload."""
    meta, tables = result.metadata, result.tables
    if style is Format.CSV:
        print_columns(tables["headline"], style)
        return
    if style is Format.TABLE:
        replicas = f", {meta['replicas']} replicas" if meta["replicas"] > 1 else ""
        echo(wrap(f"{meta['model']} on {meta['gpus']} × {meta['gpu_title']}{replicas}"))
        echo(
            wrap(
                f"{meta['weights']} weights, {meta['kv']} KV cache, {meta['engine_title']}, "
                f"{meta['policy']} batching"
            )
        )
        echo(wrap(f"{meta['workload']}: {meta['arrivals']}, {counted(meta['counted'], 'request')}"))
        echo("")
        print_sentences(meta["summary"])
    _print_latencies(tables["headline"], style, overloaded=meta["stable"] is False)
    if len(tables["objectives"]):
        _print_objectives(tables["objectives"], style)
    _print_figures(tables["throughput"], style, "Throughput and price")
    _print_figures(tables["server"], style, "The server")
    _print_cache(tables["cache"], style)
    rows = [[row["what"], row["value"]] for row in tables["workload"].rows()]
    print_rows(rows, ["", "value"], style, "Workload")
    print_notes(result.notes, style)


LABELS = {
    **answer.LABELS,
    "queueing_s": "queueing",
    "offered_requests_per_s": "offered",
    "saturation_requests_per_s": "saturation",
    "makespan_s": "the run",
    "requests_per_s": "served",
    "goodput_requests_per_s": "goodput",
    "total_tok_s": "with prompts",
    "tokens_per_usd": "tokens for 1 $",
    "joule_per_token": "energy",
    "utilisation": "busy",
    "steps": "steps",
    "step_s": "a step",
    "running": "running",
    "running_most": "running, most",
    "queue": "queue",
    "queue_most": "queue, most",
    "prefilled_tokens": "prefilled",
    "decoded_tokens": "decoded",
    "prefix_hits": "prefix hits",
    "loaded_tokens": "loaded",
    "preemptions": "preemptions",
    "recomputed_tokens": "recomputed",
    "swapped_tokens": "swapped",
}
_SILENT = ("preemptions", "recomputed_tokens", "swapped_tokens", "prefix_hits", "loaded_tokens")
"""Not worth a line where they are 0."""


def _print_latencies(table: Table, style: Format, *, overloaded: bool) -> None:
    sure = "mean_low" in table.columns
    figures = ["mean", "p50", "p90", "p95", "p99"]
    if sure:
        figures = ["mean", "mean_low", "mean_high", "p50", "p90", "p99", "p99_low", "p99_high"]
    rows = [
        [LABELS[row["metric"]]]
        + [show_time(row[name]) for name in figures]
        + ([] if sure else [row["meaning"]])
        for row in table.rows()
    ]
    title = "What users feel" + (" (overloaded: grows with the length of the run)" * overloaded)
    names = [name.split("_")[-1] for name in figures]
    print_rows(rows, ["", *names] + ([] if sure else ["what it is"]), style, title)


def _print_objectives(table: Table, style: Format) -> None:

    sure = "chance" in table.columns
    rows = []
    for row in table.rows():
        cells = [row["objective"], show_time(row["limit_s"]), show_time(row["value_s"])]
        if sure:
            cells += [show_time(row["value_low"]), show_time(row["value_high"])]
        cells.append(f"{row['attainment']:.1%}")
        if sure:
            cells += [f"{row['attainment_low']:.1%}", f"{row['attainment_high']:.1%}"]
            cells.append(chance(row["chance"]))
        rows.append([*cells, "yes" if row["met"] else "no"])
    header = ["", "limit", "value", "requests within", "kept"]
    if sure:
        header = ["", "limit", "value", "low", "high", "within", "low", "high", "chance", "kept"]
    print_rows(rows, header, style, "Promises")


def _print_figures(table: Table, style: Format, title: str) -> None:
    sure = "low" in table.columns
    rows = []
    for row in table.rows():
        if not row["value"] and row["metric"] in _SILENT:
            continue
        cells = [LABELS[row["metric"]], _quantity(row["value"], row["unit"])]
        if sure:
            cells += [_bound(row, "low"), _bound(row, "high")]
        rows.append([*cells, row["meaning"]])
    header = ["", "value", "low", "high", "what it is"] if sure else ["", "value", "what it is"]
    print_rows(rows, header, style, title)


def _bound(row: dict[str, Any], end: str) -> str:
    """An end of an interval; nothing where it is the figure itself."""
    if row[end] is None or row["low"] == row["high"]:
        return ""
    return _quantity(row[end], row["unit"])


def _quantity(value: float, unit: str) -> str:
    if unit in ("$", "token/s", "request/s", "J"):
        return answer.in_units(value, unit)
    if unit == "s":
        return show_time(value)
    if unit in ("token", "step"):
        return count(value)
    if unit == "request":
        return count(value) if value == int(value) else significant(value)
    return f"{value:.1%}" if isinstance(value, float) else count(value)


def _print_cache(table: Table, style: Format) -> None:
    rows = [
        [row["part"], count(row["tokens"]), f"{row['share']:.1%}", row["meaning"]]
        for row in table.rows()
        if row["tokens"]
    ]
    print_rows(rows, ["", "tokens", "share", "what it is"], style, "KV cache of a replica")
