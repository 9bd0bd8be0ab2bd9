"""Arguments of kernels, held against the signatures in the CUDA sources."""

import re
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

from roofline.bench.backend import Sizes
from roofline.bench.elements import stored
from roofline.bench.gpu.cublaslt import TYPES
from roofline.bench.gpu.device import Sku
from roofline.bench.gpu.launch import Collective, Launch, Multiply, sources
from roofline.bench.probe import Probe, Shape, find, points, probes
from roofline.records import replace
from tests.bench.probes import made

SKU = Sku(90, 132, 80e9, 50e6)
ON_GPU = [e.probe for e in probes() if "cupy" in e.probe.backends and e.probe.kernels is not None]
SIGNATURE = re.compile(r"^KERNEL\([^)]*\)\s+(\w+)\(([^)]*)\)", re.MULTILINE)
SCALARS = {"int": np.int32, "u32": np.uint32, "i64": np.int64, "float": np.float32}
ITEMS = {"u16": 2, "u32": 4, "int": 4, "float": 4, "u8": 1, "uint4": 4, "cached": 2}
"""Bytes of an element that a pointer may point to; a uint4 is four words."""
NARROW = {**ITEMS, "cached": 1}
"""The same of programs whose cache has 8 bits."""


def signatures() -> dict[tuple[str, str], list[tuple[str, bool, str]]]:
    """Type, whether it is a pointer, and name of each parameter, by source and kernel."""
    out = {}
    for file, text in sources().items():
        for name, listed in SIGNATURE.findall(text):
            parameters = []
            for part in filter(None, (p.strip() for p in listed.replace("\n", " ").split(","))):
                words = part.replace("const ", "").replace("__restrict__ ", "").split()
                parameters.append((words[0].rstrip("*"), "*" in part, words[-1]))
            out[file.removesuffix(".cu"), name] = parameters
    return out


def smallest(probe: Probe) -> Shape:
    """The point that takes least memory."""

    def size(at: Shape) -> int:
        sizes = Sizes()
        probe.arguments(sizes, at)
        return sizes.total_bytes

    return min((point.at for point in points(probe)), key=size)


def calls(probe: Probe, at: Shape) -> list[Any]:
    assert probe.kernels is not None
    return list(probe.kernels(SKU, **made(probe, at)))


def launches(found: list[Any]) -> Iterator[Launch]:
    for call in found:
        if isinstance(call, Launch):
            yield call


def misfits(launch: Launch) -> list[str]:
    """Arguments that are not what the kernel's parameters say, as sentences."""
    parameters = signatures()[launch.program.source, launch.kernel]
    if len(parameters) != len(launch.arguments):
        return [f"{launch.kernel} takes {len(parameters)} arguments, not {len(launch.arguments)}"]
    out = []
    items = NARROW if ("CACHE_FP8", 1) in launch.program.constants else ITEMS
    for (kind, pointer, name), value in zip(parameters, launch.arguments, strict=True):
        if pointer != isinstance(value, np.ndarray):
            out.append(f"{name} is {'a pointer' if pointer else 'a number'}")
        elif pointer and value.dtype.itemsize != items[kind]:
            out.append(f"{name} points to {kind}, not to {value.dtype}")
        elif pointer and not value.flags.c_contiguous:
            out.append(f"{name} has gaps")
        elif not pointer and type(value) is not SCALARS[kind]:
            out.append(f"{name} is {kind}, not {type(value).__name__}")
    return out


def test_signatures_are_read() -> None:
    found = signatures()
    assert len(found) == 15
    assert found["rms_norm", "rms_norm"] == [
        ("u16", True, "input"),
        ("u16", True, "weight"),
        ("u16", True, "output"),
        ("int", False, "width"),
        ("float", False, "epsilon"),
    ]
    assert found["bandwidth", "nothing"] == []


@pytest.mark.slow
@pytest.mark.parametrize("probe", ON_GPU, ids=lambda probe: probe.name)
def test_arguments_are_those_of_the_signature(probe: Probe) -> None:
    found = calls(probe, smallest(probe))
    assert found
    assert [fault for launch in launches(found) for fault in misfits(launch)] == []


@pytest.mark.parametrize("place", [0, 1, 3, 4])
def test_a_planted_misfit_is_found(place: int) -> None:
    (launch,) = calls(find("rmsnorm-bf16").probe, {"m": 2, "width": 64})
    wrong: list[Any] = list(launch.arguments)
    wrong[place] = {0: wrong[0].view(np.uint8), 1: np.int32(3)}.get(place, np.int64(7))
    assert len(misfits(replace(launch, arguments=tuple(wrong)))) == 1
    short = replace(launch, arguments=launch.arguments[:-1])
    assert misfits(short) == ["rms_norm takes 5 arguments, not 4"]


@pytest.mark.parametrize("probe", ON_GPU, ids=lambda probe: probe.name)
def test_every_point_of_every_probe_has_calls_with_a_grid_that_cuda_allows(probe: Probe) -> None:
    """With arrays that have shapes and no memory."""
    for point in points(probe):
        arguments = probe.arguments(Shapes(), point.at)
        assert probe.kernels is not None
        for launch in launches(list(probe.kernels(SKU, **arguments))):
            x, y, z = launch.grid
            assert 0 < x < 2**31
            assert 0 < y < 2**16
            assert 0 < z < 2**16
            assert launch.threads <= 1024
            assert launch.shared_bytes <= 227 * 1024


class Shapes:
    """Makes arrays without memory: every element is the first."""

    def normal(self, *shape: int, of: str = "fp32") -> Any:
        return np.broadcast_to(np.zeros((), stored(of)), shape).view(Shaped)

    empty = normal

    def constant(self, build: Any, *arguments: int) -> Any:
        count = prod(arguments) if build.__name__ == "pages" else arguments[0]
        shape = arguments if build.__name__ == "pages" else (count,)
        return np.broadcast_to(np.int32(0), shape)


class Shaped(np.ndarray[Any, Any]):
    """Takes another shape without a copy, which strides of zero do not do by themselves."""

    def reshape(self, *shape: Any, **_: Any) -> Any:
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        known = prod(length for length in wanted if length > 0)
        full = [self.size // known if length < 0 else length for length in wanted]
        assert prod(full) == self.size
        return np.broadcast_to(np.zeros((), self.dtype), full).view(Shaped)


@pytest.mark.parametrize("arithmetic", ["bf16", "fp8", "int8"])
def test_a_product_has_operands_of_its_type(arithmetic: str) -> None:
    *before, call = calls(find(f"gemm-{arithmetic}").probe, {"m": 3, "n": 32, "k": 64})
    assert [launch.kernel for launch in before] == ["quantise"] * (arithmetic != "bf16")
    assert isinstance(call, Multiply)
    assert call.arithmetic == arithmetic
    assert call.shape == (1, 3, 32, 64)
    widths = {"fp32": 4, "fp16": 2, "bf16": 2, "e4m3": 1, "int8": 1, "int32": 4}
    types = TYPES[arithmetic]
    for launch in before:
        assert np.shares_memory(launch.arguments[1], call.values)
    for array, name in ((call.values, types.operand), (call.weight, types.operand)):
        assert isinstance(array, np.ndarray)
        assert array.dtype.itemsize == widths[name]
    assert isinstance(call.output, np.ndarray)
    assert call.output.dtype.itemsize == widths[types.result]


def test_scales_of_blocks_lie_as_the_library_wants_them() -> None:
    """Scales of rows lie side by side; those of the weight by row, padded to a multiple of 4."""
    at = {"m": 5, "n": 272, "k": 640}
    first, call = calls(find("gemm-fp8-block").probe, at)
    assert first.kernel == "quantise_blocks"
    assert call.arithmetic == "fp8_block"
    assert call.shape == (1, 8, 272, 640)
    values, weight = call.scales
    assert np.shares_memory(first.arguments[2], values)
    assert np.shares_memory(first.arguments[1], call.values)
    assert (values.shape, weight.shape) == ((5, 8), (3, 8))
    assert {values.dtype, weight.dtype} == {np.dtype(np.float32)}


def test_collectives_say_what_they_move() -> None:
    (call,) = calls(find("all-gather").probe, {"ranks": 4, "payload": 4096})
    assert call == Collective("all_gather", 4096, 4)
    work = find("all-reduce").probe.work({"ranks": 4, "payload": 4096})
    assert work.wire_bytes == 6144
    assert find("send-recv").probe.devices({"ranks": 2}) == 2
