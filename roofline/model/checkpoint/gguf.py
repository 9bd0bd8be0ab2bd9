"""Tensor tables of GGUF files.

Source: the GGUF format, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

from roofline.errors import DocumentError
from roofline.model.precision.formats import BLOCKS

MOST_TENSORS: Final = 100_000
MOST_KEYS: Final = 10_000
MOST_ITEMS: Final = 4_000_000
"""Elements of one array."""
MOST_TEXTS: Final = 1_500_000
"""Texts of all arrays: the largest vocabularies have 0.3 million, and twice as many merges."""
LONGEST_NAME: Final = 1024
LARGEST_ALIGNMENT: Final = 2**20
MOST_DIMENSIONS: Final = 8

_PLAIN: Final = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    30: ("BF16", 1, 2),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
}
_IN_BLOCKS: Final = {
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    41: "Q1_0",
}
TYPES: Final = _PLAIN | {
    number: (name, *BLOCKS[name.lower().replace("_", "-")][1:])
    for number, name in _IN_BLOCKS.items()
}
"""Name, values in a block [1] and size of a block [B] of each type of tensor."""
_SCALARS: Final = {
    kind: Struct(f"<{letter}")
    for kind, letter in {**dict(enumerate("BbHhIif?")), 10: "Q", 11: "q", 12: "d"}.items()
}
"""Values of metadata by type."""
_TEXT, _ARRAY, _U32 = 8, 9, 4
_KEPT: Final = 4096
"""Longest text [B] and array [1] whose content is kept."""
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


class Tensor(NamedTuple):
    """A tensor in a file."""

    type: str
    bytes: int
    """Name of its type, and its size. [B]"""
    shape: tuple[int, ...]
    """Sizes as the file has them: those of a row come first. [1]"""


class GgufHeader(NamedTuple):
    """Metadata and tensors of a file."""

    keys: dict[str, Any]
    """Numbers, texts and lists by key; of what is longer than `_KEPT`, how long it is."""
    tensors: dict[str, Tensor]


def tensors(file: Path) -> dict[str, tuple[str, int]]:
    """Type and size of each tensor in a file. [B]

    Raises:
        DocumentError: As `table` does.
    """
    return {name: (each.type, each.bytes) for name, each in table(file).tensors.items()}


def table(file: Path) -> GgufHeader:
    """Metadata of a file, and the types, sizes and shapes of its tensors.

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
        keys = _metadata(reader)
        alignment = keys.get("general.alignment", 32)
        found: dict[str, Tensor] = {}
        spans = []
        for _ in range(number):
            name, tensor, offset = _tensor(reader)
            if name in found:
                reader.refuse(f"tensor {name!r:.80} is there twice")
            found[name] = tensor
            spans.append((offset, offset + tensor.bytes, name))
        start = -(-(whole - reader.left) // alignment) * alignment
    at = 0
    for begin, end, name in sorted(spans):
        if begin < at or begin % alignment:
            reader.refuse(f"tensor {name!r:.80} begins within another, or out of line")
        at = end
    if spans and start + at > whole:
        reader.refuse("the file ends before its tensors do")
    return GgufHeader(keys, found)


def _metadata(reader: Reader) -> dict[str, Any]:
    """Values by key."""
    out: dict[str, Any] = {}
    for _ in range(reader.count("keys", MOST_KEYS, 13)):
        key, kind = reader.name(), reader.int32()
        if kind == _ARRAY:
            kind = reader.int32()
            if kind == _ARRAY:
                reader.refuse("an array in an array is not understood")
            least = _SCALARS[kind].size if kind in _SCALARS else 8
            most = reader.texts if kind == _TEXT else MOST_ITEMS
            items = reader.count("items in an array", most, least)
            reader.texts -= items if kind == _TEXT else 0
            if kind in _SCALARS and items <= _KEPT:
                out[key] = [_value(reader, kind) for _ in range(items)]
            else:
                out[key] = items
                _pass_over(reader, kind, items)
        else:
            out[key] = _value(reader, kind)
            if key == "general.alignment":
                size = out[key] if kind == _U32 else 0
                if not 1 <= size <= LARGEST_ALIGNMENT or size & (size - 1):
                    reader.refuse(f"an alignment of {size} bytes is none")
    return out


def _value(reader: Reader, kind: int) -> Any:
    """Number, or text; of a longer text its length."""
    if kind in _SCALARS:
        return _SCALARS[kind].unpack(reader.take(_SCALARS[kind].size))[0]
    if kind != _TEXT:
        reader.refuse(f"metadata of type {kind} is not understood")
    length = reader.int64()
    if length > _KEPT:
        reader.skip(length)
        return length
    return reader.take(length).decode("utf-8", "replace")


def _pass_over(reader: Reader, kind: int, items: int) -> None:
    if kind in _SCALARS:
        reader.skip(_SCALARS[kind].size * items)
    elif kind == _TEXT:
        for _ in range(items):
            reader.skip(reader.int64())
    else:
        reader.refuse(f"metadata of type {kind} is not understood")


def _tensor(reader: Reader) -> tuple[str, Tensor, int]:
    """Name, tensor and offset of one. [B]"""
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
    return name, Tensor(label, prod(shape) // values * size, tuple(shape)), offset
