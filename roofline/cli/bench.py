"""``roofline bench``: the probes one by one, what they measured, and a fit of that."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from roofline.cli import options
from roofline.cli.calibrate import (
    BackendName,
    BackendOf,
    Budget,
    GpuOf,
    RecordsOf,
    Threads,
    duration,
    fitted,
    notes_of,
    progress,
    report,
    resolved,
    with_threads,
)
from roofline.cli.render import OutputFormat, print_columns, print_json, print_rows, said
from roofline.table import table
from roofline.units import show
from roofline.view.terminal import wrap

app = typer.Typer(
    help="List the probes, run some of them, or fit what was measured.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(name="list")
def list_(format_: options.FormatOf = OutputFormat.TABLE) -> None:
    """List the probes."""
    from roofline.bench.probe import points, probes

    found = [
        {
            "probe": entry.probe.name,
            "version": entry.probe.version,
            "kind": entry.probe.kind,
            "axes": ", ".join(entry.probe.axes),
            "states": ", ".join(entry.probe.states),
            "points": len(list(points(entry.probe))),
            "backends": ", ".join(entry.probe.backends),
        }
        for entry in probes()
    ]
    if format_ is OutputFormat.JSON:
        print_json("bench list", {"probes": found})
        return
    print_columns(table(found, {}), format_)


@app.command()
def run(
    names: Annotated[
        list[str] | None, typer.Argument(help="Probes by name or file; all if none is named.")
    ] = None,
    budget: Budget = "30s",
    backend: BackendOf = BackendName.AUTO,
    gpu: GpuOf = "",
    threads: Threads = 1,
    records: RecordsOf = None,
    format_: options.FormatOf = OutputFormat.TABLE,
) -> None:
    """Run probes and print what they measured."""
    seconds = duration(budget)
    with_threads(threads)
    from roofline.bench import campaign
    from roofline.bench.probe import RETIRED, find, probes

    retired = sorted(RETIRED.intersection(names or ()))
    if retired:
        said(wrap(f"{', '.join(retired)}: no probes any more, as they priced nothing", "  "))
    chosen = [find(name) for name in names if name not in RETIRED] if names else probes()
    with campaign.place(resolved(backend), gpu) as where:
        folder = records or campaign.folder_for(where)
        done = campaign.measure(where, chosen, seconds, folder, progress())
    found: list[dict[str, Any]] = []
    for row in done.records.rows:
        middle = row.median
        moved = sum(value for name, value in row.work.items() if name != "flops")
        found.append(
            {
                "point": row.point,
                "seconds": middle.value,
                "low": middle.low,
                "high": middle.high,
                "samples": len(row.samples),
                "stopped": row.stopped,
                "dropped": dict(row.dropped),
                "clocks": dict(row.clocks),
                "flops_per_s": row.work["flops"] / middle.value,
                "bytes_per_s": moved / middle.value,
            }
        )
    if format_ is OutputFormat.JSON:
        print_json("bench run", {"records": str(folder), "points": found}, notes_of(done))
        return
    header = ["point", "median", "±", "samples", "stopped", "arithmetic", "traffic"]
    rows = [
        [
            row["point"],
            show(row["seconds"], "s"),
            f"{(row['high'] - row['low']) / (2 * row['seconds']):.1%}",
            str(row["samples"]),
            row["stopped"],
            show(row["flops_per_s"], "FLOP/s") if row["flops_per_s"] else "",
            show(row["bytes_per_s"], "B/s") if row["bytes_per_s"] else "",
        ]
        for row in found
    ]
    print_rows(rows, header, format_)
    for note in notes_of(done):
        said(wrap(note, "  "))
    said(f"measurements in {folder}")


@app.command()
def fit(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or that packed: .tgz.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write; else one in the folder for your own.")
    ] = None,
    format_: options.FormatOf = OutputFormat.TABLE,
) -> None:
    """Fit the model to the records of a run, without measuring again."""
    from roofline.bench.probe import probes
    from roofline.bench.records import read_records

    records = read_records(folder, {entry.probe.name: entry for entry in probes()})
    found, notes, path = fitted(records, out)
    report(found, [*records.notes, *notes], format_)
    said(f"wrote {path}")


class ExportKind(StrEnum):
    """Kinds of kernel that records are written as, as validate names them."""

    GEMM = "gemm"
    ATTENTION_DECODE = "attention-decode"
    MLA_PREFILL = "mla-prefill"
    MLA_DECODE = "mla-decode"
    MLA_BMM = "mla-bmm"
    ATTENTION_PREFILL = "attention-prefill"
    MOE = "moe"
    LINEAR_ATTENTION = "linear-attention"
    POINTWISE = "pointwise"
    COLLECTIVE = "collective"


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or that packed: .tgz.")],
    out: Annotated[Path, typer.Argument(help="CSV file to write.")],
    kind: Annotated[ExportKind, typer.Option(help="Kind of kernel.")] = ExportKind.GEMM,
    engine: Annotated[
        str, typer.Option(help="Engine whose shipped kernels they are held against.")
    ] = "",
) -> None:
    """Write what a run measured as rows for validate, which holds shipped calibrations to them."""
    from roofline.bench.exported import exported
    from roofline.bench.records import read_records
    from roofline.files import text_output

    rows = exported(read_records(folder), kind.value, engine)
    with text_output(out) as file:
        rows.to_csv(file, index=False)
    said(f"wrote {len(rows)} rows to {out}")
