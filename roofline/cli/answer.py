"""Commands that ask one question and print the answer, as text or as plain values."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from roofline import api
from roofline.api.parameters import (
    Analysis,
    Comparison,
    DraftComparison,
    LayoutComparison,
    Paging,
    PoolComparison,
)
from roofline.api.question import Question
from roofline.cli import options
from roofline.cli.render import plain_values, print_answer
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


@options.takes(
    Analysis, derives="ttft, tpot, latency, throughput, memory, weights, kv, cost, energy, ridge"
)
def analyze(context: typer.Context) -> None:
    """Say what a static batch costs: memory, TTFT, TPOT, throughput, price, and what binds it."""
    answered(context, Analysis, page=_with_others)


def _with_others(result: Result) -> Result:
    """The result with configurations around it, which only the page has."""
    from roofline.api.exploring import around

    return around(result)


@options.takes(Comparison)
def compare(context: typer.Context) -> None:
    """Price variants beside a base and say what each change moved and why, not how well it answers.

    Exits with 1 if neither the base nor any variant fits.
    """
    answered(context, Comparison, "variants", values=_compared)


def _compared(result: Result) -> dict[str, Any]:
    """Base and variants with factors and sentence in each; training where it was asked for."""
    factors = dict(enumerate(result.tables["factors"].rows(), 1))
    why = result.tables["why"]["why"]
    variants: list[dict[str, Any]] = list(result.tables["variants"].rows())
    for number, row in factors.items():
        row.pop("variant")
        variants[number] |= {"factors": row, "why": why[number - 1]}
    base, *others = variants
    out: dict[str, Any] = {**result.metadata, "base": base, "variants": others}
    if "training" in result.tables:
        out["training"] = list(result.tables["training"].rows())
    return out


@options.takes(LayoutComparison)
def layouts(
    context: typer.Context,
    top: Annotated[int, typer.Option(min=0, help="Layouts to print; 0 for all.")] = 20,
) -> None:
    """Price every layout of a network on a number of GPUs, and say which is best for what."""
    answered(
        context,
        LayoutComparison,
        "layouts",
        values=plain_values,
        few=lambda result: {"layouts-table": min(top, result.metadata["fitting"] or top)},
    )


@options.takes(
    PoolComparison,
    derives="ttft, prefill, tpot, latency, kv, transfer, ratio, throughput, memory, cost, energy",
)
def disaggregate(context: typer.Context) -> None:
    """Price prefill and decode pools: how many of each, TTFT, TPOT, transfer, price.

    Exits with 1 if a pool does not fit.
    """
    answered(context, PoolComparison)


@options.takes(
    DraftComparison, derives="tokens, draft, verify, tpot, speed_up, bound, ttft, latency, memory"
)
def speculate(context: typer.Context) -> None:
    """Price speculative decoding: tokens a round, draft and verification, TPOT with and without.

    Exits with 1 if it does not fit.
    """
    answered(context, DraftComparison)


@options.takes(Paging, derives="reserved, power-of-two, exact, paged, shared, kv")
def paging(context: typer.Context) -> None:
    """Compare ways to give caches room: what of it holds tokens, how many sequences fit.

    Exits with 1 if not even one prompt fits.
    """
    answered(context, Paging, "schemes")
