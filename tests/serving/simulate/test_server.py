"""Servers that are refused, and the server that a deployment makes."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from roofline.cost.engine_costs import EngineCosts
from roofline.errors import InfeasibleError, InputError
from roofline.hardware.links import host_link
from roofline.records import replace
from roofline.serving.quadrature import refined, spaced
from roofline.serving.room import largest_batch
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate, stream
from roofline.serving.simulate.server import Server, with_cache
from roofline.serving.workload import Workload
from tests.serving.deployments import on
from tests.serving.simulate.cases import requests

TABLE = step_prices(on(), sequences=8)
SMALL = Server(max_sequences=8, kv_tokens=1600)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"policy": "fifo"}, "policy is 'fifo'"),
        ({"first": "both"}, "first is 'both'"),
        ({"preemption": None}, "preemption is None"),
        ({"max_sequences": 0}, "max sequences is 0"),
        ({"max_sequences": 2**40}, "sequences at once"),
        ({"page": 0}, "page is 0"),
        ({"timeout_s": float("nan")}, "timeout s is nan"),
        ({"reservation": 1.5}, "reservation is 1.5"),
        ({"token_budget": 8, "max_sequences": 9}, "does not hold one of each"),
        ({"first": "prefill", "token_budget": 0}, "chunks of a prefill have no size"),
        ({"kv": "contiguous"}, "the longest context is not given"),
        ({"kv": "contiguous", "sharing": True}, "contiguous memory with sharing"),
        ({"kv": "contiguous", "policy": "static"}, "contiguous memory with static"),
        ({"sharing": True, "policy": "static"}, "not shared in static"),
    ],
)
def test_a_server_that_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Server(**given)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (([1.0, 0.5], 5, 5), "request 1 arrives before the one above it"),
        (([0.0, np.nan], 5, 5), "request 1 arrives at no time"),
        (([0.0, -1.0], 5, 5), "request 1 arrives at no time"),
        ((0.0, [5, 0], 5), "request 1 has no prompt that can be"),
        ((0.0, 5, [5, 5, 0]), "request 2 has no answer that can be"),
        ((0.0, [5, 1590], [5, 12]), "request 1 of 1590 \\+ 12 tokens needs 1616 of cache"),
    ],
)
def test_requests_that_make_no_sense_are_refused(columns: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        simulate(requests(*columns), TABLE, SMALL)


def test_conversations_and_blocks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="request 1 follows one that is not before it"):
        simulate(requests(0.0, [5, 5], 5, after=[-1, 1]), TABLE, SMALL)
    with pytest.raises(
        InputError, match="request 0 has more hashed blocks than its prompt is long"
    ):
        simulate(requests(0.0, [40], 5, blocks=[[1, 2, 3]], block=16), TABLE, SMALL)
    shared = replace(SMALL, sharing=True)
    with pytest.raises(InputError, match="blocks have 8 tokens and pages 16"):
        simulate(requests(0.0, [40], 5, blocks=[[1]], block=8), TABLE, shared)
    two = [requests(0.0, [5, 5], 5), requests(0.0, [5], 5, after=[0])]
    with pytest.raises(InputError, match="request 2 comes after"):
        list(stream(two, TABLE, SMALL))
    with pytest.raises(InputError, match="there are no requests"):
        simulate(requests([], [], []), TABLE, SMALL)
    with pytest.raises(InputError, match="prompt has"):
        simulate(replace(requests(0.0, [5, 5], 5), prompt=np.array([5])), TABLE, SMALL)


@pytest.mark.parametrize("name", ["step_s", "sequence_s", "prefill_s", "front_end_s", "request_s"])
def test_an_overhead_is_a_time(name: str) -> None:
    overhead: dict[str, Any] = {name: -1.0}
    with pytest.raises(InputError, match="overhead is -1"):
        EngineCosts(**overhead)
    with pytest.raises(InputError, match="gain is 0"):
        EngineCosts(decode_gain=0.0)


@pytest.mark.parametrize(("model", "tp"), [("llama-3.1-8b", 1), ("llama-3.1-70b", 8)])
def test_a_deployment_has_room_for_the_batch_that_analyze_says(model: str, tp: int) -> None:
    deployment = on(model, tp=tp)
    longest = 2303
    server = with_cache(deployment, Server(max_sequences=16), context=longest)
    most = largest_batch(deployment, Workload(16, 2048, 256), None)
    # Activations of the largest step are counted in both; batches beyond 16 have more rows.
    assert server.kv_tokens / longest == pytest.approx(most, rel=0.01)
    link = host_link(deployment.node.gpu)
    assert link is not None
    assert 0 < server.swap_s_per_token < 1e-4


def test_a_deployment_without_room_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="leaves no room for a cache"):
        with_cache(on("llama-3.1-70b", tp=1), Server(), context=4096)


def test_a_line_between_points_meets_a_bent_function() -> None:
    def bent(x: Any) -> Any:
        return np.maximum(3.0 * x, 1000.0 + x) + np.sqrt(x)

    points = refined(bent, spaced(1, 100_000, 1))
    every = np.arange(1.0, 100_001.0)
    line = np.interp(every, points, bent(points))
    assert np.abs(line / bent(every) - 1.0).max() < 2e-3
    assert len(points) < 200


def test_the_compiler_is_loaded_when_something_runs() -> None:
    code = "import sys, roofline.serving.simulate, roofline.cli; print('numba' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_a_change_anywhere_in_the_loop_compiles_it_again() -> None:
    from roofline.serving.simulate.compiled.compiler import DIGEST, SOURCES
    from roofline.serving.simulate.compiled.loop import serve

    assert {path.name for path in SOURCES} > {"loop.py", "heap.py", "memory.py", "state.py"}
    assert DIGEST in serve._cache._cache_file._version  # type: ignore[attr-defined]


def test_more_sequences_than_are_priced_are_refused() -> None:
    most = int(TABLE.batches[-1])
    said = f"priced up to {most} sequences, the server runs {most + 1}"
    with pytest.raises(InputError, match=said):
        simulate(requests(0.0, 5, 5), TABLE, Server(max_sequences=most + 1))
