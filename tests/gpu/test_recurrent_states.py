"""Recurrent states by flash-linear-attention, against loops in double precision."""

from typing import Any

import numpy as np
import pytest

from roofline.bench.gpu.device import CudaDevice
from roofline.bench.gpu.recurrent_states import (
    CHUNK,
    CONVOLVED,
    HEADS,
    LAYER,
    NEEDS,
    TAPS,
    convolved,
    scanned,
    shifted,
    stepped,
)
from roofline.bench.gpu.torch_steps import view
from roofline.bench.probe import Shape, find
from tests.bench.probes import made
from tests.microbench.elements import Array, widen
from tests.microbench.recurrence import convolution, gated_delta

pytestmark = pytest.mark.gpu

ROUNDED = 1e-2
"""Relative error of what is rounded to 16 bits; of prompts, operands in between are too."""


@pytest.fixture(autouse=True)
def installed() -> None:
    for name in NEEDS:
        pytest.importorskip(name)


def layer(heads: tuple[int, ...], **more: int) -> Shape:
    return {**dict(zip([*LAYER.split(), "channels"], heads, strict=False)), **more}


def wide(array: Any) -> Array:
    """Numbers of an array of CuPy or NumPy, or of a tensor, as float64."""
    if hasattr(array, "float"):
        numbers: Array = array.double().cpu().numpy()
        return numbers
    host = array.get() if hasattr(array, "get") else array
    return widen(host) if host.dtype == np.uint16 else host.astype(np.float64)


def off(found: Any, wanted: Array) -> float:
    return float(np.linalg.norm(wide(found) - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("heads", HEADS)
def test_a_token_is_what_the_loop_makes_of_it(heads: tuple[int, ...], gpu: CudaDevice) -> None:
    arrays = made(find("gated-delta-decode").probe, layer(heads, batch=3, new=1), gpu.cupy)
    outputs, states = stepped(*map(view, arrays.values()))
    wanted, last = gated_delta(*map(wide, arrays.values()))
    assert off(outputs, wanted) < ROUNDED
    assert off(states, last) < 1e-5


@pytest.mark.parametrize("heads", HEADS)
def test_a_prompt_is_what_the_loop_makes_of_it(heads: tuple[int, ...], gpu: CudaDevice) -> None:
    arrays = made(
        find("gated-delta-prefill").probe, layer(heads, batch=1, new=200, chunk=CHUNK), gpu.cupy
    )
    outputs, states = scanned(*map(view, arrays.values()))
    wanted, last = gated_delta(*map(wide, arrays.values()))
    assert off(outputs, wanted) < 2.0 * ROUNDED
    assert off(states, last) < 2.0 * ROUNDED


@pytest.mark.parametrize("heads", CONVOLVED)
def test_one_more_input_is_convolved_with_the_last_ones(
    heads: tuple[int, ...], gpu: CudaDevice
) -> None:
    arrays = made(
        find("convolution-decode").probe, layer(heads, batch=3, new=1, taps=TAPS), gpu.cupy
    )
    before = wide(arrays["state"]).transpose(0, 2, 1)
    inputs = np.concatenate([before[:, 1:], wide(arrays["values"])[:, None]], axis=1)
    outputs = shifted(*map(view, arrays.values()))
    assert off(outputs, convolution(inputs, wide(arrays["weight"]))[:, -1]) < ROUNDED
    assert (wide(arrays["state"]).transpose(0, 2, 1) == inputs).all()


@pytest.mark.parametrize("heads", CONVOLVED)
def test_a_prompt_is_convolved(heads: tuple[int, ...], gpu: CudaDevice) -> None:
    arrays = made(
        find("convolution-prefill").probe, layer(heads, batch=2, new=96, taps=TAPS), gpu.cupy
    )
    outputs, last = convolved(*map(view, arrays.values()))
    inputs = wide(arrays["values"])
    assert off(outputs, convolution(inputs, wide(arrays["weight"]))) < ROUNDED
    assert (wide(last).transpose(0, 2, 1) == inputs[:, -TAPS:]).all()
