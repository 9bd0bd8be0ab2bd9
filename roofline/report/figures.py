"""What all figures share: plain plotly specifications in the colours of the theme.

Importing plotly takes longer than the analysis, so figures are built as the JSON that plotly.js
reads. A colour is written ``theme:NAME`` or ``theme:NAME/OPACITY``; the page puts in the colours
of `reports/report.css`, again whenever the reader's theme changes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

FONT: Final = (
    'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif'
)
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
    "rest",
    "weights",
    "kv",
    "activations",
    "runtime",
    "graphs",
)
SYMBOLS: Final[Mapping[str, str]] = {"prefill": "circle", "decode": "diamond"}
HATCH: Final[Mapping[str, str]] = {"compute": "", "memory": "/", "wire": "x"}


def colour(name: str, opacity: float = 1.0) -> str:
    """Colour of the theme.

    >>> colour("ink"), colour("prefill", 0.25)
    ('theme:ink', 'theme:prefill/0.25')
    """
    assert name in COLOURS, name
    return f"theme:{name}" if opacity == 1 else f"theme:{name}/{opacity:g}"


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
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.01,
            "yanchor": "bottom",
            "itemclick": False,
            "itemdoubleclick": False,
            "font": {"size": FONT_SIZE, "color": colour("ink")},
        },
        "dragmode": False,
        "hovermode": "closest",
        "showlegend": True,
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
