"""``roofline speculate``: what drafting tokens and verifying them together gains, and where not."""

import typer

from roofline.api.parameters import Drafting
from roofline.cli import options
from roofline.cli.answer import LABELS, answered, print_memory
from roofline.cli.render import Format, print_heading, print_notes, print_rows
from roofline.table import Result, Table
from roofline.units import count, show, significant


@options.takes(
    Drafting,
    "model draft acceptance length tree tokens draft_weights draft_tp gpu node gpus "
    "layout batch prefill_batch prompt prefix_hit output weights kv engine calibration "
    "mla routing_skew expert_loads overlap cuda_graphs memory_utilization price explain "
    "report format_",
    derives="tokens, draft, verify, tpot, speed_up, ttft, latency, memory",
)
def speculate(context: typer.Context) -> None:
    """Price speculative decoding: tokens a round, draft and verification, TPOT with and without.

    Exits with 1 if it does not fit.
    """
    answered(context, Drafting, _print)


def _print(result: Result, style: Format) -> None:
    meta, tables = result.metadata, result.tables
    where = f"{meta['model']} on {meta['gpus']} × {meta['gpu_title']}"
    drafts = "draft" if meta["draft_kind"] in ("medusa", "ngram") else "drafts"
    asked = (
        f"{where}, {meta['draft']} {drafts} {meta['tree']}",
        f"{meta['weights']} weights, {meta['kv']} KV cache, batch {meta['batch']}, "
        f"{meta['prompt']} → {meta['output']} tokens, {meta['convention']} convention",
    )
    print_heading(asked, meta["summary"], style)
    _print_headline(tables["headline"], style)
    _print_drafts(tables["drafts"], style)
    _print_batches(tables["batches"], style)
    print_memory(tables["memory"], style)
    _print_published(tables["published"], style)
    print_notes(result.notes, style)


ENDS = ("serial", "low", "high")


def _print_headline(headline: Table, style: Format) -> None:
    rows = [
        [
            LABELS[row["metric"]],
            _quantity(row["value"], row["unit"]),
            _quantity(row["without"], row["unit"]),
            *(_quantity(row[name], row["unit"]) for name in ENDS if name in row),
            row["basis"],
            row["meaning"],
        ]
        for row in headline.rows()
    ]
    times = ["80 % from", "to"] if "low" in headline.columns else ["no overlap"]
    header = ["", "with", "without", *times, "basis", "what it is"]
    print_rows(rows, header, style, "What users feel")


def _quantity(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "$":
        return f"{value:,.3f} $"
    if unit == "token/s":
        return f"{value:,.0f} tok/s" if value >= 100 else f"{value:.3g} tok/s"
    if not unit:
        return f"× {value:.2f}"
    return significant(value) if unit == "token" else show(value, unit)


def _print_drafts(drafts: Table, style: Format) -> None:
    marks = {(True, True): "asked, best", (True, False): "asked", (False, True): "best"}
    rows = [
        [
            str(row["drafted"]),
            str(row["depth"]) if any(r["depth"] != r["drafted"] for r in drafts.rows()) else "",
            significant(row["expected_tokens"]),
            show(row["draft_s"], "s") if row["draft_s"] else "—",
            show(row["verify_s"], "s"),
            show(row["tpot_s"], "s"),
            f"× {row['speed_up']:.2f}",
            marks.get((row["asked"], row["best"]), ""),
        ]
        for row in drafts.rows()
    ]
    header = ["drafted", "deep", "tokens", "draft", "verification", "TPOT", "speed-up", ""]
    kept = [place for place in range(len(header)) if any(row[place] for row in rows)]
    shown = [[row[place] for place in kept] for row in rows]
    print_rows(shown, [header[place] for place in kept], style, "What else could be drafted")


def _print_batches(batches: Table, style: Format) -> None:
    rows = [
        [
            count(row["batch"]),
            show(row["tpot_without_s"], "s"),
            show(row["tpot_s"], "s"),
            f"× {row['speed_up']:.2f}",
            count(row["decode_tok_s"]),
            str(row["best_drafted"]),
            f"× {row['best_speed_up']:.2f}",
            "yes" if row["fits"] else "no",
        ]
        for row in batches.rows()
    ]
    header = ["batch", "TPOT without", "with", "speed-up", "tok/s", "best draft", "its", "fits"]
    print_rows(rows, header, style, "Other batches")


def _print_published(published: Table, style: Format) -> None:
    rows = [
        [row["target"], row["draft"], row["text"], row["acceptance"], row["source"]]
        for row in published.rows()
    ]
    header = ["target", "draft", "text", "by position", "source"]
    print_rows(rows, header, style, "Acceptance that was measured elsewhere", whole=1)
