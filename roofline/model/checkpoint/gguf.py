"""Tensor tables of GGUF files.

Source: the GGUF format, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final, NoReturn

from roofline.errors import DocumentError

MOST_TENSORS: Final = 100_000
MOST_KEYS: Final = 10_000
MOST_ITEMS: Final = 4_000_000
"""Elements of one array."""
MOST_TEXTS: Final = 1_500_000
"""Texts of all arrays: the largest vocabularies have 0.3 million, and twice as many merges."""
LONGEST_NAME: Final = 1024
LARGEST_ALIGNMENT: Final = 2**20
MOST_DIMENSIONS: Final = 8

TYPES: Final = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""Name, values in a block [1] and size of a block [B] of each type of tensor."""
_SCALARS: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Size of the values of metadata by type. [B]"""
_TEXT, _ARRAY, _U32 = 8, 9, 4
_INT32, _INT64 = Struct("<I"), Struct("<Q")


@dataclass(slots=True)
class Reader:
    """A file being read forward, and nothing beyond its end."""

    file: Path
    stream: BinaryIO
    """The file."""
    left: int
    """Bytes that have not been read. [B]"""
    texts: int = MOST_TEXTS
    """Texts in arrays that may still come. [1]"""

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self._count(size)
        return self.stream.read(size)

    def skip(self, size: int) -> None:
        """Leave out the next bytes."""
        self._count(size)
        self.stream.seek(size, 1)

    def _count(self, size: int) -> None:
        if size > self.left:
            self.refuse("the file ends before its table does")
        self.left -= size

    def int32(self) -> int:
        """Whole number in 4 bytes."""
        return int(_INT32.unpack(self.take(4))[0])

    def int64(self) -> int:
        """Whole number in 8 bytes."""
        return int(_INT64.unpack(self.take(8))[0])

    def name(self) -> str:
        """Short text."""
        length = self.int64()
        if length > LONGEST_NAME:
            self.refuse(f"a name has {length} bytes")
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            self.refuse("a name is not UTF-8")

    def count(self, what: str, most: int, least_bytes: int) -> int:
        """Number of things that follow, each of a size at least. [B]"""
        number = self.int64()
        if number > most or number * least_bytes > self.left:
            self.refuse(f"the file says it has {number} {what}")
        return number

    def refuse(self, problem: str) -> NoReturn:
        """Give up on the file."""
        raise DocumentError(problem, hint="download the file again", where=str(self.file))


def tensors(file: Path) -> dict[str, tuple[str, int]]:
    """Type and size of each tensor in a file. [B]

    Raises:
        DocumentError: The table is not one: another version, absurd counts, a type that is not
            known, tensors that overlap or lie beyond the end of the file.
    """
    with file.open("rb") as stream:
        reader = Reader(file, stream, file.stat().st_size)
        whole = reader.left
        if reader.left < 24 or reader.take(4) != b"GGUF":
            reader.refuse("this is no GGUF file")
        version = reader.int32()
        if version not in (2, 3):
            reader.refuse(f"GGUF version {version} is not understood")
        number = reader.count("tensors", MOST_TENSORS, 32)
        alignment = _metadata(reader)
        found = {}
        spans = []
        for _ in range(number):
            name, dtype, size, offset = _tensor(reader)
            if name in found:
                reader.refuse(f"tensor {name!r:.80} is there twice")
            found[name] = (dtype, size)
            spans.append((offset, offset + size, name))
        start = -(-(whole - reader.left) // alignment) * alignment
    at = 0
    for begin, end, name in sorted(spans):
        if begin < at or begin % alignment:
            reader.refuse(f"tensor {name!r:.80} begins within another, or out of line")
        at = end
    if spans and start + at > whole:
        reader.refuse("the file ends before its tensors do")
    return found


def _metadata(reader: Reader) -> int:
    """Alignment of the tensors; everything else is passed over. [B]"""
    alignment = 32
    for _ in range(reader.count("keys", MOST_KEYS, 13)):
        key, kind = reader.name(), reader.int32()
        if key == "general.alignment" and kind == _U32:
            alignment = reader.int32()
            if not 1 <= alignment <= LARGEST_ALIGNMENT or alignment & (alignment - 1):
                reader.refuse(f"an alignment of {alignment} bytes is none")
        elif kind == _ARRAY:
            kind = reader.int32()
            if kind == _ARRAY:
                reader.refuse("an array in an array is not understood")
            most = reader.texts if kind == _TEXT else MOST_ITEMS
            items = reader.count("items in an array", most, _SCALARS.get(kind, 8))
            reader.texts -= items if kind == _TEXT else 0
            _pass_over(reader, kind, items)
        else:
            _pass_over(reader, kind, 1)
    return alignment


def _pass_over(reader: Reader, kind: int, items: int) -> None:
    if kind in _SCALARS:
        reader.skip(_SCALARS[kind] * items)
    elif kind == _TEXT:
        for _ in range(items):
            reader.skip(reader.int64())
    else:
        reader.refuse(f"metadata of type {kind} is not understood")


def _tensor(reader: Reader) -> tuple[str, str, int, int]:
    """Name, type, size and offset of one tensor. [B]"""
    name, dimensions = reader.name(), reader.int32()
    if dimensions > MOST_DIMENSIONS:
        reader.refuse(f"tensor {name!r:.80} has {dimensions} dimensions")
    shape = [reader.int64() for _ in range(dimensions)]
    kind, offset = reader.int32(), reader.int64()
    if kind not in TYPES:
        reader.refuse(f"tensor {name!r:.80} has type {kind}, which is not known")
    label, values, size = TYPES[kind]
    if shape and shape[0] % values:
        reader.refuse(f"tensor {name!r:.80} has rows that are no whole blocks")
    return name, label, prod(shape) // values * size, offset
