"""Titles and columns of the tables of all questions, said once for page, terminal and Markdown."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct

from roofline.table import Result, Table, table
from roofline.units import show
from roofline.view.block import Cell, PageTable, number_cell
from roofline.view.grids import Writers, grid, percents
from roofline.view.known import calibrated
from roofline.view.text import binary, clean, is_number, percent
from roofline.view.words import MORE, cell, heading, written

FIGURES: Final = "metric=Figure, value, low, meaning"
"""Columns of tables of figures, each in its own unit."""
DEPLOYED: Final = (
    "gpus, shape, gpu?, weights?, token_budget?=Step tokens, usd_per_hour, usd_per_mtok"
)
FREE: Final = "free"
MEASURES: Final = ("usd_per_mtok", "usd_per_hour", "gpus")
"""Measures of a sensitivity, the first that is known is taken."""
SILENT: Final = frozenset(
    {"preemptions", "recomputed_tokens", "swapped_tokens", "prefix_hits", "loaded_tokens"}
)
"""Figures of a server that are left out where they are 0."""
SAME: Final = 0.005
"""A change below this is none. [1]"""


class TableView(Struct, frozen=True):
    """Title and columns of a table."""

    title: str
    columns: str = ""
    """Columns as `roofline.view.grids.grid` takes them."""
    few: int = 0
    """Rows that a terminal prints; 0 for all. [1]"""
    of: str = ""
    """Table of the result, where it is not the one of this name."""
    where: Callable[[Mapping[str, Any]], object] | None = None
    writers: Writers | None = None


def _free(row: Mapping[str, Any]) -> bool:
    """True for memory that is missing."""
    return bool(row["part"] == FREE and row["bytes"] < 0)


def _memory(row: Mapping[str, Any]) -> Cell:
    tone = "bad" if _free(row) else "good" if row["part"] == FREE else ""
    return number_cell(binary(abs(row["bytes"])), tone)


def _large(value: float | None) -> str:
    """A large count with a prefix; empty where there is none."""
    return "" if value is None else show(value, "")


def _bound(name: str) -> Callable[[Mapping[str, Any]], Cell]:
    """The least that a figure can be."""
    return lambda row: Cell("" if row[name] is None else f"≥ {written(name, row[name])}")


SHOWN: Final[Mapping[str, TableView]] = {
    "adapters": TableView("LoRA adapters", "metric=Figure, value, without, known, meaning"),
    "alternatives": TableView(
        "Both phases apart or together",
        "serving, layout, gpus, ttft_mean_s, tpot_s, throughput_tok_s, throughput_tok_s_per_gpu, "
        "usd_per_mtok, fits | latency_s",
    ),
    "batches": TableView(
        "Other batches",
        "batch, tpot_without_s, tpot_s=TPOT with, speed_up, gain_bound, decode_tok_s, "
        "best_drafted, best_speed_up, fits",
    ),
    "bounds": TableView(
        "Not measured: bounds at published rates, not ranked",
        f"{DEPLOYED}, ttft_s, tpot_s",
        writers={n: _bound(n) for n in ("usd_per_hour", "usd_per_mtok", "ttft_s", "tpot_s")},
    ),
    "break_even": TableView(
        "Training once, inference again and again",
        "what, training, inference_per_token=An output token, tokens=Even after, "
        "days=Days at this rate",
    ),
    "by_hour": TableView(
        "A fleet that follows the load, by hour",
        "from_h=From, to_h=To, rate_per_s=Load, replicas?, prefill_replicas?=Prefill, "
        "decode_replicas?=Decode, gpu_hours, load=Of what is carried, ttft_s, tpot_s, "
        "late_share=Outside SLO",
        few=24,
    ),
    "by_request": TableView(
        "Requests that accept more and less",
        "of=Requests, acceptance, expected_tokens=Tokens, tpot_s, speed_up",
    ),
    "by_clients": TableView(
        "By clients: each asks as often as in this run",
        "clients, throughput_tok_s, ttft_mean_s, ttft_p50_s, ttft_p99_s, tpot_mean_s, tpot_p99_s",
    ),
    "by_load": TableView(
        "TTFT by load: the same requests, sent faster or slower",
        "load_share=Of saturation, requests_per_s=Load, ttft_mean_s, ttft_p50_s, ttft_p99_s, "
        "tpot_mean_s",
    ),
    "cache": TableView(
        "KV cache of a replica", "part, tokens, share, meaning", where=lambda row: row["tokens"]
    ),
    "candidates": TableView(
        "Layouts", "layout, gpu?, weights?, status, gpus, reason=Why | *", few=12
    ),
    "capacity": TableView("What would fit at most", "limit, value, at, set by"),
    "confidences": TableView(
        "Cost of confidence",
        f"confidence, {DEPLOYED}, asked",
        writers={"gpus": lambda row: Cell("none" if row["gpus"] is None else f"{row['gpus']:,}")},
    ),
    "deployments": TableView(
        "Deployments, and what each gives up", f"why, {DEPLOYED}, gives_up | gains"
    ),
    "distribution": TableView(
        "Distribution of latencies over requests",
        "request_share=Requests within, ttft_s, tpot_s, latency_s",
    ),
    "draft_lengths": TableView(
        "Draft length by load", "from_batch=From batch, to_batch=To, drafted"
    ),
    "drafts": TableView(
        "What else could be drafted",
        "drafted, depth=Deep, expected_tokens=Tokens, draft_s, verify_s, tpot_s, speed_up, asked, "
        "best",
    ),
    "constants": TableView(
        "Constants",
        "constant, shipped, learnt, low, told by the runs, meaning",
        writers=percents("told by the runs"),
    ),
    "errors": TableView(
        "Median errors",
        "metric, figures, shipped, held out=Left out, fitted",
        writers=percents("shipped", "held out", "fitted"),
    ),
    "facility": TableView("Power, energy, electricity", FIGURES),
    "halls": TableView(
        "The hall, filled",
        "gpu, held=Holds, binds, blocks, shape=A block, gpus=GPUs used, requests_per_s, "
        "tokens_per_day=Tokens a day, tpot_s, facility_w=Draws, provisioned_w, usd_per_hour, "
        "chosen | ttft_s, usd_per_mtok",
        writers={"tokens_per_day": lambda row: Cell(_large(row["tokens_per_day"]))},
    ),
    "logged": TableView(
        "Steps that were logged, and errors of predictions",
        "batch=Sequences, context=Tokens of each, steps=Means of steps, logged, shipped, "
        "held out=Left out",
        writers={
            "batch": lambda row: Cell(f"{row['batch']:,.0f}"),
            "context": lambda row: Cell(f"{row['context']:,.0f}"),
            "shipped": lambda row: number_cell(written("error", round(row["shipped"], 3))),
            "held out": lambda row: number_cell(written("error", round(row["held out"], 3))),
        },
    ),
    "runs": TableView(
        "Runs", "run, where, tool, model, gpu, gpus, concurrency, rate, prompt, output, why not | *"
    ),
    "figures": TableView(
        "Every figure", "run, metric, statistic, measured, predicted, low, error, inside | reason"
    ),
    "fleets": TableView(
        "Fleets over the rate curve",
        "fleet, least_gpus=Fewest GPUs, most_gpus=Most, gpu_hours_per_day=GPU hours a day, "
        "usd_per_day=On demand a day, reserved_gpus?=Reserve, "
        "reserved_usd_per_day?=With these a day, late_share=Outside SLO",
    ),
    "frontier": TableView(
        "Deployments that nothing cheaper beats in some aim",
        "gpus, gpu?, shape, weights?, token_budget?=Step tokens, usd_per_hour, ttft_s, tpot_s, "
        "headroom, best_in, chosen | "
        "usd_per_mtok, capacity_per_s",
        few=12,
    ),
    "gpus_by_rate": TableView(
        "GPUs by rate",
        "rate_from_per_s=From, rate_to_per_s=To, gpus, gpu?, weights?, shape=Cheapest, "
        "usd_per_hour, usd_per_mtok=Cost per Mtok when full, asked",
        few=24,
    ),
    "latencies": TableView(
        "What users feel",
        "metric=Latency, mean, mean_low, p50, p90=P90, p95, p99, p99_low, meaning",
        of="headline",
    ),
    "memory": TableView(
        "What is in the memory of one device",
        "part, bytes=Size, share=Of the device, known",
        where=lambda row: row["bytes"],
        writers={
            "part": lambda row: Cell("over the engine's limit" if _free(row) else row["part"]),
            "bytes": _memory,
            "share": lambda row: Cell(percent(abs(row["share"]))),
        },
    ),
    "objectives": TableView(
        "SLO, as simulated",
        "objective, limit_s, value_s, low_s, value_low, margin, attainment=Requests within, "
        "attainment_low, met=Kept, probability, chance",
    ),
    "over_time": TableView(
        "Over the run: mean and most of each span of time",
        "from_s=From, to_s=To, running, running_most, queue, queue_most, kv_share=Cache in use, "
        "kv_share_most=Cache in use most | kv_tokens=Tokens in cache, "
        "kv_tokens_most=Tokens in cache most",
    ),
    "owned": TableView(
        "A GPU of one's own, an hour",
        "gpu, server_gpus=GPUs of a server, depreciation_usd_per_hour=Depreciation, "
        "electricity_usd_per_hour=Electricity, owned_usd_per_hour=Owned, usd_per_hour=Rented, "
        "break_even_share=Cheaper if in use",
    ),
    "places": TableView(
        "By place in the session",
        "place=Request, requests=Number, prompt=Prompt, computed, prefix_hits=Hits, ttft_s, p50, "
        "p99",
        writers={
            "prompt": lambda row: Cell(f"{row['prompt']:,.0f}"),
            "computed": lambda row: Cell(f"{row['computed']:,.0f}"),
            "prefix_hits": lambda row: Cell(percent(row["prefix_hits"])),
        },
    ),
    "encoders": TableView(
        "Pictures and sound encoded on instances of their own, or in the prefill pool",
        "where=Tower, layout, instances, encode_s=Encoding, send_s=Sent, ttft_s, "
        "requests_per_s=Served, gpus, usd_per_mtok",
    ),
    "job": TableView(
        "The job, done",
        "shape=Deployment, gpu, weights, gpus, requests_per_s=Served, hours=Time, "
        "latest_hours=At the latest, gpu_hours=GPU hours, job_usd=Price | usd_per_mtok_all, chosen",
    ),
    "length_pools": TableView(
        "Pools by prompt length; the last row is one for all",
        "threshold=Up to, share=Of requests, short=Short prompts, long=Long prompts, gpus, "
        "usd_per_hour=Price",
        writers={
            "threshold": lambda row: Cell(
                "all" if row["threshold"] is None else f"{row['threshold']:,} tokens"
            ),
            "share": lambda row: Cell(percent(row["share"])),
        },
    ),
    "encoder_pools": TableView(
        "Pictures on GPUs of their own; the last row has the towers beside the text",
        "encode_gpu=Pictures on, instances, encode_s=A prompt, ready_p99_s=Ready p99, "
        "rest=Deployment, gpus, usd_per_hour=Price, met=Kept | send_s, ttft_p99_s, tpot_p99_s",
    ),
    "pools": TableView(
        "Pools",
        "pool, instances, layout, gpus, batch, step_s, low_s, serial_s=No overlap, "
        "requests_per_s=All, idle | gpu, request_s",
    ),
    "pools_memory": TableView(
        "Memory, each device",
        "pool, weight_bytes, kv_bytes, activation_bytes, free_bytes, fits, "
        "sequences=Sequences held",
        of="pools",
    ),
    "published": TableView(
        "Acceptance that was measured elsewhere",
        "target, draft, text, acceptance=By position, source | where",
    ),
    "ratios": TableView(
        "Attention instances beside the feed-forward pool",
        "attention_instances=Attention, microbatches=Micro-batches, gpus, attention_s, to_ffn_s=To "
        "FFN, ffn_s=FFN, from_ffn_s=Back, tpot_s, tok_s_per_gpu, binds=Sets the pace, fits",
    ),
    "reasons": TableView("Why figures are outside their interval"),
    "refused": TableView("Rows that are not predicted"),
    "relaxations": TableView("Relaxations that are enough"),
    "round_work": TableView(
        "Work of speculation, and its bound", "metric=Figure, value, without, meaning"
    ),
    "schedule": TableView(
        "Draft length by load",
        "from_batch=From batch, to_batch=To, drafted, tpot_s=TPOT there, speed_up, "
        "speed_up_to=At the end",
    ),
    "schemes": TableView(
        "Ways to give caches room; slots of the answers to a prompt, mean",
        "title=Reserved, mean_slots=Slots, token_share=Tokens, waiting_share=To come, "
        "unused_share=Unused, sequences=Fit at longest, sequences_on_average=On average, "
        "decode_tok_s, decode_tok_s_low | slots=Slots at longest",
        writers={"mean_slots": lambda row: Cell(f"{row['mean_slots']:,.0f}")},
    ),
    "cache_curve": TableView(
        "What a larger cache buys",
        "room, tokens, room_bytes=Memory, prefix_hits=Hits, ttft_s, p50, p99, session_s=Session, "
        "preemptions",
        writers={
            "tokens": lambda row: Cell("" if row["tokens"] is None else f"{row['tokens']:,}"),
            "prefix_hits": lambda row: Cell(percent(row["prefix_hits"])),
        },
    ),
    "sessions": TableView(
        "Sessions, and their longest path through branches",
        "part, mean, p50, p90=P90, p99, share, meaning",
        writers={"share": lambda row: Cell(percent(row["share"]))},
    ),
    "server": TableView(
        "The server", FIGURES, where=lambda row: row["value"] or row["metric"] not in SILENT
    ),
    "static": TableView(
        "Speed and price of a static batch",
        "variant, ttft_s, ttft_s_low, tpot_s, tpot_s_low, throughput_tok_s, "
        "throughput_tok_s_low, usd_per_mtok, usd_per_mtok_low",
        of="variants",
    ),
    "steady": TableView(
        "Speed and price, batch kept full",
        "variant, ttft_idle_s, ttft_idle_s_low, tpot_steady_s, tpot_steady_s_low, steady_tok_s, "
        "steady_tok_s_low, steady_usd_per_mtok, steady_usd_per_mtok_low",
        of="variants",
    ),
    "summary": TableView(
        "Summary", "metric, n, median=Median error, inside=Inside the interval | with interval"
    ),
    "throughput": TableView("Throughput and price", FIGURES),
    "what_ifs": TableView(
        "What if",
        "change=Change, gpus, gpu, shape=Deployment, usd_per_hour=Price, usd_per_mtok, more=Beside "
        "it, tpot_s, probability, known=Known by | weights, ttft_s",
        writers={"more": lambda row: Cell("" if row["more"] is None else f"{row['more']:+.0%}")},
    ),
    "visits": TableView(
        "Where a micro-batch goes in a decode step",
        "visit, layout, gpus, visit_s=Time, busy, weight_bytes, kv_bytes, free_bytes | gpu",
        writers={"busy": lambda row: Cell(percent(row["busy"]))},
    ),
    "training": TableView(
        "What making them takes", "variant, method=How, formula=Arithmetic, tokens, flops"
    ),
    "replica_kinds": TableView(
        "Replicas of each kind, and what they served",
        "gpu, layout, replicas=Number, requests, request_share=Share, throughput_tok_s=Output, "
        "ttft_p50_s=TTFT p50, ttft_p99_s=TTFT p99, tpot_p50_s=TPOT p50, tpot_p99_s=TPOT p99, "
        "usd_per_mtok=Per Mtok",
        writers={"request_share": lambda row: Cell(percent(row["request_share"]))},
    ),
    "tiers": TableView(
        "Tiers of the cache; a whole prompt loaded or computed again",
        "tier, room_tokens=Room, hit_tokens=Found, hits, load_s=To load, compute_s=To compute, "
        "gain=Times faster",
        writers={"hits": lambda row: Cell(percent(row["hits"]))},
    ),
    "transfer": TableView("KV cache from prefill to decode", "what, value, meaning"),
    "validated": TableView("Absolute errors by group", "*", writers=percents("datasheet")),
    "variants": TableView(
        "Memory, each device",
        "variant, parameters, weight_bytes, kv_bytes_per_token, kv_bytes, memory_bytes, fits, "
        "largest_batch | active_parameters, gpu, gpus, batch",
    ),
}


def shown(result: Result, name: str, title: str = "") -> PageTable | None:
    """A table of a result under its title; None where it has none, or no rows."""
    how = SHOWN.get(name) or TableView(clean(heading(name)))
    found = result.tables.get(how.of or name)
    if found is None or not len(found):
        return None
    columns = f"{how.columns},"
    for stem in ("ttft", "tpot"):  # a plan is about a statistic of each
        if statistic := result.metadata.get(f"{stem}_statistic"):
            head = heading(str(statistic)).replace(",", "")
            columns = columns.replace(f" {stem}_s,", f" {stem}_s={head},")
    return grid(
        f"{name.replace('_', '-')}-table",
        title or how.title,
        found,
        columns.removesuffix(","),
        few=how.few,
        where=how.where,
        writers=how.writers,
    )


def latencies(result: Result) -> PageTable | None:
    """Latencies by percentile; none of them is of the load where it is not carried."""
    grows = " (overloaded: grows with the length of the run)"
    title = SHOWN["latencies"].title + grows * (result.metadata.get("stable") is False)
    return shown(result, "latencies", title)


def errors(result: Result) -> PageTable | None:
    """Median errors of learnt constants, and what was left out at a time."""
    apart = f"Median errors; left out: one {result.metadata['left out']} at a time"
    return shown(result, "errors", apart)


def headline(result: Result, name: str = "headline") -> PageTable | None:
    """Figures of the headline or of the static batch, with what is known of each."""
    found = result.tables.get(name)
    if found is None or not len(found) or "value" not in found.columns:
        return None
    predicted, both = calibrated(result), "serial" in found.columns
    title = "What caches take" if result.kind == "paging" else "What users feel"
    value = "Perfect overlap" if both else "Value"
    if predicted:
        title, value = f"{title}, as predicted", "Predicted"
    elif both:
        title += ": the two bounds of the roofline at the same rates"
    if name == "static_batch":
        title = "Static batch: all prompts arrive at once"
    return grid(
        name.replace("_", "-"),
        title,
        found,
        f"metric=Figure, value={value}, without, low, serial=No overlap, meaning, basis | "
        "roof=At datasheet rates",
    )


def deployments(result: Result) -> PageTable | None:
    """The recommended deployment above its runners-up; None where nothing fits."""
    if not {"verdict", "runners_up"} <= result.tables.keys():
        return None
    best = [{**row, "why": "recommended"} for row in result.tables["verdict"].rows()]
    others = list(result.tables["runners_up"].rows())
    names = list((others or best)[0]) if best else []
    rows = [{name: row.get(name) for name in ("why", *names)} for row in best + others]
    units = {name: column.unit for name, column in result.tables["verdict"].columns.items()}
    both = Result(result.kind, {"deployments": table(rows, units)}, metadata=result.metadata)
    return shown(both, "deployments")


def speed(result: Result) -> PageTable | None:
    """Speed and price of variants, as they are ranked."""
    return shown(result, "steady" if result.metadata.get("rank") == "steady" else "static")


def layouts(result: Result) -> PageTable:
    """Layouts, the best first, those that do not fit last."""
    given, every = result.metadata, result.tables["layouts"]
    first = "ttft_idle_s, tpot_steady_s" if "tpot_steady_s" in every.columns else "ttft_s, tpot_s"
    return grid(
        "layouts-table",
        f"{len(every):,} layouts, of which {given.get('fitting', 0):,} fit; × is replicas",
        every,
        f"layout, replicas=×, memory_bytes, {first}, latency_s, latency_s_low, "
        "wire_share=Interconnect, largest_batch, filled_tok_s_per_gpu=Throughput per GPU when full "
        "| fits, *",
        most=len(every),
    )


def factors(result: Result) -> PageTable | None:
    """Factors of variants on the figures of their base, better and worse marked."""
    found = result.tables.get("factors")
    if found is None or not len(found) or "variant" not in found.columns:
        return None
    names = [name for name in found.columns if any(is_number(value) for value in found[name])]
    return grid(
        "factors-table",
        "Factors on the figures of the base",
        found,
        writers={name: _factor(name) for name in names},
    )


def what_if(result: Result) -> PageTable | None:
    """Changes by what they do for throughput, those that do not fit last; None without any."""
    found = result.tables.get("what_if")
    if found is None or not len(found):
        return None
    ordered = sorted(found.rows(), key=lambda row: (not row["fits"], -row["throughput"]))
    tones = {name: _factor(name) for name in ("ttft", "tpot", "throughput")}
    return grid(
        "what-if-table",
        "One change at a time, as factors on the figures of this deployment",
        table(ordered, {}),
        "change, option=How to ask for it, ttft, tpot, throughput=Throughput per GPU, fits=Memory",
        writers={
            **tones,
            "option": lambda row: (
                Cell(row["option"], tone="code") if row["option"] else Cell("other hardware")
            ),
        },
    )


def _factor(name: str) -> Callable[[Mapping[str, Any]], Cell]:
    def written(row: Mapping[str, Any]) -> Cell:
        return factor(row[name], less_is_better=name not in MORE) if row[name] else Cell("")

    return written


def factor(value: float, less_is_better: bool) -> Cell:
    """A factor, marked better or worse by more than its colour.

    >>> factor(0.5, less_is_better=True).tone, factor(1.001, less_is_better=True).tone
    ('good', 'muted')
    """
    if abs(value - 1) < SAME:
        return Cell("same", tone="muted")
    better = (value < 1) == less_is_better
    return Cell(f"{'▼' if value < 1 else '▲'} × {value:.2f}", tone="good" if better else "bad")


def sensitivity(result: Result) -> PageTable | None:
    """Results of a plan with an input lower, and higher; None without any."""
    found = result.tables.get("sensitivity")
    measure = measured_by(found) if found is not None else ""
    if found is None or not measure:
        return None
    columns, writers = ["what=Input"], {}
    for end, said in (("low", "Lower"), ("high", "Higher")):
        columns.append(f"{end}={said}")
        for name in dict.fromkeys((measure, "gpus")):
            columns.append(f"{name}_{end}={heading(name)}")
            writers[f"{name}_{end}"] = partial(_end, name=f"{name}_{end}", of=name)
    columns.append("changes=Another deployment")
    return grid(
        "sensitivity",
        "Sensitivity: one input at a time",
        found,
        ", ".join(columns),
        writers={**writers, "changes": _changes},
    )


def measured_by(found: Table) -> str:
    """Measure of the sensitivities, the first that is known of all; empty if none is."""
    known = (n for n in MEASURES if len(found) and None not in found[f"{n}_base"])
    return next(known, "")


def _end(row: Mapping[str, Any], *, name: str, of: str) -> Cell:
    return Cell("nothing fits") if row[name] is None else cell(of, row[name])


def _changes(row: Mapping[str, Any]) -> Cell:
    """Deployments that are then the best, with the device where it is another."""
    said = []
    for end in ("low", "high"):
        shape, gpu = str(row[f"shape_{end}"] or ""), row.get(f"gpu_{end}")
        if row[f"changes_{end}"] and shape:
            on = f" on {gpu}" if gpu and " on " not in shape else ""
            said.append(f"{row[end]}: {shape}{on}")
    return Cell("; ".join(said))
