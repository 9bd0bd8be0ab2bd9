"""Files of others that may be packed."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from roofline.schema.files import readable, unreadable


@contextmanager
def unpacked(source: str, *, folder: str, packed: str) -> Iterator[None]:
    """Turn errors of reading a file, packed or not, into a DocumentError.

    Hints are given for a folder, and for a part of a gzip file.
    """
    with readable(source, folder=folder):
        try:
            yield
        except (gzip.BadGzipFile, zlib.error, EOFError):
            raise unreadable(source, "is not a whole gzip file", packed) from None
