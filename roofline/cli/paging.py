"""``roofline paging``: room of caches reserved whole, in pages, and in pages that are shared."""

from typing import Any

import typer

from roofline.api.parameters import Paging
from roofline.cli import options
from roofline.cli.answer import LABELS, answered
from roofline.cli.render import Format, print_heading, print_notes, print_rows
from roofline.table import Result
from roofline.units import count, show, show_binary


@options.takes(
    Paging,
    "model samples page reserved gpu node gpus layout batch prompt output weights kv "
    "engine calibration cuda_graphs memory_utilization explain report format_",
    derives="reserved, power-of-two, exact, paged, shared, kv",
)
def paging(context: typer.Context) -> None:
    """Compare ways to give caches room: what of it holds tokens, how many sequences fit.

    Exits with 1 if not even one prompt fits.
    """
    answered(context, Paging, _print, "schemes")


def _print(result: Result, style: Format) -> None:
    meta, schemes = result.metadata, result.tables["schemes"]
    many = f", {meta['samples']} answers to each prompt" if meta["samples"] > 1 else ""
    asked = (
        f"{meta['model']} on {meta['gpus']} × {meta['gpu_title']}",
        f"{meta['weights']} weights, {meta['kv']} KV cache, "
        f"{meta['prompt']} → {meta['output']} tokens{many}",
    )
    print_heading(asked, meta["summary"], style)
    rows = [
        [
            LABELS[row["metric"]],
            show_binary(row["value"])
            if row["metric"] == "pool_bytes"
            else show(row["value"], row["unit"])
            if row["unit"]
            else f"{row['value']:g}",
            row["meaning"],
        ]
        for row in result.tables["headline"].rows()
        if row["value"] or row["metric"] == "pool_bytes"
    ]
    print_rows(rows, ["", "value", "on each device"], style, "Room")

    def known(row: dict[str, Any]) -> str:
        high = row.get("decode_tok_s_high")
        return f" ±{high / row['decode_tok_s'] - 1:.0%}" if high else ""

    rows = [
        [
            row["title"],
            count(row["mean_slots"]),
            f"{row['token_share']:.1%}",
            f"{row['waiting_share']:.1%}",
            f"{row['unused_share']:.1%}",
            count(row["sequences"]),
            count(row["sequences_on_average"]),
            count(row["decode_tok_s"]) + known(row),
        ]
        for row in schemes.rows()
    ]
    header = ["", "slots", "tokens", "to come", "unused", "fit at longest", "on average", "tok/s"]
    title = "Ways to give caches room; slots of the answers to a prompt, mean"
    print_rows(rows, header, style, title)
    print_notes(result.notes, style)
