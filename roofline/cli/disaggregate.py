"""``roofline disaggregate``: prefill and decode on pools of their own, and the ratio of the two."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli import options
from roofline.cli.answer import answered
from roofline.cli.page import write_page
from roofline.cli.render import (
    Format,
    print_columns,
    print_heading,
    print_notes,
    print_rows,
)

if TYPE_CHECKING:
    from roofline.table import Result, Table


class Over(StrEnum):
    """What the cache goes over."""

    NETWORK = "network"
    LINK = "link"


def disaggregate(
    context: typer.Context,
    model: options.Model = "llama-3.1-8b",
    prefill: Annotated[
        str, typer.Option(help="Layout of a prefill instance: tp4, tp4-pp2, dp8-ep8.")
    ] = "tp1",
    decode: Annotated[
        str, typer.Option(help="Layout of a decode instance: tp8, dp16-ep16.")
    ] = "tp1",
    gpu: options.Gpu = None,
    node: options.Node = None,
    decode_gpu: Annotated[
        str | None, typer.Option(help="GPU of the decode pool; else the same.")
    ] = None,
    decode_node: Annotated[
        str | None, typer.Option(help="Node of the decode pool; else the same.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(help="Devices in all; else the fewest near the balance.")
    ] = None,
    over: Annotated[
        Over, typer.Option(help="What the cache goes over: link where one node has both pools.")
    ] = Over.NETWORK,
    overlapped: Annotated[
        bool, typer.Option("--overlapped", help="Send each layer's cache as the next computes.")
    ] = False,
    prefill_batch: Annotated[
        int, typer.Option(help="Prompts in a prefill step; 0 for one in each group of --prefill.")
    ] = 0,
    batch: Annotated[int, typer.Option(help="Sequences of a decode instance.")] = 64,
    prompt: options.Prompt = 2048,
    prefix_hit: options.PrefixHit = 0.0,
    output: options.Output = 256,
    weights: options.Weights = None,
    kv: options.Kv = "auto",
    engine: options.Engine = "vllm",
    calibration: options.Calibrated = "auto",
    mla: options.MlaOf = options.Mla.AUTO,
    routing_skew: options.RoutingSkew = 0.0,
    expert_loads: options.ExpertLoads = None,
    overlap: Annotated[
        float, typer.Option(help="Share of the time of wires in an instance that is hidden.")
    ] = 0.0,
    cuda_graphs: options.CudaGraphs = True,
    memory_utilization: options.MemoryUtilization = None,
    price: options.Price = None,
    explain: Annotated[
        str | None,
        typer.Option(
            help="Derive ttft, second_token, tpot, latency, kv, transfer, ratio, throughput, "
            "memory, cost, energy."
        ),
    ] = None,
    report: options.Report = None,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Price prefill and decode pools: how many of each, TTFT, TPOT, transfer, price.

    Exits with 1 if a pool does not fit.
    """
    from roofline import api
    from roofline.api.disaggregation import disaggregate as ask
    from roofline.cli.inputs import asked

    result = ask(**asked(context))
    write_page(context, result, report)
    derivation = api.explain(result, explain) if explain else None
    answered("disaggregate", result, derivation, format_, _print)


def _print(result: "Result", style: Format) -> None:
    meta, tables = result.metadata, result.tables
    if style is Format.CSV:
        print_columns(tables["headline"], style)
        return
    if style is Format.TABLE:
        where = f"{meta['gpus']} × {meta['gpu_title']}"
        if meta["decode_gpu"] != meta["gpu"]:
            first, rest = tables["pools"].rows()
            where = (
                f"{first['instances'] * first['gpus']} × {meta['gpu_title']} (prefill) and "
                f"{rest['instances'] * rest['gpus']} × {meta['decode_gpu_title']} (decode)"
            )
        asked = (
            f"{meta['model']}, prefill and decode apart, on {where}",
            f"{meta['weights']} weights, {meta['kv']} KV cache, decode batch {meta['batch']}, "
            f"{meta['prompt']} → {meta['output']} tokens, {meta['convention']} convention",
        )
        print_heading(asked, meta["summary"])
    _print_headline(tables["headline"], style)
    _print_pools(tables["pools"], style)
    _print_transfer(tables["transfer"], style)
    _print_alternatives(tables["alternatives"], style)
    print_notes(result.notes, style)


LABELS = {
    "ttft_s": "TTFT",
    "second_token_s": "second token",
    "tpot_s": "TPOT",
    "latency_s": "latency",
    "requests_per_s": "requests",
    "throughput_tok_s": "throughput",
    "throughput_tok_s_per_gpu": "throughput per GPU",
    "user_tok_s": "speed per user",
    "joule_per_mtok": "energy",
    "usd_per_mtok": "cost",
}


ENDS = ("serial", "low", "high")
BOUNDS = ["overlap", "no overlap"]


def _print_headline(headline: "Table", style: Format) -> None:
    rows = [
        [
            LABELS[row["metric"]],
            _quantity(row["value"], row["unit"]),
            *(_quantity(row[name], row["unit"]) for name in ENDS if name in row),
            row["basis"],
            row["meaning"],
        ]
        for row in headline.rows()
    ]
    times = ["predicted", "80 % from", "to"] if "low" in headline.columns else BOUNDS
    header = ["", *times, "basis", "what it is"]
    print_rows(rows, header, style, "What users feel")


def _quantity(value: float, unit: str) -> str:
    from roofline.units import show, significant

    if unit == "$":
        return f"{value:,.3f} $"
    if unit in ("token/s", "request/s"):
        short = "tok/s" if unit == "token/s" else "req/s"
        return f"{value:,.0f} {short}" if value >= 1000 else f"{significant(value)} {short}"
    if not unit:
        return f"{value:.1%}"
    return show(value, unit)


def _print_pools(pools: "Table", style: Format) -> None:
    from roofline.units import show, show_binary

    rows, memory = [], []
    for row in pools.rows():
        rows.append(
            [
                row["pool"],
                str(row["instances"]),
                row["layout"],
                str(row["gpus"]),
                str(row["batch"]),
                show(row["step_s"], "s"),
                *(show(row[f"{name}_s"], "s") for name in ENDS if f"{name}_s" in row),
                _quantity(row["requests_per_s"], "request/s"),
                f"{row['idle']:.1%}",
            ]
        )
        memory.append(
            [
                row["pool"],
                *(show_binary(row[part]) for part in ("weight_bytes", "kv_bytes")),
                show_binary(row["activation_bytes"]),
                show_binary(row["free_bytes"]),
                "yes" if row["fits"] else "no",
                str(row["sequences"]),
            ]
        )
    beside = ["80 % from", "to"] if "low_s" in pools.columns else ["no overlap"]
    header = ["", "instances", "layout", "GPUs", "batch", "a step", *beside, "all", "idle"]
    print_rows(rows, header, style, "Pools")
    header = ["", "weights", "KV cache", "activations", "free", "fits", "sequences held"]
    print_rows(memory, header, style, "Memory, each device")


def _print_transfer(transfer: "Table", style: Format) -> None:
    rows = [
        [row["what"], _quantity(row["value"], row["unit"]), row["meaning"]]
        for row in transfer.rows()
    ]
    print_rows(rows, ["", "value", "what it is"], style, "KV cache from prefill to decode")


def _print_alternatives(alternatives: "Table", style: Format) -> None:
    from roofline.units import count, show, significant

    rows = [
        [
            "apart" if row["serving"] == "disaggregated" else "together",
            row["layout"],
            str(row["gpus"]),
            show(row["ttft_mean_s"], "s"),
            show(row["tpot_s"], "s"),
            count(row["throughput_tok_s"]),
            significant(row["throughput_tok_s_per_gpu"]),
            f"{row['usd_per_mtok']:.3f}" if row["usd_per_mtok"] else "",
            "yes" if row["fits"] else "no",
        ]
        for row in alternatives.rows()
    ]
    header = ["", "layout", "GPUs", "mean TTFT", "TPOT", "tok/s", "a GPU", "$/Mtok", "fits"]
    print_rows(rows, header, style, "Both phases apart or together")
