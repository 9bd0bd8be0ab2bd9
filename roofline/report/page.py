"""Sections, style and scripts put together into one file that asks the network for nothing."""

import base64
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from roofline.content import shipped
from roofline.errors import MissingEnvironmentError
from roofline.report import sections
from roofline.report.known import BOUND, calibrated
from roofline.report.text import clean, to_json
from roofline.table import Result


@dataclass(frozen=True, slots=True)
class Library:
    """A script to be unpacked by the page."""

    packed: str
    """Source as `pack` leaves it."""
    digest: str
    """``sha256-…`` of the source: the page runs this script and no other."""


@cache
def library() -> Library:
    """Read and pack plotly.js; plotly itself is not imported, which would take a second.

    Raises:
        MissingEnvironmentError: plotly is not installed, or without its script.
    """
    spec = find_spec("plotly")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            source = path.read_bytes()
            return Library(pack(source), digest(source))
    raise MissingEnvironmentError(
        "plotly.js is not installed, and the report draws with it",
        hint="install it again: pip install --force-reinstall plotly",
    )


def pack(source: bytes) -> str:
    """Compress a script for the page: gzip, then base 85, a sixteenth shorter than base 64.

    The alphabet is that of RFC 1924 with a comma for ``<``, so that the text cannot end the
    element it stands in.

    >>> unpack(pack(b"alert(1)"))
    b'alert(1)'
    """
    return base64.b85encode(gzip.compress(source, 9, mtime=0)).decode("ascii").replace("<", ",")


def unpack(text: str) -> bytes:
    """Undo `pack`, as the page does."""
    return gzip.decompress(base64.b85decode(text.replace(",", "<")))


def digest(source: bytes) -> str:
    """Hash by which a content security policy knows a script or a style sheet.

    >>> digest(b"")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return f"sha256-{base64.b64encode(hashlib.sha256(source).digest()).decode('ascii')}"


TITLES: Final = {
    "compare-measured": "Predicted against measured",
    "scoreboard": "Scoreboard: predicted against measured",
}
"""Titles of results that are of no network."""
EMPTY: Final = digest(b"")
"""plotly.js adds an empty style element and fills it by script; nothing else may add style."""


@dataclass(frozen=True, slots=True)
class Page:
    """What names a page."""

    title: str
    subtitle: str
    version: str
    steps: str = ""
    """What the steps on it are of, where that is not the whole page's own question."""


def render(result: Result) -> str:
    """Report of a result as HTML. The same result gives the same bytes.

    Raises:
        MissingEnvironmentError: plotly.js is not installed.
    """
    blocks = sections.blocks(result)
    folder = shipped("reports")
    style = (folder / "report.css").read_text("utf-8")
    needed = ["report.js", *(block.script for block in blocks if block.script)]
    script = "".join((folder / name).read_text("utf-8") for name in needed)
    plotly = library() if any(block.figures for block in blocks) else None
    return (
        environment()
        .get_template("page.html")
        .render(
            page=page_of(result),
            blocks=blocks,
            figures={figure.key: figure for block in blocks for figure in block.figures},
            grids={grid.key: grid for block in blocks for grid in block.grids},
            policy=_policy(style, script, plotly.digest if plotly else ""),
            style=Markup(style),  # ours, not the result's
            script=Markup(script),
            library=plotly.packed if plotly else "",
        )
    )


def _policy(style: str, script: str, plotly: str) -> str:
    """Content security policy: two known scripts, one known style sheet, no requests."""
    scripts = " ".join(f"'{name}'" for name in (digest(script.encode()), plotly) if name)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {scripts}",
            f"style-src '{digest(style.encode())}' '{EMPTY}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def environment() -> Environment:
    """Templates, in which every text is escaped and cleaned."""
    environment = Environment(
        loader=FileSystemLoader(shipped("reports") / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters["embedded"] = _embedded
    return environment


def _finalize(value: Any) -> Any:
    """Every text that a template prints is cleaned first."""
    return clean(value) if type(value) is str else value


def _embedded(value: Any) -> Markup:
    return Markup(to_json(value))


def page_of(result: Result) -> Page:
    """Title of a result, and how it was asked for."""
    given: Mapping[str, Any] = result.metadata
    name, device = given.get("model", result.kind), given.get("gpu_title") or given.get("gpu", "")
    name = given.get("title") or TITLES.get(str(name), name)
    gpus = given.get("gpus", 1)
    machine = f"{gpus} × {device}" if gpus != 1 else f"{device}"
    if "gpus_allowed" in given:  # a plan says in its verdict on what
        machine = f"up to {given['gpus_allowed']} × {_listed(given.get('gpu_titles', ''))}"
    parts = [str(given.get("date", ""))]
    parts.append(f"{_listed(given['weights'])} weights" if "weights" in given else "")
    parts.append(f"{_listed(given['kv'])} KV cache" if given.get("kv", "auto") != "auto" else "")
    parts += [_arranged(given), *_load(given)]
    parts.append(str(given.get("engine_title") or given.get("engine", "")))
    if calibrated(result):
        named = f" ({given['calibration']})" if given.get("calibration") else ""
        parts.append(f"predicted from measured kernels{named}")
    elif given.get("basis") == BOUND:
        parts.append("datasheet rates")
    return Page(
        title=f"{name} on {machine}" if machine else f"{name}",
        subtitle=" · ".join(part for part in parts if part),
        version=f"roofline {given['version']}" if "version" in given else "roofline",
        steps=str(given.get("steps", "")),
    )


def _arranged(given: Mapping[str, Any]) -> str:
    """How devices share the network, as far as there are several."""
    layout = given.get("layout_title", f"TP {given.get('tp', 1)}")
    if (replicas := given.get("replicas", 1)) != 1:
        return f"{replicas} replicas of {layout}"
    return "" if layout == "TP 1" else str(layout)


def _load(given: Mapping[str, Any]) -> list[str]:
    """What is asked of it: traffic by its name, or a batch with its lengths."""
    if "workload_title" in given:
        return [f"{given['workload_title']}", str(given.get("arrivals", ""))]
    parts = [f"batch {given['batch']}" if "batch" in given else ""]
    if "prompt" in given:
        answer = f" → {_grouped(given['output'])}" if "output" in given else ""
        parts.append(f"{_grouped(given['prompt'])}{answer} tokens")
    return parts


def _listed(value: object) -> str:
    """A name, or several to choose among."""
    return " or ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _grouped(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
