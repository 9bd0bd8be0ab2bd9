"""Results in a notebook: what they say and their tables as HTML, the report's figures in plotly."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from roofline.content import shipped
from roofline.errors import InputError, MissingEnvironmentError, RooflineError, UnknownNameError
from roofline.report import sections
from roofline.report.page import environment, render
from roofline.table import Derivation, Result, Table
from roofline.units import counted
from roofline.view.block import Cell, Figure, Head, Key, PageTable, TableRows, number_cell
from roofline.view.questions import view_of
from roofline.view.text import is_number, label, percent
from roofline.view.words import derivation_lines, written

if TYPE_CHECKING:
    import plotly.graph_objects

MOVED: Final[Mapping[str, int]] = {"batch": 10, "prompt": 17, "output": 14}
"""Arguments with a slider, and the largest power of two on it."""
MOST_ROWS: Final = 20
"""Rows of a table that are shown: a notebook keeps what it shows."""
OF_ROW: Final = ("value", "serial", "low", "high", "roof", "without", "rate")
"""Columns whose unit stands in the row."""
HEAD: Final = 100
"""Room for title and legend. [px]"""
TITLE: Final = 40
"""Room for the title alone. [px]"""
MARKERS: Final[Mapping[str, str]] = {
    "square": "square",
    "hatched": "square-cross-open",
    "crossed": "square-x-open",
    "dotted": "square-open-dot",
    "open": "square-open",
    "band": "square",
    "stem": "line-ns-open",
    "whisker": "line-ew-open",
    "line": "line-ew-open",
    "dash": "line-ew-open",
    "dot": "line-ew-open",
}
"""Markers of plotly for shapes of a legend; other shapes have the name of theirs."""
_THEME: Final = re.compile(r"theme:([a-z]+)(?:/([\d.]+))?")
_NAMED: Final = re.compile(r"--([a-z]+): (#[0-9a-f]{6});")
_AXIS: Final = re.compile(r"[xy]axis\d*")


def html(shown: Result | Table | Derivation) -> str:
    """Fragment of HTML: no script, no style sheet, and every text of the result escaped.

    Args:
        shown: A result, with what it says above and its tables folded up after the first; a table,
            or a derivation as the tree that it is.
    """
    template = environment().get_template("notebook.html")
    if isinstance(shown, Table):
        return template.render(table=shown_table("", shown), result=None, tree=())
    if isinstance(shown, Derivation):
        return template.render(table=None, result=None, tree=tuple(derivation_lines(shown)))
    return template.render(
        table=None,
        result=shown,
        tree=(),
        page=view_of(shown),
        tables=[shown_table(name, entry) for name, entry in shown.tables.items() if len(entry)],
        figures=list(_figures(shown)),
    )


def plot(result: Result, name: str = "") -> "plotly.graph_objects.Figure":
    """A figure of the report in plotly and in its light colours; see `Result.plot`."""
    drawn = _figures(result)
    if not drawn:
        raise InputError(
            f"no figure is drawn of a result of {result.kind}",
            hint=f"its tables can be drawn by pandas: .to_pandas() has {', '.join(result.tables)}",
        )
    if name and name not in drawn:
        raise UnknownNameError(f"no figure {name!r:.80}", hint=f"figures: {', '.join(drawn)}")
    return _interactive(drawn[name] if name else next(iter(drawn.values())))


class Inline(Struct, frozen=True):
    """A report in a frame of its own, which reaches neither the notebook nor the network."""

    text: str
    """HTML of the report."""
    height: int
    """Height of the frame. [px]"""

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{escape(self.text)}" '
            f'style="width: 100%; height: {self.height:d}px; border: 0"></iframe>'
        )


def page(result: Result, height: int) -> Inline:
    """Report of a result, to be shown inline; see `Result.page`."""
    if not isinstance(height, int) or height < 1:
        raise InputError(
            f"height is {height!r:.80}, and the frame of a page has some pixels",
            hint="give a whole number: height=800",
        )
    return Inline(render(result), height)


def sliders(question: Callable[..., Result], **given: Any) -> Any:
    """Sliders for batch, prompt and output above the answer, which is asked again when they move.

    Args:
        question: A question that takes a batch and lengths, like ``roofline.analyze``.
        given: Its other arguments, and where the sliders stand at first.

    Returns:
        A widget of ipywidgets, for a notebook to show.

    Raises:
        MissingEnvironmentError: ipywidgets is not installed.
    """
    try:
        widgets = import_module("ipywidgets")
    except ImportError:
        raise MissingEnvironmentError(
            "ipywidgets is not installed, and sliders are made of it",
            hint="install it: pip install ipywidgets",
        ) from None
    first = question(**given)
    shown = widgets.HTML(value=html(first))
    moved = []
    for name, most in MOVED.items():
        at = int(given.get(name, first.metadata[name]))
        places = sorted({at, *(2**power for power in range(most + 1))})
        slider = widgets.SelectionSlider(
            options=places, value=at, description=name, continuous_update=False
        )
        moved.append(slider)

    def ask(_: object) -> None:
        at = {name: slider.value for name, slider in zip(MOVED, moved, strict=True)}
        try:
            shown.value = html(question(**{**given, **at}))
        except RooflineError as error:
            shown.value = f"<p>{escape(error.message)}: {escape(error.hint)}</p>"

    for slider in moved:
        slider.observe(ask, names="value")
    return widgets.VBox([widgets.HBox(moved), shown])


def shown_table(name: str, table: Table) -> PageTable:
    """Table as text, in the words of its units; a column of units is told with the numbers."""
    columns = dict(table.columns)
    if set(OF_ROW) & set(columns):
        columns.pop("unit", None)
    rows = list(table.rows())
    heads = (Head(key, any(is_number(row[key]) for row in rows[:MOST_ROWS])) for key in columns)
    write = [partial(_cell, key=key, unit=column.unit) for key, column in columns.items()]
    return PageTable(
        name, counted(len(rows), "row"), tuple(heads), TableRows(rows, write), MOST_ROWS
    )


def _cell(row: Mapping[str, Any], *, key: str, unit: str) -> Cell:
    value = row[key]
    if is_number(value) and key.endswith("_share"):
        return Cell(percent(float(value)))
    if not unit and key in OF_ROW:
        unit = str(row.get("unit") or "")
    return number_cell(written(key, value, unit))


def _figures(result: Result) -> dict[str, Figure]:
    return {figure.key: figure for block in sections.blocks(result) for figure in block.figures}


def _interactive(figure: Figure) -> "plotly.graph_objects.Figure":
    """A figure with its title and legend in it, where the page has HTML, and axes to zoom."""
    import plotly.graph_objects as go

    style = (shipped("reports") / "report.css").read_text("utf-8")
    theme = dict(_NAMED.findall(style.partition("@media")[0]))  # the light colours come first
    height = figure.spec["layout"]["height"] + HEAD
    spec = _coloured(figure.spec, theme)
    layout = {key: _free(key, entry) for key, entry in spec["layout"].items()} | {
        "autosize": True,
        "dragmode": "zoom",
        "height": height,
        "margin": {**spec["layout"].get("margin", {}), "t": HEAD},
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1 - TITLE / height,
            "yref": "container",
            "yanchor": "top",
        },
        "title": {
            "text": figure.title,
            "x": 0,
            "xref": "paper",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 12},
        },
    }
    data = [{**trace, "showlegend": False} for trace in spec["data"]]
    legend = [_entry(key, theme) for key in figure.legend]
    return go.Figure({"data": [*data, *legend], "layout": layout})


def _entry(key: Key, theme: Mapping[str, str]) -> dict[str, Any]:
    """A trace without points, for the legend."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [None],
        "y": [None],
        "name": label(key.text, len(key.text)),
        "marker": {
            "symbol": MARKERS.get(key.shape, key.shape),
            "color": theme[key.tint],
            "size": 10,
        },
    }


def _free(key: str, part: Any) -> Any:
    """A part of the layout: axes can be zoomed, and names keep off the slopes they are on.

    The page turns these names until they are parallel, which takes a script.
    """
    if _AXIS.fullmatch(key):
        return {**part, "fixedrange": False}
    if key == "annotations":
        beside = {"xshift": 12, "yanchor": "middle"}
        return [entry | (beside if entry.get("name") == "slope" else {}) for entry in part]
    return part


def _coloured(value: Any, theme: Mapping[str, str], is_colour: bool = False) -> Any:
    """A specification with the colours of the theme put in where a key asks for a colour."""
    if isinstance(value, Mapping):
        return {key: _coloured(entry, theme, key.endswith("color")) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_coloured(entry, theme, is_colour) for entry in value]
    if is_colour and isinstance(value, str) and (found := _THEME.fullmatch(value)):
        colour, opacity = theme[found[1]], found[2]
        channels = ",".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
        return f"rgba({channels},{opacity})" if opacity else colour
    return value
