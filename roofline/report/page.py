"""Sections, style and scripts put together into one file that asks the network for nothing."""

import base64
import gzip
import hashlib
import json
import re
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct

from roofline.content import shipped
from roofline.errors import MissingEnvironmentError
from roofline.files import check, output
from roofline.kept import kept
from roofline.report import sections
from roofline.table import Result
from roofline.view.questions import view_of
from roofline.view.text import clean, to_json

_TYPED: Final = re.compile(r"(`roofline [^`\n]+`|(?<![\w-])--[a-z][a-z-]*)")
"""A command of ours between backquotes, or an option by itself."""


class Library(Struct, frozen=True):
    """A script to be unpacked by the page."""

    packed: str
    """Source as `pack` leaves it."""
    digest: str
    """``sha256-…`` of the source: the page runs this script and no other."""


@cache
def library() -> Library:
    """Read and pack plotly.js, once for all runs; plotly itself is not imported for it.

    Raises:
        MissingEnvironmentError: plotly is not installed, or without its script.
    """
    spec = find_spec("plotly")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return kept(partial(_packed, path), "library", [path])
    raise MissingEnvironmentError(
        "plotly.js is not installed, and the report draws with it",
        hint="install it again: pip install --force-reinstall plotly",
    )


def _packed(path: Path) -> Library:
    source = path.read_bytes()
    return Library(pack(source), digest(source))


def pack(source: bytes) -> str:
    """Compress a script for the page: gzip, then base 85, a sixteenth shorter than base 64.

    The alphabet is that of RFC 1924 with a comma for ``<``, so that the text cannot end the
    element it stands in.

    >>> gzip.decompress(base64.b85decode(pack(b"alert(1)").replace(",", "<")))
    b'alert(1)'
    """
    return base64.b85encode(gzip.compress(source, 9, mtime=0)).decode("ascii").replace("<", ",")


def digest(source: bytes) -> str:
    """Hash by which a content security policy knows a script or a style sheet.

    >>> digest(b"")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return f"sha256-{base64.b64encode(hashlib.sha256(source).digest()).decode('ascii')}"


EMPTY: Final = digest(b"")
"""plotly.js adds an empty style element and fills it by script; nothing else may add style."""


def render(result: Result) -> str:
    """Report of a result as HTML. The same result gives the same bytes.

    Raises:
        MissingEnvironmentError: plotly.js is not installed.
    """
    blocks = sections.blocks(result)
    folder = shipped("reports")
    style = (folder / "report.css").read_text("utf-8")
    needed = ["report.js", "tools.js", *(block.script for block in blocks if block.script)]
    script = "".join((folder / name).read_text("utf-8") for name in needed)
    figures = [figure for block in blocks for figure in block.figures]
    plotly = library() if figures else None
    return (
        environment()
        .get_template("page.html")
        .render(
            page=view_of(result),
            blocks=blocks,
            specs=pack(to_json({figure.key: figure.spec for figure in figures}).encode()),
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


def _typed(sentence: str) -> Markup:
    """Sentence whose commands are set as code, and in which no option is broken over two lines."""
    parts = _TYPED.split(clean(sentence))  # every second one is a command or an option
    return Markup().join(
        escape(part) if at % 2 == 0 else _unbroken(part) for at, part in enumerate(parts)
    )


def _unbroken(typed: str) -> Markup:
    words = Markup(" ").join(
        Markup("<span class=word>{}</span>").format(word) for word in typed.strip("`").split()
    )
    return Markup("<code>{}</code>").format(words) if typed.startswith("`") else words


@cache
def environment() -> Environment:
    """Templates, in which every text is escaped and cleaned; each is compiled once."""
    environment = Environment(
        loader=FileSystemLoader(shipped("reports") / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    environment.filters["united"] = lambda rows: {
        at for row in rows for at, cell in enumerate(row) if cell.unit.strip()
    }
    environment.filters["typed"] = _typed
    environment.filters["packed"] = lambda value: Markup(
        pack(json.dumps(value, allow_nan=False, separators=(",", ":")).encode())
    )
    return environment


def write(result: Result, path: Path) -> None:
    """Write the report of a result as one HTML file; see `roofline.files.output`.

    Raises:
        InputError: The path is a folder, or its folder does not exist.
        MissingEnvironmentError: The file cannot be written: no permission, no space.
    """
    check(path)
    page = render(result).encode()
    with output(path) as file:
        file.write(page)
