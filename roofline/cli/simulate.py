"""``roofline simulate``: what users of a deployment feel when requests come as they do."""

import csv
import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from roofline import api, files
from roofline.api.parameters import Simulation
from roofline.cli import options
from roofline.cli.progress import print_progress
from roofline.cli.render import print_answer
from roofline.cli.report import write_page
from roofline.errors import InputError
from roofline.table import Result, Table
from roofline.units import counted
from roofline.view.terminal import clean

SUFFIXES: Final = (".parquet", ".csv")


@options.takes(Simulation)
def simulate(
    context: typer.Context,
    out: Annotated[
        Path | None, typer.Option(help="Write every request here: .parquet or .csv.")
    ] = None,
    timeline: Annotated[
        Path | None, typer.Option(help="Write a trace for Perfetto or chrome://tracing here.")
    ] = None,
) -> None:
    """Simulate traffic: TTFT, TPOT and latency by percentile, SLO, queue, cache, price.

    Exits with 1 if it is overloaded, or if an objective given with --slo is missed.
    """
    from roofline.cli.inputs import asked

    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"--out {str(out)!r:.60} is neither Parquet nor CSV",
            hint=f"end the name with {' or '.join(SUFFIXES)}",
        )
    for path in (out, timeline):
        if path is not None:
            files.check(path)
    result = api.simulate(
        **asked(context, Simulation),
        with_requests=out is not None or timeline is not None,
        progress=_progress,
    )
    if out is not None:
        _write_requests(result.tables["requests"], out)
        typer.echo(f"wrote {clean(str(out))}", err=True)
    if timeline is not None:
        _write_timeline(result.tables["requests"], timeline)
        typer.echo(f"wrote {clean(str(timeline))}", err=True)
    given = context.params
    write_page(context, result, given["report"])
    print_answer("simulate", result, given["format_"], partial(_values, result), "headline")
    broken = given["slo"] is not None and result.metadata["met"] is False
    if result.metadata["stable"] is False or broken:
        raise typer.Exit(1)


def _write_requests(table: Table, path: Path) -> None:
    """Write one row for each request; units are in the names of the columns."""
    if path.suffix.lower() == ".parquet":
        with files.output(path) as file:
            table.to_pandas().to_parquet(file, index=False)
        return
    with files.text_output(path) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.columns)
        for row in table.rows():
            writer.writerow(["" if value is None else value for value in row.values()])


def _write_timeline(table: Table, path: Path) -> None:
    """Write events as trace viewers read them."""
    from roofline.serving.run.timeline import events

    with files.text_output(path) as text:
        text.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
        for place, event in enumerate(events(table)):
            text.write(("" if not place else ",\n") + json.dumps(event, allow_nan=False))
        text.write("\n]}\n")


def _values(result: Result) -> dict[str, Any]:
    """Answer as plain values; of every request only where it is written to a file."""
    out: dict[str, Any] = dict(result.metadata)
    for name in ("headline", "throughput", "server", "facility"):
        if name not in result.tables:
            continue
        rows = [dict(row) for row in result.tables[name].rows()]
        out["metrics" if name == "headline" else name] = {row.pop("metric"): row for row in rows}
    for name in (
        *("objectives", "places", "sessions", "replica_kinds", "cache", "tiers"),
        *("cache_curve", "workload"),
    ):
        if name in result.tables:
            out[name] = list(result.tables[name].rows())
    return out


def _progress(done: int, whole: int) -> None:
    """Tell on stderr how far a run is."""
    if done < whole:
        print_progress(f"{done:,} of {whole:,} requests")
    else:
        print_progress(f"{counted(done, 'request')} served", last=True, logged=True)
