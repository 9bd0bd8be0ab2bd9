"""Numbers of each type, and the pool that arrays of several are cut from."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.bench.backend import ALIGNMENT, ArrayPool, Sizes, padded
from roofline.bench.elements import STORED, bf16, fp8, random, stored
from roofline.bench.probe import Maker
from roofline.errors import InputError


def e4m3(bits: int) -> float:
    """Value of eight bits, by the definition: sign, four of exponent, three of mantissa."""
    power, mantissa = bits >> 3 & 15, bits & 7
    size = mantissa / 8 * 2.0**-6 if power == 0 else (1 + mantissa / 8) * 2.0 ** (power - 7)
    return -size if bits & 128 else size


@given(st.floats(-448.0, 448.0, width=32))
def test_fp8_is_the_nearest_that_there_is(value: float) -> None:
    every = [e4m3(bits) for bits in range(256) if bits & 127 != 127]
    (bits,) = fp8(np.array([value], np.float32))
    least = min(abs(other - value) for other in every)
    assert abs(e4m3(int(bits)) - value) == pytest.approx(least, abs=1e-12)


@given(st.floats(-(2.0**99), 2.0**99, width=32))
def test_bf16_is_off_by_half_a_last_bit(value: float) -> None:
    bits = bf16(np.array([value], np.float32))
    wide = (bits.astype(np.uint32) << 16).view(np.float32)[0]
    assert abs(float(wide) - value) <= 2.0**-8 * abs(value) + 1e-38


@pytest.mark.parametrize("name", sorted({*STORED} - {"int32"}))
def test_numbers_are_of_their_type_and_the_same_for_the_same_seed(name: str) -> None:
    found = random(name, 4096, 3)
    assert found.dtype == stored(name)
    assert (found == random(name, 4096, 3)).all()
    assert (found != random(name, 4096, 4)).any()
    assert len(np.unique(found)) > 20


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(InputError, match="no array holds 'fp4'"):
        stored("fp4")


def test_a_pool_gives_arrays_of_several_types_that_do_not_overlap() -> None:
    sizes, pool = Sizes(), ArrayPool(np)

    def both(make: Maker) -> list[Any]:
        return [
            *(make.normal(3, 5, of=name) for name in ("bf16", "fp8", "bf16", "words")),
            *(make.empty(7, of=name) for name in ("bf16", "int32", "fp32")),
        ]

    both(sizes)
    pool.reserve(sizes.numbers, sizes.room)
    made = both(pool)
    for array in made:
        assert array.ctypes.data % 16 == made[0].ctypes.data % 16
    assert not np.shares_memory(made[0], made[2])
    for i, one in enumerate(made[4:]):
        one[...] = i
    assert [int(one[0]) for one in made[4:]] == [0, 1, 2]
    assert padded((3, 5), "bf16") == ALIGNMENT


def test_a_pool_makes_room_when_types_together_are_too_large() -> None:
    pool = ArrayPool(np, memory_bytes=3.0 * 4096)
    pool.reserve({"fp32": 512}, 4096)
    first = pool.normal(512)
    pool.reserve({"fp32": 512, "bf16": 512}, 4096)
    assert np.shares_memory(pool.normal(512), first)
    pool.reserve({"bf16": 4096}, 4096)
    assert pool.normal(4096, of="bf16").shape == (4096,)
    with pytest.raises(AssertionError, match="not reserved"):
        pool.normal(16)


def test_a_constant_is_made_once_for_a_point() -> None:
    made: list[int] = []

    def build(count: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        made.append(count)
        return np.arange(count, dtype=np.int32)

    pool = ArrayPool(np)
    pool.reserve({}, 0)
    assert pool.constant(build, 4) is pool.constant(build, 4)
    assert pool.constant(build, 5).tolist() == [0, 1, 2, 3, 4]
    pool.reserve({}, 0)
    pool.constant(build, 4)
    assert made == [4, 5, 4]
