"""The simulator's policy of each engine against that engine's own scheduler, on random traces."""

import os
from typing import Any, Final

import numpy as np
import pytest

from roofline.serving.requests import Requests
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.server import Server
from tests.serving.simulate.cases import prices, requests
from tests.serving.simulate.engine_schedulers import (
    Engine,
    LlamaCpp,
    ReservingVllm,
    Sglang,
    Trtllm,
    Vllm,
)

TRACES: Final = int(os.environ.get("ROOFLINE_TRACES", "75"))
CUT: Final[dict[str, Any]] = {"policy": "chunked"}
WHOLE: Final[dict[str, Any]] = {"policy": "continuous"}
LONG, SHORT = 60, 12
"""Longest prompts. [token]"""
FAMILIES: Final[dict[str, tuple[type[Engine], dict[str, Any], dict[str, Any]]]] = {
    # Longest prompt, whether memory is short, and the least budget of a step beside the sequences.
    "vLLM, prompts cut": (Vllm, CUT, {"longest": LONG, "least": 1}),
    "vLLM, memory short": (Vllm, CUT, {"longest": SHORT, "least": 2000, "short": True}),
    "vLLM, prompts cut in short memory": (
        Vllm,
        {**CUT, "admission": "chunk"},
        {"longest": LONG, "least": 1, "short": True},
    ),
    "vLLM that reserves prompts, memory short": (
        ReservingVllm,
        CUT,
        {"longest": SHORT, "least": 2000, "short": True},
    ),
    "SGLang, prompts cut": (Sglang, {**CUT, "first": "prefill"}, {"longest": LONG, "least": 1}),
    "TensorRT-LLM": (Trtllm, {**WHOLE, "reservation": 1.0}, {"longest": SHORT, "least": SHORT}),
    "TensorRT-LLM, prompts that wait": (
        Trtllm,
        {**WHOLE, "reservation": 1.0, "oversized": "waits"},
        {"longest": LONG, "least": LONG, "room": 4, "beside": False},
    ),
    "TensorRT-LLM, memory short": (
        Trtllm,
        {**WHOLE, "reservation": 1.0},
        {"longest": SHORT, "least": SHORT, "short": True},
    ),
    "llama.cpp, prompts of a batch": (LlamaCpp, CUT, {"longest": SHORT, "least": 8 * SHORT}),
    "llama.cpp, one slot": (LlamaCpp, CUT, {"longest": LONG, "least": 1, "most": 1}),
}
"""Engine, its policy in the simulator, and traces on which nothing matters that is left out."""


def case(
    seed: int,
    *,
    longest: int,
    least: int,
    short: bool = False,
    most: int = 8,
    beside: bool = True,
    room: int = 30,
) -> tuple[Requests, StepPrices, dict[str, Any]]:
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 40))
    gaps = random.exponential(random.choice([0.1, 1.0, 5.0]), count)
    gaps[random.random(count) < 0.3] = 0.0
    given = requests(
        np.cumsum(gaps), random.integers(1, longest + 1, count), random.integers(1, 25, count)
    )
    running = int(random.integers(1, most + 1))
    page = int(random.choice([1, 2, 4]))
    whole = int((given.prompt + given.output).max()) + page
    pages = int(random.integers(whole, 3 * whole)) // page if short else 2**40
    budget = running * beside + int(random.integers(least, least + room))
    return given, prices(random), {
        "max_running": running, "budget": budget, "pages": pages, "page": page,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_random_traces_are_served_as_the_engine_serves_them(name: str) -> None:
    kind, policy, traces = FAMILIES[name]
    preempted = cut = 0
    for seed in range(TRACES):
        given, table, sizes = case(seed, **traces)
        theirs = kind(given, table, **sizes).run()
        server = Server(
            **policy,
            max_sequences=sizes["max_running"],
            token_budget=sizes["budget"],
            kv_tokens=sizes["pages"] * sizes["page"],
            page=sizes["page"],
        )
        ours = simulate(given, table, server)
        for mine, other in (("admitted", "admitted"), ("first_token", "first"), ("finish",) * 2):
            wanted = np.array([getattr(each, other) for each in theirs.requests])
            np.testing.assert_allclose(getattr(ours, mine), wanted, rtol=1e-9, err_msg=str(seed))
        assert ours.totals.steps == theirs.steps
        assert ours.totals.preemptions == theirs.preemptions
        preempted += theirs.preemptions
        cut += bool((given.prompt > sizes["budget"]).any())
    assert 3 * preempted > 2 * TRACES or kind is not Vllm or "short" not in traces
    assert cut > TRACES // 4 or traces["longest"] == SHORT or "oversized" in policy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("SGLang, prompts cut", {"first": "decode"}),
        ("SGLang, prompts cut", {"policy": "continuous"}),
        ("vLLM, prompts cut in short memory", {"admission": "whole"}),
        ("TensorRT-LLM, prompts that wait", {"oversized": "joins"}),
    ],
)
def test_an_engine_that_is_told_another_policy_is_served_otherwise(
    name: str, wrong: dict[str, Any]
) -> None:
    """Prompts first told as decoding first, whole prompts told as cut ones, and so on."""
    kind, policy, traces = FAMILIES[name]
    differs = 0
    for seed in range(20):
        given, table, sizes = case(seed, **traces)
        theirs = kind(given, table, **sizes).run()
        server = Server(
            **policy | wrong,
            max_sequences=sizes["max_running"],
            token_budget=sizes["budget"],
            kv_tokens=sizes["pages"] * sizes["page"],
            page=sizes["page"],
        )
        ours = simulate(given, table, server)
        wanted = np.array([each.first for each in theirs.requests])
        differs += not np.allclose(ours.first_token, wanted, rtol=1e-9)
    assert differs > 5
