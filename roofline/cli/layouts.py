"""``roofline layouts``: every way to lay a network out on a number of GPUs, best first."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from roofline import api
from roofline.api.parameters import Layouts
from roofline.cli import options
from roofline.cli.page import write_page
from roofline.cli.render import (
    Format,
    print_columns,
    print_heading,
    print_json,
    print_notes,
    print_rows,
)
from roofline.table import Result
from roofline.units import show, show_binary, significant


@options.takes(
    Layouts,
    "model gpu gpus node objective top batch prefill_batch prompt prefix_hit output "
    "weights kv engine calibration kv_cache attention mask mla routing_skew expert_loads "
    "ring_attention overlap cuda_graphs memory_utilization price static report format_",
)
def layouts(
    context: typer.Context,
    top: Annotated[int, typer.Option(min=0, help="Layouts to print; 0 for all.")] = 20,
    report: options.Report = None,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Price every layout of a network on a number of GPUs, and say which is best for what."""
    from roofline.cli.inputs import asked

    result = api.layouts(**asked(context, Layouts))
    write_page(context, result, report)
    if format_ is Format.JSON:
        tables = {name: list(entry.rows()) for name, entry in result.tables.items()}
        print_json("layouts", {**result.metadata, **tables}, result.notes)
    else:
        _print(result, format_, top)
    if not result.metadata["fits"]:
        raise typer.Exit(1)


def _print(result: Result, style: Format, top: int) -> None:
    meta, every = result.metadata, result.tables["layouts"]
    if style is Format.CSV:
        print_columns(every, style)
        return
    asked = (
        f"{meta['model']} on {meta['gpus']} × {meta['gpu_title']}",
        f"{meta['weights']} weights, {meta['kv']} KV cache, batch {meta['batch']} in each "
        f"replica, {meta['prompt']} → {meta['output']} tokens",
    )
    print_heading(asked, meta["summary"], style)
    shown = [row for row in every.rows() if row["fits"] or not meta["fits"]]
    shown = shown[:top] if top > 0 else list(every.rows())
    title = (
        f"{len(shown):,} of {meta['layouts']:,} layouts, of which {meta['fitting']:,} fit; "
        "× is replicas, most the largest batch"
        + (", ± the central 80 % of latency" if "latency_s_high" in every.columns else "")
    )
    lasting = "tpot_steady_s" in every.columns
    names = ("ttft_idle_s", "tpot_steady_s") if lasting else ("ttft_s", "tpot_s")
    cells = [_row(row, *names) for row in shown]
    # A column without a figure says nothing.
    kept = [i for i in range(len(_HEADER)) if any(row[i] for row in cells)]
    titles = {"TTFT": "TTFT, idle", "TPOT": "TPOT, steady"} if lasting else {}
    header = [titles.get(_HEADER[i], _HEADER[i]) for i in kept]
    print_rows([[row[i] for i in kept] for row in cells], header, style, title, whole=1)
    print_notes(result.notes, style)


_HEADER = [
    "layout",
    "×",
    "in use",
    "TTFT",
    "TPOT",
    "latency",
    "±",
    "wires",
    "most",
    "tok/s/GPU",
]


def _row(row: dict[str, Any], ttft: str, tpot: str) -> list[str]:
    def shown(name: str, write: Callable[[float], str]) -> str:
        return "" if row[name] is None else write(float(row[name]))

    return [
        str(row["layout"]),
        str(row["replicas"]),
        show_binary(float(row["memory_bytes"])),
        show(row[ttft], "s"),
        show(row[tpot], "s") if row[tpot] else "",
        show(row["latency_s"], "s"),
        f"{row['latency_s_high'] / row['latency_s'] - 1:.0%}" if "latency_s_high" in row else "",
        f"{row['wire_share']:.0%}",
        shown("largest_batch", "{:,.0f}".format),
        shown("filled_tok_s_per_gpu", significant),
    ]
