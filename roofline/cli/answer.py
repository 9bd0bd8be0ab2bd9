"""The answer of an analysis as text and as plain values."""

import sys
from collections.abc import Callable, Container
from shutil import get_terminal_size
from typing import Any

import typer

from roofline import api
from roofline.api.parameters import Question
from roofline.cli.page import write_page
from roofline.cli.render import (
    Format,
    clean,
    echo,
    print_columns,
    print_heading,
    print_json,
    print_notes,
    print_rows,
    wrap,
)
from roofline.table import Derivation, Result, Table
from roofline.units import show, show_binary, significant


def to_json(result: Result, derivation: Derivation | None) -> dict[str, Any]:
    """Answer as plain values: what was asked, metrics by name, tables as lists of rows."""
    metrics = {
        row["metric"]: {key: value for key, value in row.items() if key != "metric"}
        for row in result.tables["headline"].rows()
    }
    out: dict[str, Any] = {**result.metadata, "metrics": metrics}
    for name, entry in result.tables.items():
        if name == "static_batch":
            rows = [dict(row) for row in entry.rows()]
            out[name] = {row.pop("metric"): row for row in rows}
        elif name != "headline":
            out[name] = list(entry.rows())
    if derivation is not None:
        out["derivation"] = derivation.to_json()
    return out


def answered(
    context: typer.Context,
    record: type[Question],
    print_text: Callable[[Result, Format], None],
    columns: str = "headline",
    page: Callable[[Result], Result] = lambda result: result,
) -> None:
    """Ask the question of a command and print the answer, or the derivation that is wanted.

    Exits with 1 if nothing fits.

    Args:
        context, record: Options as they were given, and the question that they are of.
        print_text, columns: Prints the answer as text; table that CSV has of it.
        page: Adds what only the HTML page has.
    """
    from roofline.cli.inputs import asked

    command = str(context.command.name)
    explain, path, style = (context.params[name] for name in ("explain", "report", "format_"))
    result = getattr(api, command)(**asked(context, record))
    derivation = api.explain(result, explain) if explain else None
    if path is not None:
        write_page(context, page(result), path)
    if style is Format.JSON:
        print_json(command, to_json(result, derivation), result.notes)
    elif derivation is not None:
        print_derivation(derivation)
    elif style is Format.CSV:
        print_columns(result.tables[columns], style)
    else:
        print_text(result, style)
    if not result.metadata["fits"]:
        raise typer.Exit(1)


LABELS = {
    "ttft_idle_s": "TTFT, idle",
    "ttft_steady_s": "TTFT, steady",
    "tpot_steady_s": "TPOT, steady",
    "ttft_s": "TTFT",
    "ttft_mean_s": "TTFT, mean",
    "tpot_s": "TPOT",
    "latency_s": "latency",
    "throughput_tok_s": "throughput",
    "throughput_tok_s_per_gpu": "throughput per GPU",
    "user_tok_s": "speed per user",
    "joule_per_mtok": "energy",
    "usd_per_mtok": "cost",
    "first_block_s": "first block",
    "prefill_s": "prefill",
    "step_s": "denoising step",
    "tokens_per_step": "tokens a step",
    "autoregressive_s": "token by token",
    "speed_up": "speed-up",
    "break_even_tokens_per_step": "break-even",
    "kv_bytes_per_token": "KV cache per token",
    "kv_bytes": "KV cache",
    "weight_bytes": "weights",
    "memory_bytes": "memory",
    "second_token_s": "second token",
    "requests_per_s": "requests",
    "tokens_per_round": "tokens a round",
    "draft_s": "draft",
    "verify_s": "verification",
    "pool_bytes": "room for caches",
    "token_bytes": "a cached token",
    "state_bytes": "a sequence beside it",
    "page_bytes": "a page",
    "copied_pages": "pages copied",
    "copied_s": "copying them",
}


def print_result(result: Result, style: Format) -> None:
    """Print the summary, the headline, memory and operators, and what a reader must know."""
    meta, tables = result.metadata, result.tables
    lengths = f"{meta['prompt']}" + (f" → {meta['output']}" if "output" in meta else "")
    asked = (
        f"{meta['model']} on {meta['gpus']} × {meta['gpu_title']}",
        f"{meta['weights']} weights, {meta['kv']} KV cache, batch {meta['batch']}, "
        f"{lengths} tokens, {meta['convention']} convention",
    )
    print_heading(asked, meta["summary"], style)
    _print_headline(tables["headline"], style)
    if "static_batch" in tables:
        title = "Static batch: all prompts arrive at once"
        values = {row["metric"]: row["value"] for row in tables["static_batch"].rows()}
        same = values.get("ttft_mean_s") == values.get("ttft_s")  # all prompts in one step
        chosen = [name for name in STATIC if not (same and name == "ttft_mean_s")]
        _print_headline(tables["static_batch"], style, title, chosen)
    if "memory" in tables:
        print_memory(tables["memory"], style)
        _print_capacity(tables["capacity"], style)
    if "ops" in tables:
        for phase in ("prefill", "decode"):
            _print_ops(tables["ops"], phase, style)
    print_notes(result.notes, style)


NARROW = 96
"""Columns of a terminal below which it is left out how a figure is known: JSON has it."""
STATIC = ("ttft_s", "ttft_mean_s", "latency_s", "throughput_tok_s", "usd_per_mtok")
"""Metrics of a static batch that are printed: its TPOT and its speed are in the headline."""


def _print_headline(
    headline: Table,
    style: Format,
    title: str = "What users feel",
    chosen: Container[str] | None = None,
) -> None:
    ends = [name for name in ("serial", "low", "high") if name in headline.columns]
    narrow = style is Format.TABLE and sys.stdout.isatty() and get_terminal_size().columns < NARROW
    rows = []
    for row in headline.rows():
        if chosen is not None and row["metric"] not in chosen:
            continue
        cells = [
            LABELS.get(row["metric"], row["metric"]),
            _quantity(row["value"], row["unit"]),
        ]
        cells += [_quantity(row[name], row["unit"]) for name in ends]
        rows.append([*cells, *([] if narrow else [row["basis"]]), row["meaning"]])
    header = {1: ["overlap", "no overlap"], 2: ["predicted", "80 % from", "to"]}
    named = ["", *header.get(len(ends), ["value"]), *([] if narrow else ["basis"]), "what it is"]
    print_rows(rows, named, style, title if ends else "")


def _quantity(value: float, unit: str) -> str:
    if value == 0 and unit in ("s", "token/s"):
        return "—"
    if unit == "$":
        return f"{value:,.3f} $"
    if unit == "token/s":
        return f"{value:,.0f} tok/s" if value >= 100 else f"{value:.3g} tok/s"
    if unit in ("parameter", "token"):
        text = f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"
        return f"{text} {unit}{'' if value == 1 else 's'}"
    if not unit:
        return f"{value:.3g} ×"
    return show(value, unit)


def in_units(value: float, unit: str) -> str:
    """A figure with its unit, rates of tokens and requests in short."""
    if unit == "$":
        return f"{value:,.3f} $"
    if unit in ("token/s", "request/s"):
        short = "tok/s" if unit == "token/s" else "req/s"
        return f"{value:,.0f} {short}" if value >= 1000 else f"{significant(value)} {short}"
    return show(value, unit) if unit else f"{value:.1%}"


def print_memory(memory: Table, style: Format) -> None:
    """Print what is in the memory of one device, parts of no bytes left out."""
    rows = [
        [row["part"], show_binary(row["bytes"]), f"{row['share']:.1%}", row["known"]]
        for row in memory.rows()
        if row["bytes"]
    ]
    print_rows(rows, ["", "each device", "share", "known"], style, "Memory")


def _print_capacity(capacity: Table, style: Format) -> None:
    rows = [
        [row["limit"], f"{row['value']:,}", row["unit"], row["at"], row["set by"]]
        for row in capacity.rows()
    ]
    print_rows(rows, ["", "most", "of", "at", "set by"], style, "Room")


def _print_ops(ops: Table, phase: str, style: Format) -> None:
    calibrated = set(ops["basis"]) != {"datasheet"}
    rows = [
        [
            row["op"],
            str(row["repeat"]),
            show(row["seconds"], "s") if row["seconds"] else "",
            *(_known(row) if calibrated else ()),
            f"{row['share']:.1%}",
            row["bound"] + (f", {row['algorithm']}" if row["algorithm"] else ""),
            show(row["flops"], "FLOP") if row["flops"] else "",
            show(row["hbm_bytes"], "B") if row["hbm_bytes"] else "",
            *(() if calibrated else (significant(row["intensity"]) if row["intensity"] else "",)),
        ]
        for row in ops.rows()
        if row["phase"] == phase
    ]
    if rows:
        times = ["time", "±", "roof"] if calibrated else ["time"]
        header = ["", "times", *times, "share", "bound", "FLOPs", "traffic"]
        title = "Prefill step" if phase == "prefill" else "Decode step, mean over the answer"
        columns = header if calibrated else [*header, "FLOP/B"]
        print_rows(rows, columns, style, f"{title}, each device")


def _known(row: "dict[str, Any]") -> tuple[str, str]:
    """Half of the central 80 % of an operator's time, and the share of it that the roof takes."""
    if not row["seconds"]:
        return "", ""
    measured = row["basis"] != "datasheet"
    if row["kind"] == "engine":
        return f"{row['high_s'] / row['seconds'] - 1:.0%}", ""
    return (
        f"{row['high_s'] / row['seconds'] - 1:.0%}" if measured else "",
        f"{row['roof_s'] / row['seconds']:.0%}",
    )


def print_derivation(derivation: Derivation, depth: int = 0) -> None:
    """Print a derivation as an indented tree."""
    pad = "  " * depth
    value = (
        show_binary(derivation.value)
        if derivation.unit == "B" and depth == 0
        else _quantity(derivation.value, derivation.unit)
        if derivation.unit
        else f"{derivation.value:,.10g}"
    )
    line = f"{derivation.name} = {value}"
    if derivation.basis and not derivation.formula:
        line += f"  [{derivation.basis}]"
    echo(clean(pad + line))
    for mark, text in (
        ("=", derivation.formula),
        ("=", derivation.substituted),
        ("from", derivation.source),
        ("note:", derivation.note),
    ):
        if text:
            echo(wrap(text, f"{pad}    {mark} "))
    for entry in derivation.inputs:
        print_derivation(entry, depth + 1)
