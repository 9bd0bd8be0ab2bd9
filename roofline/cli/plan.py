"""``roofline plan``: the cheapest deployments that keep an SLO under traffic."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from roofline import api
from roofline.api.parameters import Planning
from roofline.cli import options
from roofline.cli.render import Format, print_answer
from roofline.cli.report import write_page
from roofline.table import Derivation, Result
from roofline.units import counted


@options.takes(
    Planning,
    "model gpu gpus workload trace rate rate_curve cv prompt output requests warmup slo headroom "
    "confidence seed temperature top_k top_p "
    "adapters lora_rank lora_targets max_loras adapter_skew "
    "node weights kv engine calibration profile disaggregated "
    "draft acceptance draft_length mla routing_skew expert_loads overlap cuda_graphs "
    "memory_utilization price reserved_price scaling training_tokens explain report format_",
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

    from roofline.cli.inputs import asked
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
    columns = "verdict" if meta["fits"] else "relaxations"
    values = partial(_values, result, derivation)
    print_answer("plan", result, format_, values, columns, "", derivation)
    if not meta["fits"]:
        raise typer.Exit(1)


def _values(result: Result, derivation: Derivation | None) -> dict[str, Any]:
    """Everything: how it was asked, every table as rows with units and basis, derivations."""
    return {
        **result.metadata,
        "tables": {
            name: {
                "units": {key: column.unit for key, column in entry.columns.items() if column.unit},
                "basis": {
                    key: column.basis for key, column in entry.columns.items() if column.basis
                },
                "columns": list(entry.columns),
                "rows": list(entry.rows()),
            }
            for name, entry in result.tables.items()
        },
        "derivations": {name: tree.to_json() for name, tree in result.derivations.items()},
        **({} if derivation is None else {"derivation": derivation.to_json()}),
    }


def _progress() -> Callable[[str], None]:
    """Tell on stderr what is being done; on a terminal in one line."""
    from roofline.view.terminal import clean, page_width

    terminal, room = sys.stderr.isatty(), page_width() - 1

    def tell(what: str) -> None:
        if terminal:
            sys.stderr.write(f"\r{clean(what)[:room]:<{room}}\r")
            sys.stderr.flush()

    typer.echo("planning (the first run on a machine compiles the simulator)", err=True)
    return tell
