"""``roofline scoreboard``: predictions beside measured rows and well-known published results."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from roofline.cli import options
from roofline.cli.page import write_page
from roofline.cli.render import (
    Format,
    clean,
    echo,
    print_json,
    print_notes,
    print_rows,
    print_sentences,
    say,
    wrap,
)
from roofline.table import Result
from roofline.units import show

METRICS: Final = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "latency_s": "latency",
    "throughput_tok_s": "throughput",
}
SHOWN: Final = 10
"""Reasons for rows that are not predicted, as many as a table names; JSON has them all."""
MANY: Final = 100
"""Rows from which on a note says that they are being predicted."""
QUANTITIES: Final = ("measured", "predicted", "low", "high")


def scoreboard(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="Measured rows of serving, as validate --kind e2e reads them."),
    ] = None,
    where: Annotated[str, typer.Option(help="Rows to take: gpu=h100_sxm,engine=vllm|sglang.")] = "",
    quality: Annotated[
        str, typer.Option(help="Rows of this quality, where the file says it; all for every row.")
    ] = "ok",
    cross_validate: Annotated[
        bool,
        typer.Option(
            "--cross-validate", help="Predict each row by constants of other GPUs and networks."
        ),
    ] = False,
    date: Annotated[
        str, typer.Option(metavar="YYYY-MM-DD", help="Date of the scoreboard; else today.")
    ] = "",
    report: options.Report = None,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Score predictions against measured rows, and against published results with their sources.

    Without FILE it shows the published results alone.
    """
    from roofline.api import scores

    result = scores.scoreboard(
        file,
        where=where,
        quality=quality,
        cross_validate=cross_validate,
        date=date,
        progress=_say_rows,
    )
    write_page(context, result, report)
    _print(result, format_)


def _say_rows(rows: int) -> None:
    if rows >= MANY:
        say(f"predicting {rows:,} rows, some fifty a second")


def _print(result: Result, style: Format) -> None:
    if style is Format.JSON:
        tables = {name: list(entry.rows()) for name, entry in result.tables.items()}
        print_json("scoreboard", {**result.metadata, **tables}, result.notes)
        return
    if style is Format.CSV:
        _print_csv(result)
        return
    meta = result.metadata
    if style is Format.TABLE:
        echo(wrap(f"Scoreboard of {meta['date']}, roofline {meta['version']}"))
        if "file" in meta:
            echo(wrap(f"rows of {meta['file']}, {meta['digest']}"))
        echo("")
        print_sentences(meta["summary"])
    _print_groups(result, style)
    _print_published(result, style)
    _print_refused(result, style)
    print_notes(result.notes, style)


def _print_csv(result: Result) -> None:
    """Figures of rows and of published results, one a line, in base units."""
    names = (
        "set", "name", "engine", "gpu", "gpus", "network", "metric", "unit", "per", *QUANTITIES,
        "error", "inside", "rule", "reason", "why not", "source",
    )  # fmt: skip
    rows = [
        {**entry, "set": "file", "name": entry["row"], "per": entry["gpus"]}
        for entry in result.tables["scores"].rows()
    ]
    rows += [
        {**entry, "set": "published", "network": entry["model"], "source": entry["url"]}
        for entry in result.tables["published_results"].rows()
    ]
    cells = [[_plain(entry.get(name)) for name in names] for entry in rows]
    print_rows(cells, list(names), Format.CSV)


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


def _print_groups(result: Result, style: Format) -> None:
    shown = ("engine and gpu", "all")
    entries = [entry for entry in result.tables["groups"].rows() if entry["by"] in shown]
    if not entries:
        return
    rows = [
        [
            entry["engine"] or "all",
            entry["gpu"],
            METRICS[entry["metric"]],
            f"{entry['figures']:,}",
            *(f"{100 * entry[f'{name}_error']:.1f}" for name in ("median", "mean", "p90")),
            f"{entry['inside']:.0%}",
        ]
        for entry in entries
    ]
    header = ["engine", "GPU", "", "figures", "median", "mean", "p90", "inside"]
    print_rows(rows, header, style, "Measured rows: absolute errors in percent")


def _print_published(result: Result, style: Format) -> None:
    entries = list(result.tables["published_results"].rows())
    done = [entry for entry in entries if entry["predicted"] is not None]
    rows = [
        [
            _titled(entry),
            _quantity(entry, "measured"),
            _quantity(entry, "predicted"),
            _interval(entry),
            f"{100 * entry['error']:+.0f} %".replace("-", "−"),
            {True: "yes", False: "no", None: ""}[entry["inside"]],
        ]
        for entry in done
    ]
    header = ["", "measured", "predicted", "80 %", "error", "inside"]
    print_rows(rows, header, style, "Published results, in tokens per second unless said")
    plain = style is Format.TABLE
    for text in _remarks(entries):
        echo(wrap(text) if plain else f"- {clean(text)}")
    if any(_remarks(entries)):
        echo("")


def _remarks(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Reasons of results outside their interval, then why others are not predicted; each once."""
    for key, said in (("reason", ""), ("why not", " not predicted")):
        names: dict[str, list[str]] = {}
        for entry in entries:
            if entry[key]:
                names.setdefault(entry[key], []).append(_titled(entry))
        for text, titles in names.items():
            yield f"{'; '.join(titles)}{said and ':'}{said}: {text.removesuffix('.')}."


def _titled(entry: Mapping[str, Any]) -> str:
    metric = METRICS[entry["metric"]]
    return entry["title"] if metric == "throughput" else f"{entry['title']}, {metric}"


def _quantity(entry: Mapping[str, Any], name: str) -> str:
    value = entry[name]
    return show(value, "s") if entry["unit"] == "s" else f"{value:,.0f}"


def _interval(entry: Mapping[str, Any]) -> str:
    low, high = _quantity(entry, "low"), _quantity(entry, "high")
    unit = low.partition(" ")[2]
    return f"{low.removesuffix(unit).strip() if high.endswith(unit) else low}–{high}"


def _print_refused(result: Result, style: Format) -> None:
    if style is not Format.TABLE:
        return
    entries = list(result.tables["refused"].rows())
    for entry in entries[:SHOWN]:
        echo(wrap(f"{entry['rows']:,} not predicted: {entry['why']}"))
    if more := entries[SHOWN:]:
        left = sum(entry["rows"] for entry in more)
        echo(wrap(f"{left:,} not predicted for {len(more)} more reasons: --format json."))
    if entries:
        echo("")
