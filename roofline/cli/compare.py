"""``roofline compare``: variants of a deployment side by side, and what each change moved."""

from typing import Any

import typer

from roofline import api
from roofline.api.parameters import Comparison
from roofline.cli import options
from roofline.cli.page import write_page
from roofline.cli.render import Format, clean, echo, print_json, print_notes, print_rows, wrap
from roofline.table import Result
from roofline.units import count, show, show_binary


@options.takes(
    Comparison,
    "model with_ gpu training_tokens gpus tp batch prefill_batch prompt prefix_hit output "
    "weights kv engine convention calibration kv_cache attention mask mla routing_skew "
    "expert_loads cuda_graphs memory_utilization price static report format_",
)
def compare(
    context: typer.Context,
    report: options.Report = None,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Price variants beside a base and say what each change moved and why, not how well it answers.

    Exits with 1 if neither the base nor any variant fits.
    """
    from roofline.cli.inputs import asked

    result = api.compare(**{"changes": ()} | asked(context, Comparison))
    write_page(context, result, report)
    if format_ is Format.JSON:
        print_json("compare", _json(result), result.notes)
    else:
        _print(result, format_)
    if not result.metadata["fits"]:
        raise typer.Exit(1)


def _json(result: Result) -> dict[str, Any]:
    """Base and variants with factors and sentence in each; training where it was asked for."""
    factors = dict(enumerate(result.tables["factors"].rows(), 1))
    why = result.tables["why"]["why"]
    variants: list[dict[str, Any]] = list(result.tables["variants"].rows())
    for number, row in factors.items():
        row.pop("variant")
        variants[number] |= {"factors": row, "why": why[number - 1]}
    base, *others = variants
    out: dict[str, Any] = {**result.metadata, "base": base, "variants": others}
    if "training" in result.tables:
        out["training"] = list(result.tables["training"].rows())
    return out


def _print(result: Result, style: Format) -> None:
    if style is Format.CSV:
        rows = list(result.tables["variants"].rows())
        print_rows([[str(v) for v in row.values()] for row in rows], list(rows[0]), style)
        return
    meta = result.metadata
    if style is Format.TABLE:
        echo(wrap(f"{meta['model']} and variants on {meta['gpus']} × {meta['gpu_title']}"))
        lengths = f"{meta['prompt']}"
        lengths += f" → {meta['output']}" if meta["convention"] == "engine" else ""
        echo(
            wrap(
                f"{meta['weights']} weights, batch {meta['batch']}, {lengths} tokens, "
                f"{meta['convention']} convention"
            )
        )
        echo("")
    _print_memory(result, style)
    _print_speed(result, style)
    for row in result.tables["why"].rows():
        text = f"{row['variant']}: {row['why']}"
        echo(wrap(text, "- ") if style is Format.TABLE else f"- {clean(text)}")
    echo("")
    if "training" in result.tables:
        _print_training(result, style)
    print_notes(result.notes, style)


def _print_memory(result: Result, style: Format) -> None:
    rows = [
        [
            row["variant"],
            show(row["parameters"], "", 4),
            show_binary(row["weight_bytes"]),
            f"{count(row['kv_bytes_per_token'])} B",
            show_binary(row["kv_bytes"]),
            show_binary(row["memory_bytes"]),
            "yes" if row["fits"] else "no",
            count(row["largest_batch"]),
        ]
        for row in result.tables["variants"].rows()
    ]
    header = ["", "params", "weights", "KV a token", "KV cache", "in use", "fits", "largest batch"]
    print_rows(rows, header, style, "Memory, each device")


def _print_speed(result: Result, style: Format) -> None:
    def known(row: dict[str, Any], name: str) -> str:
        high = row.get(f"{name}_high")
        return f" ±{high / row[name] - 1:.0%}" if high and row[name] else ""

    names = ("ttft_s", "tpot_s", "throughput_tok_s", "usd_per_mtok")
    header = ["", "TTFT", "", "TPOT", "", "tok/s", "", "$/Mtok", ""]
    title = "Speed and price of a static batch"
    if result.metadata["rank"] == "steady":
        names = ("ttft_idle_s", "tpot_steady_s", "steady_tok_s", "steady_usd_per_mtok")
        header[1], header[3] = "TTFT, idle", "TPOT, steady"
        title = "Speed and price, batch kept full"
    ttft, tpot, rate, price = names
    rows = []
    blank = dict.fromkeys(result.tables["factors"].columns, 0.0)
    factors = [blank, *result.tables["factors"].rows()]
    for row, factor in zip(result.tables["variants"].rows(), factors, strict=True):
        cells = [row["variant"]]
        for name, text in (
            (ttft, show(row[ttft], "s") + known(row, ttft)),
            (tpot, show(row[tpot], "s") + known(row, tpot)),
            (rate, count(row[rate])),
            (price, f"{row[price]:.3f}"),
        ):
            cells += [text, f"× {factor[name]:.2f}" if factor[name] else ""]
        rows.append(cells)
    print_rows(rows, header, style, title)


def _print_training(result: Result, style: Format) -> None:
    rows = [
        [
            row["variant"],
            row["method"],
            row["formula"],
            show(row["tokens"], ""),
            f"{row['flops']:.3g}",
        ]
        for row in result.tables["training"].rows()
    ]
    header = ["", "how", "arithmetic", "tokens D", "FLOP"]
    print_rows(rows, header, style, "What making them takes")
