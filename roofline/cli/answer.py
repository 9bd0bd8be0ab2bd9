"""The answer of an analysis as text and as plain values."""

from collections.abc import Callable
from functools import partial
from typing import Any

import typer

from roofline import api
from roofline.api.question import Question
from roofline.cli.render import print_answer
from roofline.table import Derivation, Result


def to_json(result: Result, derivation: Derivation | None) -> dict[str, Any]:
    """Answer as plain values: what was asked, metrics by name, tables as lists of rows."""
    metrics = {
        row["metric"]: {key: value for key, value in row.items() if key != "metric"}
        for row in result.tables["headline"].rows()
    }
    out: dict[str, Any] = {**result.metadata, "metrics": metrics}
    for name, entry in result.tables.items():
        if name == "static_batch":
            rows = [dict(row) for row in entry.rows()]
            out[name] = {row.pop("metric"): row for row in rows}
        elif name != "headline":
            out[name] = list(entry.rows())
    if derivation is not None:
        out["derivation"] = derivation.to_json()
    return out


def answered(
    context: typer.Context,
    record: type[Question],
    columns: str = "headline",
    *,
    page: Callable[[Result], Result] = lambda result: result,
    values: Callable[[Result], dict[str, Any]] | None = None,
    few: Callable[[Result], dict[str, int]] = lambda result: {},
) -> None:
    """Ask the question of a command and print the answer, or the derivation that is wanted.

    Exits with 1 if nothing fits.

    Args:
        context, record: Options as they were given, and the question that they are of.
        columns: Table that CSV has.
        page: Adds what only the HTML page has.
        values: Answer as plain values; None for `to_json`.
        few: Rows that tables of the terminal have at most, by their keys. [1]
    """
    from roofline.cli.inputs import asked

    command, given = str(context.command.name), context.params
    result = getattr(api, command)(**asked(context, record))
    wanted = given.get("explain")
    derivation = api.explain(result, wanted) if wanted else None
    if given["report"] is not None:
        from roofline.cli.report import write_page

        write_page(context, page(result), given["report"])
    plain = partial(values, result) if values else partial(to_json, result, derivation)
    print_answer(
        command, result, given["format_"], plain, columns, derivation=derivation, few=few(result)
    )
    if not result.metadata["fits"]:
        raise typer.Exit(1)
