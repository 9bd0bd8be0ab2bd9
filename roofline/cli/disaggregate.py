"""``roofline disaggregate``: prefill and decode on pools of their own, and the ratio of the two."""

import typer

from roofline.api.parameters import Pools
from roofline.cli import options
from roofline.cli.answer import LABELS, answered, in_units
from roofline.cli.render import Format, print_heading, print_notes, print_rows
from roofline.table import Result, Table
from roofline.units import count, show, show_binary, significant


@options.takes(
    Pools,
    "model prefill decode gpu node decode_gpu decode_node gpus over overlapped "
    "prefill_batch batch prompt prefix_hit output weights kv engine calibration mla "
    "routing_skew expert_loads overlap cuda_graphs memory_utilization price explain "
    "report format_",
    derives="ttft, second_token, tpot, latency, kv, transfer, ratio, throughput, memory, "
    "cost, energy",
)
def disaggregate(context: typer.Context) -> None:
    """Price prefill and decode pools: how many of each, TTFT, TPOT, transfer, price.

    Exits with 1 if a pool does not fit.
    """
    answered(context, Pools, _print)


def _print(result: Result, style: Format) -> None:
    meta, tables = result.metadata, result.tables
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
    print_heading(asked, meta["summary"], style)
    _print_headline(tables["headline"], style)
    _print_pools(tables["pools"], style)
    _print_transfer(tables["transfer"], style)
    _print_alternatives(tables["alternatives"], style)
    print_notes(result.notes, style)


ENDS = ("serial", "low", "high")
BOUNDS = ["overlap", "no overlap"]


def _print_headline(headline: Table, style: Format) -> None:
    rows = [
        [
            LABELS[row["metric"]],
            in_units(row["value"], row["unit"]),
            *(in_units(row[name], row["unit"]) for name in ENDS if name in row),
            row["basis"],
            row["meaning"],
        ]
        for row in headline.rows()
    ]
    times = ["predicted", "80 % from", "to"] if "low" in headline.columns else BOUNDS
    header = ["", *times, "basis", "what it is"]
    print_rows(rows, header, style, "What users feel")


def _print_pools(pools: Table, style: Format) -> None:
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
                in_units(row["requests_per_s"], "request/s"),
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


def _print_transfer(transfer: Table, style: Format) -> None:
    rows = [
        [row["what"], in_units(row["value"], row["unit"]), row["meaning"]]
        for row in transfer.rows()
    ]
    print_rows(rows, ["", "value", "what it is"], style, "KV cache from prefill to decode")


def _print_alternatives(alternatives: Table, style: Format) -> None:
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
