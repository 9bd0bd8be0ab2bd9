"""``roofline plan``: the cheapest deployments that keep an SLO under traffic."""

from functools import partial
from typing import Any

import typer

from roofline import api
from roofline.api.parameters import Planning
from roofline.cli import options
from roofline.cli.progress import print_progress
from roofline.cli.render import print_answer
from roofline.cli.report import write_page
from roofline.table import Derivation, Result
from roofline.units import counted


@options.takes(Planning, derives="gpus, price, cost, capacity, headroom")
def plan(context: typer.Context) -> None:
    """Find the cheapest deployment that carries traffic and keeps an SLO.

    Exits with 1 if nothing fits, and says which relaxations would help.
    """
    import time

    from roofline.cli.inputs import asked
    from roofline.study.plan.explain import check

    explain = context.params["explain"]
    if explain is not None:
        check(explain)
    began = time.monotonic()
    result = api.plan(**asked(context, Planning), progress=print_progress)
    meta = result.metadata
    print_progress(
        f"{counted(meta['layouts'], 'layout')} bounded, {meta['curves']:,} curves, "
        f"{meta['tabulated']:,} tabulated, "
        f"{counted(meta['simulated'], 'run')} simulated in {time.monotonic() - began:.1f} s",
        last=True,
        logged=True,
    )
    derivation = api.explain(result, explain) if explain else None
    write_page(context, result, context.params["report"])
    columns = "verdict" if meta["fits"] else "relaxations"
    values = partial(_values, result, derivation)
    print_answer("plan", result, context.params["format_"], values, columns, "", derivation)
    if not meta["fits"]:
        raise typer.Exit(1)


def _values(result: Result, derivation: Derivation | None) -> dict[str, Any]:
    """Values of the JSON: inputs, every table with units and basis, derivations."""
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
