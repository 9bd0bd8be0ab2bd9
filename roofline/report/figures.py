"""Parts that all figures share: plain plotly specifications in the colours of the theme.

Importing plotly takes longer than the analysis, so figures are built as the JSON that plotly.js
reads. A colour is written ``theme:NAME`` or ``theme:NAME/OPACITY``; the page puts in the colours
of `reports/report.css`, again whenever the reader's theme changes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from roofline.view.text import LABEL_LENGTH, Amount, amount, label

FONT: Final = "system-ui, -apple-system, Roboto, Arial, sans-serif"
FONT_SIZE: Final = 12
COLOURS: Final = (
    "ink",
    "muted",
    "faint",
    "grid",
    "surface",
    "bad",
    "prefill",
    "decode",
    "compute",
    "memory",
    "wire",
    "host",
    "engine",
    "rest",
    "weights",
    "kv",
    "activations",
    "runtime",
    "graphs",
)
STEPS: Final = (
    (1,),
    (1, 2, 5),
    (1, 1.5, 2, 3, 5, 7),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
    tuple(hundredth / 100 for hundredth in range(100, 1000, 10)),
)
"""Places of ticks in a decade, each finer than the one before."""
FEWEST: Final = 3
"""Ticks that an axis needs to be read. [1]"""
SYMBOLS: Final[Mapping[str, str]] = {"prefill": "circle", "decode": "diamond"}
HATCH: Final[Mapping[str, str]] = {
    "compute": "",
    "memory": "/",
    "wire": "x",
    "host": ".",
    "engine": "+",
}


def colour(name: str, opacity: float = 1.0) -> str:
    """Colour of the theme.

    >>> colour("ink"), colour("prefill", 0.25)
    ('theme:ink', 'theme:prefill/0.25')
    """
    assert name in COLOURS, name
    return f"theme:{name}" if opacity == 1 else f"theme:{name}/{opacity:g}"


def whiskers(
    values: Sequence[float], ends: Sequence[tuple[float, float]], **look: Any
) -> dict[str, Any]:
    """Lines from values to the ends of their intervals, as ``error_x`` or ``error_y``."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, (_, high) in zip(values, ends, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
        **look,
    }


def scatter(
    x: Iterable[Any], y: Iterable[Any], told: Sequence[str] = (), mode: str = "markers", **more: Any
) -> dict[str, Any]:
    """Points or a line, with the text that a pointer shows at each; none if it is left out."""
    return {"type": "scatter", "mode": mode, "x": list(x), "y": list(y), **_hover(told), **more}


def bars(
    x: Iterable[float], y: Iterable[Any], told: Sequence[str] = (), **more: Any
) -> dict[str, Any]:
    """Bars from left to right, with the text that a pointer shows at each, as in `scatter`."""
    return {"type": "bar", "orientation": "h", "x": list(x), "y": list(y), **_hover(told), **more}


def _hover(told: Sequence[str]) -> dict[str, Any]:
    return {"hovertext": list(told), "hoverinfo": "text"} if told else {"hoverinfo": "skip"}


def rule(
    at: float, tint: str = "muted", dash: str = "dot", *, width: int = 1, across: bool = False
) -> dict[str, Any]:
    """Line through the whole figure at a value: upright, or from side to side."""
    one, other = ("y", "x") if across else ("x", "y")
    return {
        "type": "line",
        f"{one}0": at,
        f"{one}1": at,
        f"{other}0": 0,
        f"{other}1": 1,
        f"{other}ref": "paper",
        "line": {"color": colour(tint), "width": width, "dash": dash},
    }


def diagonal(low: float, high: float, factor: float, **line: Any) -> dict[str, Any]:
    """Line on which a prediction is so many times what was measured."""
    faint = {"color": colour("faint"), "width": 1, **line}
    return scatter((low, high), (low * factor, high * factor), mode="lines", line=faint)


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with quiet lines that does not zoom under a finger."""
    return {
        "title": {"text": title, "font": {"size": FONT_SIZE, "color": colour("muted")}},
        "gridcolor": colour("grid"),
        "linecolor": colour("faint"),
        "tickcolor": colour("faint"),
        "tickfont": {"size": FONT_SIZE - 1, "color": colour("muted")},
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,
        **more,
    }


def log_axis(title: str, low: float, high: float, unit: str = "", **more: Any) -> dict[str, Any]:
    """A logarithmic axis from one end to the other."""
    ends = [math.log10(low), math.log10(high)]
    return axis(title, type="log", **more, range=ends, **log_ticks(low, high, unit))


def linear_axis(title: str, unit: str, end: float, last: float) -> dict[str, Any]:
    """An axis from 0 to its end, with ticks up to the last place for one."""
    return axis(title, range=[0, end], **linear_ticks(last, unit))


def name_axis(
    names: Sequence[str], start: float, end: float, length: int = LABEL_LENGTH, **more: Any
) -> dict[str, Any]:
    """An axis with a name at each whole number."""
    shown = [label(name, length) for name in names]
    places = list(range(len(shown)))
    return axis("", tickvals=places, ticktext=shown, range=[start, end], **more)


def log_ticks(low: float, high: float, unit: str) -> dict[str, Any]:
    r"""Ticks of a logarithmic axis in the words of `amount`: decades, or finer where these are few.

    >>> log_ticks(5, 200, "")["ticktext"]
    ['5', '10', '20', '50', '100', '200']
    >>> log_ticks(0.18, 0.34, "s")["ticktext"]
    ['200\xa0ms', '250\xa0ms', '300\xa0ms']
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    kept: list[float] = []
    for steps in STEPS[math.log10(high / low) < 2 :]:
        if len(kept) >= FEWEST:
            break
        values = [float(f"{step}e{decade}") for decade in decades for step in steps]
        kept = [value for value in values if low <= value <= high]
    return _ticks(kept, unit)


def linear_ticks(high: float, unit: str, most: int = 5, low: float = 0.0) -> dict[str, Any]:
    """Ticks from 0, or from another end, in steps of 1, 2 or 5.

    >>> linear_ticks(2.4, "")["ticktext"], linear_ticks(3.1, "", low=1.5)["ticktext"]
    (['0', '0.5', '1.0', '1.5', '2.0'], ['1.5', '2.0', '2.5', '3.0'])
    >>> linear_ticks(0.62, "$", low=0.38)["ticktext"]
    ['$0.40', '$0.45', '$0.50', '$0.55', '$0.60']
    """
    decade = math.floor(math.log10((high - low) / most))
    sizes = [float(f"{step}e{decade + more}") for more in (0, 1) for step in (1, 2, 5)]
    step = next(size for size in sizes if (high - low) / size <= most)
    first, last = math.ceil(low / step), math.floor(high / step)
    ticks = _ticks([step * place for place in range(first, last + 1)], unit)
    return {**ticks, "ticktext": _even(ticks["ticktext"])}


def _even(texts: list[str]) -> list[str]:
    """Numbers with as many decimals as any other of their unit, so that none looks rounder."""
    parts = [text.partition("\N{NO-BREAK SPACE}") for text in texts]
    most: dict[str, int] = {}
    for number, _, unit in parts:
        most[unit] = max(most.get(unit, 0), len(number.partition(".")[2]))
    for at, (number, gap, unit) in enumerate(parts):
        whole, _, decimals = number.partition(".")
        if number != "0" and most[unit]:
            texts[at] = f"{whole}.{decimals:0<{most[unit]}}{gap}{unit}"
    return texts


def _ticks(values: list[float], unit: str) -> dict[str, Any]:
    texts = [short(amount(value, unit)) if value else "0" for value in values]
    return {"tickvals": values, "ticktext": texts}


def short(value: Amount) -> str:
    """An amount without the zeros that say how exact it is.

    >>> short(Amount("3.350")), short(Amount("10.0")), short(Amount("100"))
    ('3.35', '10', '100')
    """
    number = value.number.rstrip("0").rstrip(".") if "." in value.number else value.number
    return str(Amount(number, value.unit))


def layout(height: int, **more: Any) -> dict[str, Any]:
    """Layout of a figure of a height in pixels; the page sets the width."""
    return {
        "height": height,
        "autosize": False,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8, "pad": 2},
        "paper_bgcolor": colour("surface"),
        "plot_bgcolor": colour("surface"),
        "font": {"family": FONT, "size": FONT_SIZE, "color": colour("ink")},
        "hoverlabel": {
            "bgcolor": colour("surface"),
            "bordercolor": colour("faint"),
            "font": {"family": FONT, "size": FONT_SIZE, "color": colour("ink")},
            "align": "left",
        },
        "dragmode": False,
        "hovermode": "closest",
        "showlegend": False,
        **more,
    }


def note(text: str, x: float, y: float, **more: Any) -> dict[str, Any]:
    """Text at a place in the figure. ``text`` is ours, or has gone through ``label``."""
    return {
        "text": text,
        "x": x,
        "y": y,
        "showarrow": False,
        "font": {"size": FONT_SIZE - 1, "color": colour("muted")},
        **more,
    }


def lines(entries: Sequence[str]) -> str:
    """Lines of a hover label."""
    return "<br>".join(entries)
