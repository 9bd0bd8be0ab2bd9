"""The plotly.js that came with the installed plotly, packed to travel inside the page."""

import base64
import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from roofline.errors import MissingEnvironmentError


@dataclass(frozen=True, slots=True)
class Library:
    """A script to be unpacked by the page.

    Attributes
    ----------
    packed
        Source as `pack` leaves it.
    digest
        ``sha256-…`` of the source: the page runs this script and no other.
    """

    packed: str
    digest: str


@cache
def library() -> Library:
    """Read and pack plotly.js; plotly itself is not imported, which would take a second.

    Raises
    ------
    MissingEnvironmentError
        plotly is not installed, or without its script.
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
