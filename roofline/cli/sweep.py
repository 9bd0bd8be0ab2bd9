"""``roofline sweep``: price every configuration of a scenario and keep the best of them."""

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli import completing, options
from roofline.cli.progress import print_progress
from roofline.cli.render import OutputFormat
from roofline.cli.report import write_page
from roofline.errors import StoppedError
from roofline.units import counted
from roofline.view.terminal import clean

if TYPE_CHECKING:
    from roofline.study.store.folder import Progress

EPILOG = "scenarios/README.md says what a scenario file holds; roofline schema prints its schema."


class ExecutorName(StrEnum):
    """Runner of the chunks of a sweep."""

    LOCAL = "local"
    RAY = "ray"


def sweep(
    context: typer.Context,
    scenario: Annotated[
        str,
        typer.Argument(
            help="Scenario by name, or a YAML file; - for stdin.",
            autocompletion=completing.scenarios,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the result; an interrupted run in it is gone on with."),
    ] = None,
    keep: Annotated[
        str,
        typer.Option(
            metavar="all|feasible|pareto|top-K",
            help="Which configurations are kept; else as the scenario says.",
        ),
    ] = "",
    executor: Annotated[ExecutorName, typer.Option(help="What runs it.")] = ExecutorName.LOCAL,
    workers: Annotated[
        int | None, typer.Option(help="Chunks priced at once; else one on each core.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how large it is and how long it takes.")
    ] = False,
    top: Annotated[int, typer.Option(min=0, help="Rows to print; 0 for all.")] = 20,
    report: options.Report = None,
    format_: options.FormatOf = OutputFormat.TABLE,
) -> None:
    """Price every configuration of a scenario: models, GPUs, layouts, formats, batches, lengths.

    Exits with 1 if no configuration keeps to all constraints.
    """
    from roofline.api.sweeps import estimate
    from roofline.api.sweeps import sweep as swept
    from roofline.cli.inputs import scenario as scenario_read
    from roofline.cli.swept import print_estimate, print_sweep

    asked = scenario_read(scenario)
    if dry_run:
        print_estimate(estimate(asked, keep=keep, workers=workers), format_)
        return
    try:
        found = swept(
            asked,
            out=out,
            keep=keep,
            executor=executor.value,
            workers=workers,
            progress=_progress(),
        )
    except KeyboardInterrupt:
        hint = "run the same command again to go on" if out else "with --out it could go on"
        raise StoppedError("interrupted", hint=hint) from None
    if report is not None:
        write_page(context, found.shown(), report)
    print_sweep(found, format_, top)
    if found.path is not None:
        typer.echo(f"wrote {clean(str(found.path))}", err=True)
    if not found.feasible:
        raise typer.Exit(1)


def _progress() -> Callable[["Progress"], None]:
    """Tell on stderr how far it is and how long it will take."""
    from roofline.cli.swept import spell

    begun = time.monotonic()
    started: list[int] = []

    def tell(now: "Progress") -> None:
        if not started:
            started.append(now.done)
            if now.done:
                typer.echo(f"going on: {now.done:,} of {now.chunks:,} chunks are there", err=True)
            return
        passed, fresh = time.monotonic() - begun, now.done - started[0]
        left = passed / fresh * (now.chunks - now.done)
        when = f"{spell(left)} left" if now.done < now.chunks else f"took {spell(passed)}"
        text = (
            f"{counted(now.configurations, 'configuration')}, {now.done:,} of "
            f"{counted(now.chunks, 'chunk')}, {counted(now.rows, 'row')} kept, {when}"
        )
        tenth = now.done * 10 // now.chunks > (now.done - 1) * 10 // now.chunks
        print_progress(text, last=now.done == now.chunks, logged=tenth)

    return tell
