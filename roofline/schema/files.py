"""Documents read from paths that are not trusted."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from roofline.content import label
from roofline.errors import DocumentError
from roofline.schema.document import MAX_BYTES, Document, Text, too_large
from roofline.schema.json_reader import parse_json
from roofline.schema.yaml_reader import parse_yaml
from roofline.sources import record
from roofline.units import PREFIX

MOST_PACKED: Final = 100
"""Size of a file, unpacked, over that of the packed one: traces and tables have 5 to 20. [1]"""
MOST_DEFLATED: Final = 1032
"""The same at most, as the format has it: a file that says more has lost its end. [1]"""
LEAST_UNPACKED: Final = int(PREFIX["Mi"])
"""Bytes that any packed file may have. [B]"""

_PARSERS = {".json": parse_json, ".yaml": parse_yaml, ".yml": parse_yaml}


def read(path: Path, *, infinity: bool = False) -> Document:
    """Read a file: ``.json`` by the rules of JSON, ``.yaml`` and ``.yml`` by those of YAML.

    Args:
        path: A regular file in UTF-8 of at most 1 MiB.
        infinity: Whether JSON may say Infinity; see `parse_json`.

    Raises:
        DocumentError: It cannot be read, or says something that is not allowed.
    """
    source = label(path)
    with readable(source):
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError
        if not stat.S_ISREG(status.st_mode):
            raise unreadable(source, "is not a regular file", "copy its content into a file")
        parse = _PARSERS.get(path.suffix.lower())
        if parse is None:
            raise unreadable(source, "is neither YAML nor JSON", "name a .yaml, .yml or .json file")
        if status.st_size > MAX_BYTES:
            raise too_large(source)
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise too_large(source)
    record(path, content)
    text = decode(content, source)
    return (
        parse_json(text, source, infinity=infinity) if parse is parse_json else parse(text, source)
    )


@contextmanager
def readable(source: str, *, folder: str = "name a file in it") -> Iterator[None]:
    """Turn what the system says about a file into a DocumentError; a hint for a folder is given."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise unreadable(source, "does not exist", "check the spelling of the path") from None
    except IsADirectoryError:
        raise unreadable(source, "is a folder", folder) from None
    except PermissionError:
        hint = "give yourself permission to read it"
        raise unreadable(source, "may not be read", hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise unreadable(source, f"cannot be read: {reason}", "check the path") from None


def unreadable(source: str, message: str, hint: str) -> DocumentError:
    """Error of a whole file."""
    return DocumentError(f"{source} {message}", hint=hint)


def decode(content: bytes, source: str) -> str:
    """Text of UTF-8 bytes; DocumentError at the first byte that is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = Text(content[: error.start].decode("utf-8").removeprefix("\ufeff"), source)
        message = f"the byte 0x{content[error.start]:02X} is not UTF-8"
        raise before.error(len(before.content), message, "save the file as UTF-8") from None


def most_unpacked(path: Path, source: str) -> float:
    """Bytes that a gzip file may have, unpacked; infinite where its name is not that of one. [B]

    DocumentError where the end of the file says that it has more.
    """
    if path.suffix != ".gz":
        return float("inf")
    size = path.stat().st_size
    most = LEAST_UNPACKED + MOST_PACKED * size
    with path.open("rb") as file:
        file.seek(max(size - 4, 0))
        if most < int.from_bytes(file.read(4), "little") <= MOST_DEFLATED * size:
            raise too_packed(source, 1)
    return most


def too_packed(source: str, line: int) -> DocumentError:
    """Error of a gzip file that is much larger, unpacked, than any that is read."""
    return DocumentError(
        f"it unpacks to more than {MOST_PACKED} times its size",
        hint="check that it is the right file; unpack it first if it is",
        where=f"{source}:{line}",
    )
