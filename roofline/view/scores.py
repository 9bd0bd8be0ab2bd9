"""Tables that hold predictions against measurements, said once for page and terminal."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from roofline.table import Result, table
from roofline.units import counted
from roofline.view.block import PageTable
from roofline.view.grids import grid
from roofline.view.words import heading

GROUPS: Final = {
    "all": "All measured rows",
    "engine": "By engine",
    "gpu": "By GPU",
    "engine and gpu": "By engine and GPU",
    "network": "By network",
    "mode": "By load",
}
"""Captions by what figures are grouped by, in the order of the page."""
RATE: Final = "throughput_tok_s"
FEW: Final = 10
"""Reasons for rows that are not predicted, as many as a terminal names. [1]"""


def groups(result: Result, *names: str) -> Iterator[PageTable]:
    """Errors of measured rows by each of some groups; by all of them if none is named."""
    found = result.tables["groups"]
    for by in names or GROUPS:
        keys = "" if by == "all" else f"{', '.join(by.split(' and '))}, "
        made = grid(
            f"groups-{by.replace(' ', '-')}",
            f"{GROUPS[by]}: absolute errors",
            found,
            f"{keys}metric, figures, median_error, mean_error, p90_error, inside",
            most=1000,
            where=partial(_is_by, by),
        )
        if made.rows:
            yield made


def _is_by(name: str, row: Mapping[str, Any]) -> bool:
    return bool(row["by"] == name)


def quoted(row: Mapping[str, Any]) -> dict[str, Any]:
    """A published figure; a rate says of how many GPUs it is."""
    figure = heading(str(row["metric"]))
    if row["metric"] == RATE:
        figure = f"{figure} of {counted(int(row['per']), 'GPU')}"
        return {**row, "figure": figure, "result": row["title"]}
    return {**row, "figure": figure, "result": f"{row['title']}, {figure}"}


def published(result: Result) -> PageTable | None:
    """Published results beside their predictions; None where none is predicted."""
    every = result.tables["published_results"].rows()
    done = [quoted(row) for row in every if row["predicted"] is not None]
    if not done:
        return None
    return grid(
        "published-results",
        "Published results beside predictions",
        table(done, {}),
        "result, measured, predicted, low, error, inside=Held | figure, basis, fitted=In fit",
    )


def reasons(result: Result) -> Iterator[str]:
    """Why published results are outside their interval, and why others are not predicted."""
    rows = [quoted(row) for row in result.tables["published_results"].rows()]
    for key, said in (("reason", ""), ("why not", " not predicted:")):
        names: dict[str, list[str]] = {}
        for row in rows:
            if row[key]:
                names.setdefault(row[key], []).append(row["result"])
        for text, titles in names.items():
            yield f"{'; '.join(titles)}:{said} {text.removesuffix('.')}."
    yield from refusals(
        (row["rows"], "not predicted", row["why"]) for row in result.rows("refused")
    )


def refusals(refused: Iterable[tuple[int, str, str]]) -> Iterator[str]:
    """Numbers of rows without a prediction and why; of very many reasons the first ones."""
    every = list(refused)
    for rows, what, why in every[:FEW]:
        yield f"{rows:,} {what}: {why}"
    if more := every[FEW:]:
        left = sum(rows for rows, _, _ in more)
        yield f"{left:,} not predicted for {len(more)} more reasons, which JSON has."
