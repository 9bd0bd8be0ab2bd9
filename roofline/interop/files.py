"""Files of others: their names as shown, and errors of reading them as sentences."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roofline.content import label
from roofline.errors import DocumentError


def source_of(path: Path) -> str:
    """A path as it is shown, whatever bytes are in its name."""
    return label(path).encode("utf-8", "backslashreplace").decode("utf-8")


def unreadable(source: str, message: str, hint: str) -> DocumentError:
    """Error of a whole file."""
    return DocumentError(f"{source} {message}", hint=hint)


@contextmanager
def readable(source: str, *, folder: str, packed: str) -> Iterator[None]:
    """Turn errors of reading a file into ours.

    Args:
        source: The file, as it is shown.
        folder, packed: Hints where it is a folder, and where it is a part of a gzip file.

    Raises:
        DocumentError: The file is not there or cannot be read.
    """
    try:
        yield
    except FileNotFoundError:
        raise unreadable(source, "does not exist", "check the spelling of the path") from None
    except IsADirectoryError:
        raise unreadable(source, "is a folder", folder) from None
    except PermissionError:
        hint = "give yourself permission to read it"
        raise unreadable(source, "may not be read", hint) from None
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise unreadable(source, "is not a whole gzip file", packed) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise unreadable(source, f"cannot be read: {reason}", "check the path") from None
