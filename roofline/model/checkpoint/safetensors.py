"""Headers of safetensors files, and the index of a checkpoint in several of them.

Source: the safetensors format, https://github.com/huggingface/safetensors.
"""

import json
from math import prod
from pathlib import Path
from typing import Any, Final, NoReturn

from roofline.errors import DocumentError
from roofline.schema.document import collector_paused
from roofline.units import BITS_PER_BYTE, PREFIX

LARGEST_HEADER: Final = int(16 * PREFIX["Mi"])
"""Bytes of a header: a file of 10 GB has one of 2 MB. [B]"""
LARGEST_INDEX: Final = int(64 * PREFIX["Mi"])
"""Bytes of an index: that of a checkpoint of 1 TB in fp8 has 30 MB. [B]"""
UNWEIGHED: Final = "download the file again, or name the config.json: its checkpoint is not read"
MOST_DIMENSIONS: Final = 16
BITS: Final = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
"""Width of a value by type, as headers call it. [bit]"""


def tensors(file: Path) -> dict[str, tuple[str, int]]:
    """Type and size of each tensor in a file. [B]

    Raises:
        DocumentError: The header is not one: too long, no JSON, a type that is not known, tensors
            that overlap, leave gaps or do not end where the file does.
    """
    with file.open("rb") as stream:
        whole = file.stat().st_size
        first = stream.read(8)
        length = int.from_bytes(first, "little")
        if len(first) < 8 or length > whole - 8:
            _refuse(file, f"the header says it has {length} bytes, the file has {whole}")
        if length > LARGEST_HEADER:
            _refuse(
                file,
                f"the header says it has {length} bytes, more than {LARGEST_HEADER}",
                UNWEIGHED,
            )
        with collector_paused():
            header = _json(file, stream.read(length))
    header.pop("__metadata__", None)
    spans = []
    out = {}
    for name, entry in header.items():
        dtype, begin, end = _entry(file, name, entry)
        spans.append((begin, end, name))
        out[name] = (dtype, end - begin)
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            _refuse(file, f"tensor {name!r:.80} does not begin where the one before it ends")
        at = end
    if at != whole - 8 - length:
        _refuse(file, f"tensors take {at} bytes, and the file has {whole - 8 - length} for them")
    return out


def index(file: Path) -> tuple[tuple[str, ...], int | None]:
    """Names of the files of a checkpoint, and the size of all tensors where it is stated. [B]

    Raises:
        DocumentError: It is no index, or names a file in another folder.
    """
    if file.stat().st_size > LARGEST_INDEX:
        _refuse(file, f"the index is larger than {LARGEST_INDEX} bytes", UNWEIGHED)
    data = _json(file, file.read_bytes())
    places = data.get("weight_map")
    if not isinstance(places, dict) or not places:
        _refuse(file, "the index has no weight_map")
    texts = all(isinstance(name, str) for name in places.values())
    names = dict.fromkeys(places.values() if texts else [""])
    for name in names:
        if not name.endswith(".safetensors") or set(name) & set("/\\\0"):
            _refuse(file, f"the index names {name!r:.80}, which is no file beside it")
    metadata = data.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer() and total >= 0:
        total = int(total)
    known = isinstance(total, int) and not isinstance(total, bool) and total >= 0
    return tuple(names), total if known else None


def _entry(file: Path, name: str, entry: Any) -> tuple[str, int, int]:
    """Type, begin and end of a tensor, after checking that they agree with its shape."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        _refuse(file, f"tensor {name!r:.80} is not described by dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        _refuse(file, f"tensor {name!r:.80} has type {dtype!r:.20}, which is not known")
    if not _counts(shape) or len(shape) > MOST_DIMENSIONS:
        _refuse(file, f"tensor {name!r:.80} has a shape that is none")
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        _refuse(file, f"tensor {name!r:.80} has data_offsets that are none")
    begin, end = offsets
    if (end - begin) * BITS_PER_BYTE != prod(shape) * BITS[dtype]:
        _refuse(file, f"tensor {name!r:.80} has not the size of its shape")
    return dtype, begin, end


def _counts(values: Any) -> bool:
    """True for a list of whole numbers that fit in 64 bits."""
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64
        for value in values
    )


def _json(file: Path, content: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs):
            raise _TwiceError
        return out

    try:
        data = json.loads(
            content.decode("utf-8"), object_pairs_hook=once, parse_constant=_no_constant
        )
    except UnicodeDecodeError:
        _refuse(file, "the header is not UTF-8")
    except _TwiceError:
        _refuse(file, "the header has a name twice")
    except (ValueError, RecursionError):
        _refuse(file, "the header is not JSON")
    if not isinstance(data, dict):
        _refuse(file, "the header is not a mapping")
    return data


class _TwiceError(Exception):
    """A name is twice in one mapping."""


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


def _refuse(file: Path, problem: str, hint: str = "download the file again") -> NoReturn:
    raise DocumentError(problem, hint=hint, where=str(file))
