"""Number types that a probe can ask arrays of: how they are stored, and random numbers of each.

Array libraries have no bfloat16 and no 8-bit floats: their bits are kept as unsigned integers.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InputError

STORED: Final[Mapping[str, type[Any]]] = {
    "fp32": np.float32,
    "fp16": np.float16,
    "bf16": np.uint16,
    "fp8": np.uint8,
    "int8": np.int8,
    "int32": np.int32,
    "words": np.uint32,
}
"""NumPy's type by name; ``fp8`` is e4m3, ``words`` are 32 random bits, such as eight 4-bit
weights."""
SPREAD: Final = 32.0
"""Standard deviation of 8-bit integers, so that few are cut off at 127."""

_BIAS, _MANTISSA, _LARGEST = 7, 8, 0x7E
"""Constants of e4m3: exponent bias, mantissas of an exponent, bits of 448. Source: Micikevicius and
others 2022, FP8 Formats for Deep Learning (arXiv 2209.05433), table 1."""


def stored(name: str) -> Any:
    """NumPy's type for a number type.

    Raises:
        InputError: There is no such type.
    """
    if name not in STORED:
        raise InputError(f"no array holds {name!r}", hint=f"take one of {', '.join(STORED)}")
    return np.dtype(STORED[name])


def random(name: str, count: int, seed: int) -> NDArray[Any]:
    """Numbers of that type, normal where it has a sign, the same for the same seed.

    A device that multiplies zeros draws less power, and keeps a higher clock, than with numbers.
    """
    rng = np.random.default_rng(seed)
    if name == "words":
        return rng.integers(0, 2**32, count, dtype=np.uint32)
    drawn = rng.standard_normal(count, dtype=np.float32)
    convert = _CONVERT.get(name)
    return drawn.astype(stored(name)) if convert is None else convert(drawn)


def bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Bits of the nearest bfloat16, ties to even.

    >>> [hex(bits) for bits in bf16(np.array([1.0, -2.0, 1.00390625], np.float32))]
    ['0x3f80', '0xc000', '0x3f80']
    """
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def fp8(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Bits of the nearest e4m3, as far as it reaches.

    >>> [hex(bits) for bits in fp8(np.array([1.0, -2.0, 1000.0, 0.0], np.float32))]
    ['0x38', '0xc0', '0x7e', '0x0']
    """
    code = np.arange(_LARGEST + 1)
    power, mantissa = code // _MANTISSA, code % _MANTISSA / _MANTISSA
    known = np.where(
        power == 0, mantissa * 2.0 ** (1 - _BIAS), (1.0 + mantissa) * 2.0 ** (power - _BIAS)
    )
    nearest = np.searchsorted((known[1:] + known[:-1]) / 2.0, np.abs(values))
    return np.asarray(nearest + 128 * np.signbit(values), dtype=np.uint8)


def _whole(values: NDArray[np.float32]) -> NDArray[np.int8]:
    return np.asarray(np.clip(np.rint(SPREAD * values), -127, 127), dtype=np.int8)


_CONVERT: Final[Mapping[str, Callable[[Any], NDArray[Any]]]] = {
    "bf16": bf16,
    "fp8": fp8,
    "int8": _whole,
}
