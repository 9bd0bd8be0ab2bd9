"""From a deployment to a server: room for the cache, defaults of engines."""

import numpy as np
import pytest

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.errors import InfeasibleError, InputError
from roofline.hardware.engine import engine, engine_names
from roofline.model.parameters import kv_bytes_per_token
from roofline.serving import room as static_room
from roofline.serving.requests import requests
from roofline.serving.simulate.server import ServerOptions, page_of, server_of
from roofline.serving.workload import Workload
from tests.serving.deployments import on

SOME = requests(np.arange(50.0), np.arange(50) * 20 + 500, 200)


def room(deployment: Deployment, context: int, utilization: float | None = None) -> int:
    """Tokens that a server has room for where all requests are so long."""
    made = requests([0.0], context - 1, 1)
    return server_of(deployment, ServerOptions(), made, utilization).kv_tokens


def test_the_room_of_plain_attention_is_memory_over_the_bytes_of_a_token() -> None:
    deployment = on("llama-3.1-8b")
    # 32 layers · 2 · 8 heads · 128 · 2 B
    each = kv_bytes_per_token(deployment.architecture)
    assert each == 131_072
    memory = static_room.memory_of(deployment, Workload(256, 8192, 1), None)
    assert room(deployment, 1000) == pytest.approx(memory.pool / each, rel=0.01)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-2-9b", "deepseek-v2-lite"])
def test_the_room_holds_the_batch_that_the_static_analysis_says(model: str) -> None:
    deployment, prompt, output = on(model), 3000, 97
    batch = static_room.largest_batch(deployment, Workload(1, prompt, output), None)
    tokens = room(deployment, prompt + output - 1)
    assert tokens / (prompt + output - 1) == pytest.approx(batch, rel=0.02)


def test_more_devices_and_more_memory_hold_more() -> None:
    one = room(on("llama-3.1-8b"), 1000)
    two = room(on("llama-3.1-8b", tp=2), 1000)
    # The weights are halved too.
    assert two > 2 * one
    assert room(on("llama-3.1-8b"), 1000, 0.95) > one
    assert room(on("llama-3.1-8b", kv="fp8"), 1000) >= 2 * one


def test_groups_with_sequences_of_their_own_have_room_of_their_own() -> None:
    spread = on("deepseek-v3", "h200-sxm", weights="fp8", layout=Layout(dp=8, ep=8))
    shared = on("deepseek-v3", "h200-sxm", weights="fp8", layout=Layout(tp=8, ep=8))
    both = [room(each, 2000) for each in (spread, shared)]
    # A latent lies on every device of a tensor-parallel group: eight copies or one.
    assert both[0] > 5 * both[1]


def test_each_group_has_a_scheduler_of_its_own() -> None:
    spread = on("deepseek-v3", "h200-sxm", weights="fp8", layout=Layout(dp=8, ep=8))
    server = server_of(spread, ServerOptions(), SOME, None)
    assert (server.max_sequences, server.token_budget) == (8 * 1024, 8 * 8192)
    assert server_of(spread, ServerOptions(max_sequences=100), SOME, None).max_sequences == 100


def test_windows_leave_room_for_longer_contexts() -> None:
    deployment = on("gemma-2-9b")
    assert room(deployment, 7000) > room(deployment, 1000)


def test_a_network_of_states_alone_holds_more_with_longer_contexts() -> None:
    deployment = on("falcon-mamba-7b")
    short, long = (room(deployment, length) for length in (100, 10_000))
    assert long == pytest.approx(100 * short, rel=0.01)


def test_a_network_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="no room for a cache") as refused:
        room(on("llama-3.1-70b"), 1000)
    assert refused.value.exit_code == 1


@pytest.mark.parametrize("name", engine_names(unlisted=True))
def test_a_server_has_the_defaults_of_its_engine_on_its_device(name: str) -> None:
    deployment, known = on(engine=name), engine(name)
    server = server_of(deployment, ServerOptions(), SOME, None)
    assert (server.policy, server.first) == (known.policy, known.first)
    assert server.reservation == known.reservation
    assert server.max_sequences == known.sequences_on(deployment.node.gpu)
    least = known.step_tokens_on(deployment.node.gpu)
    assert server.token_budget == least
    assert server.longest == 500 + 49 * 20 + 200
    assert server.sharing


def test_what_is_asked_for_goes_before_defaults() -> None:
    asked = ServerOptions(
        "continuous",
        "prefill",
        max_sequences=64,
        token_budget=4096,
        preemption="swap",
        sharing=False,
    )
    server = server_of(on(), asked, SOME, None)
    assert (server.policy, server.first, server.max_sequences) == ("continuous", "prefill", 64)
    assert (server.token_budget, server.preemption, server.sharing) == (4096, "swap", False)
    # 131,072 B over PCIe 5, 63 GB/s
    assert server.swap_s_per_token == pytest.approx(131_072 / 63e9, rel=1e-6)


def test_batches_and_regions_share_no_prefixes() -> None:
    assert not server_of(on(), ServerOptions("static"), SOME, None).sharing
    region = server_of(on(), ServerOptions(contiguous=True), SOME, None)
    assert (region.kv, region.sharing) == ("contiguous", False)
    for asked in (
        ServerOptions("static", sharing=True),
        ServerOptions(contiguous=True, sharing=True),
    ):
        with pytest.raises(InputError, match="not shared"):
            server_of(on(), asked, SOME, None)


def test_pages_that_are_looked_up_have_sixteen_tokens_or_more() -> None:
    sizes = {name: page_of(engine(name), sharing=True) for name in engine_names()}
    assert sizes == {"vllm": 16, "sglang": 16, "trtllm": 32, "ideal": 16, "llamacpp": 16}
    assert page_of(engine("sglang"), sharing=False) == 1
