"""``roofline plan``: the cheapest deployments that keep an SLO under traffic."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from roofline import api
from roofline.api.parameters import Planning
from roofline.cli import options
from roofline.cli.page import write_page
from roofline.cli.render import Format, print_json
from roofline.units import counted


@options.takes(
    Planning,
    "model gpu gpus workload trace rate cv prompt output requests warmup slo headroom "
    "confidence seed node weights kv engine calibration disaggregated draft acceptance "
    "draft_length mla routing_skew expert_loads overlap cuda_graphs memory_utilization "
    "price training_tokens explain report format_",
)
def plan(
    context: typer.Context,
    explain: Annotated[
        str | None, typer.Option(help="Derive gpus, price, cost, capacity, headroom.")
    ] = None,
    report: options.Report = None,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Find the cheapest deployment that carries traffic and keeps an SLO.

    Exits with 1 if nothing fits, and says which relaxations would help.
    """
    import time

    from roofline.cli.answer import print_derivation
    from roofline.cli.inputs import asked
    from roofline.cli.planned import print_plan, to_json
    from roofline.study.plan.explain import check

    if explain is not None:
        check(explain)
    began = time.monotonic()
    result = api.plan(**asked(context, Planning), progress=_progress())
    meta = result.metadata
    typer.echo(
        f"{counted(meta['layouts'], 'layout')} bounded, {meta['curves']:,} curves, "
        f"{meta['tabulated']:,} tabulated, "
        f"{counted(meta['simulated'], 'run')} simulated in {time.monotonic() - began:.1f} s",
        err=True,
    )
    derivation = api.explain(result, explain) if explain else None
    write_page(context, result, report)
    if format_ is Format.JSON:
        print_json("plan", to_json(result, derivation), result.notes)
    elif derivation is not None:
        print_derivation(derivation)
    else:
        print_plan(result, format_)
    if not result.metadata["fits"]:
        raise typer.Exit(1)


def _progress() -> Callable[[str], None]:
    """Tell on stderr what is being done; on a terminal in one line."""
    from roofline.cli.render import WIDTH, clean

    terminal = sys.stderr.isatty()

    def tell(what: str) -> None:
        if terminal:
            sys.stderr.write(f"\r{clean(what)[: WIDTH - 1]:<{WIDTH - 1}}\r")
            sys.stderr.flush()

    typer.echo("planning (the first run on a machine compiles the simulator)", err=True)
    return tell
