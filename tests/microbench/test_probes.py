"""Probes of a GPU on the emulator: their arrays are large enough, their numbers are right."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.bench.backend import ArrayPool, Sizes
from roofline.bench.gpu.device import Sku
from roofline.bench.gpu.launch import Launch
from roofline.bench.gpu.torch_attention import angles, pages, positions
from roofline.bench.probe import Shape, find
from tests.microbench.attention_cases import reference
from tests.microbench.elements import ROUNDING, Array, widen
from tests.microbench.emulation import Emulator

SKU = Sku(90, 4, 80e9, 50e6)
NARROW = {"heads": 4, "kv_heads": 2, "head_dim": 64}


def ran(folder: Path, name: str, at: Shape) -> dict[str, Any]:
    """Arguments of a probe after its kernels; the emulator refuses accesses outside of them."""
    probe, sizes, pool = find(name).probe, Sizes(), ArrayPool(np)
    probe.arguments(sizes, at)
    pool.reserve(sizes.numbers, sizes.room)
    arguments = dict(probe.arguments(pool, at))
    assert probe.kernels is not None
    calls = probe.kernels(SKU, **arguments)
    for call in calls:
        assert isinstance(call, Launch)
    Emulator(folder).run(*calls)
    return arguments


def near(found: Array, expected: Array) -> None:
    off = np.linalg.norm(widen(found) - expected) / np.linalg.norm(expected)
    assert off < ROUNDING["bf16"]


@pytest.mark.parametrize("name", ["paged-decode", "paged-decode-fp8"])
@pytest.mark.parametrize(("new", "context"), [(1, 33), (1, 200), (3, 90)])
def test_paged_decoding_finds_the_pages(libraries: Path, name: str, new: int, context: int) -> None:
    a = ran(libraries, name, {"count": 2, "new": new, "context": context, **NARROW})
    for row in range(2):
        flat = [
            widen(a[n])[a["table"][row]].reshape(-1, 2, 64)[:context] for n in ("keys", "values")
        ]
        near(a["output"][row], reference(widen(a["query"])[row], *flat, causal=True))


def test_a_prompt_and_a_chunk_are_causal(libraries: Path) -> None:
    for new, context in ((40, 40), (20, 70)):
        a = ran(libraries, "flash-prefill", {"count": 1, "new": new, "context": context, **NARROW})
        q, k, v = (widen(a[name])[0] for name in ("query", "keys", "values"))
        near(a["output"][0], reference(q, k, v, causal=True))


def test_the_small_kernels_of_a_layer(libraries: Path) -> None:
    a = ran(libraries, "rmsnorm-bf16", {"m": 3, "width": 256})
    x = widen(a["values"])
    root = np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)
    near(a["output"], x / root * widen(a["weight"]))
    a = ran(libraries, "silu-mul-bf16", {"m": 3, "width": 64})
    gate, up = np.split(widen(a["gate_up"]), 2, axis=1)
    near(a["output"], gate / (1.0 + np.exp(-gate)) * up)
    a = ran(libraries, "add-bf16", {"m": 3, "width": 64})
    near(a["output"], widen(a["residual"]) + widen(a["update"]))
    a = ran(libraries, "w4a16-gemm", {"m": 2, "n": 32, "k": 256})
    places = [0, 16, 4, 20, 8, 24, 12, 28]  # of neighbours along k
    nibbles = a["weight"][:, :, None] >> np.array(places, np.uint32) & 15
    weight = nibbles.reshape(32, 2, 4, 4, 8).swapaxes(2, 3).reshape(32, 256)
    spread = [np.repeat(widen(a[name]), 128, axis=0) for name in ("zero", "scale")]
    near(a["output"], widen(a["values"]) @ ((weight.T - spread[0]) * spread[1]))


def test_memory_is_copied_and_read(libraries: Path) -> None:
    a = ran(libraries, "copy", {"size": 4096})
    np.testing.assert_array_equal(a["out"], a["x"])
    ran(libraries, "read", {"size": 65536})


def test_heads_are_turned_by_the_angle_of_their_position(libraries: Path) -> None:
    """All ones, as room is: cosine less sine in the first half, their sum in the second."""
    a = ran(libraries, "rope-bf16", {"m": 5, "heads": 2, "head_dim": 64})
    cos, sin = np.split(widen(a["cos_sin"])[a["places"]][:, None], 2, axis=2)
    ones = widen(np.ones(5 * 2 * 32, np.float32).view(np.uint16)).reshape(5, 2, 64)
    first, second = np.split(ones, 2, axis=2)
    near(a["turned"], np.concatenate([first * cos - second * sin, second * cos + first * sin], 2))


def test_constants_are_what_they_are_called() -> None:
    assert sorted(pages(3, 50).ravel().tolist()) == list(range(150))
    assert np.abs(np.diff(pages(2, 100)[0])).min() > 1
    assert positions(6, 4).tolist() == [0, 1, 2, 3, 0, 1]
    table = widen(angles(3, 4))
    np.testing.assert_allclose(
        table[2], np.cos([2.0, 2e-4]).tolist() + np.sin([2.0, 2e-4]).tolist(), rtol=5e-3
    )
