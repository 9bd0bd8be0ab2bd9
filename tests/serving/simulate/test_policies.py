"""Each policy does what it is known for."""

import numpy as np
import pytest

from roofline.records import replace
from roofline.serving.simulate.prices import step_prices
from roofline.serving.simulate.run import simulate
from roofline.serving.simulate.server import Server
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from tests.serving.deployments import on
from tests.serving.simulate.cases import chat, requests
from tests.serving.simulate.reference_prices import step_s

TABLE = step_prices(on(), sequences=64)
MEMORY = Server(max_sequences=32, token_budget=2048, kv_tokens=450_000)
SEVERAL = requests(0.0, chat(400, 1.0).prompt, chat(400, 1.0).output)


@pytest.mark.parametrize("policy", ["static", "packed", "dynamic"])
@pytest.mark.parametrize(("batch", "prompt", "output"), [(16, 2048, 256), (1, 100, 2), (64, 7, 1)])
def test_a_static_batch_is_that_of_the_analysis(
    policy: str, batch: int, prompt: int, output: int
) -> None:
    found = static_batch(on(engine="ideal"), Workload(batch, prompt, output))
    server = replace(MEMORY, policy=policy, max_sequences=64)  # type: ignore[arg-type]
    served = simulate(requests(0.0, [prompt] * batch, output), TABLE, server)
    assert served.ttft_s == pytest.approx(found.ttft_s, rel=0.005)
    assert served.latency_s == pytest.approx(found.latency_s, rel=0.005)


def test_padding_computes_what_nobody_asked_for() -> None:
    """Yu et al. 2022: all prompts as long as the longest of a batch, and all answers."""
    padded = simulate(SEVERAL, TABLE, replace(MEMORY, policy="static"))
    parts = [slice(start, start + 32) for start in range(0, 400, 32)]
    count = [len(SEVERAL.prompt[part]) for part in parts]
    longest = [int(SEVERAL.prompt[part].max()) for part in parts]
    most = [int(SEVERAL.output[part].max()) - 1 for part in parts]
    assert padded.totals.prefilled_tokens == np.dot(count, longest)
    assert padded.totals.decoded_tokens == np.dot(count, most)
    for part in parts:  # answers are returned together
        assert len(set(padded.finish[part].tolist())) == 1


def test_sequences_that_join_and_leave_serve_more() -> None:
    spans = [
        simulate(SEVERAL, TABLE, replace(MEMORY, policy=policy)).totals.makespan_s
        for policy in ("static", "packed", "continuous")
    ]
    assert spans[0] > spans[1] > spans[2]


def test_a_dynamic_batch_does_not_wait_longer_than_its_timeout() -> None:
    given = requests([0.0, 0.4, 5.0, 5.1, 9.0], 100, 5)
    server = replace(MEMORY, policy="dynamic", max_sequences=2, timeout_s=0.5)
    served = simulate(given, TABLE, server)
    assert served.admitted.tolist() == [0.4, 0.4, 5.1, 5.1, 9.0]  # nobody comes after the last
    waits = simulate(requests([0.0, 3.0], 100, 5), TABLE, server)
    assert waits.admitted.tolist() == [0.5, 3.0]


def test_a_static_batch_waits_until_it_is_full() -> None:
    server = replace(MEMORY, policy="static", max_sequences=2)
    served = simulate(requests([0.0, 3.0, 4.0], 100, 5), TABLE, server)
    assert served.admitted.tolist() == [3.0, 3.0, 4.0]


def test_chunks_bound_how_long_a_prompt_keeps_others_from_their_tokens() -> None:
    """Agrawal et al. 2024: the gap between tokens is that of a step of the token budget."""
    long = requests([0.0, 0.5], [100, 60_000], [200, 1])
    whole = simulate(long, TABLE, replace(MEMORY, policy="continuous"))
    chunked = simulate(long, TABLE, replace(MEMORY, token_budget=256))
    # In the whole prompt's step one token is made; in those of chunks, one in each.
    stall = step_s(TABLE, 1, 180.0, [(60_000, 0)])
    assert whole.latency_s[0] > stall
    assert whole.finish[0] >= whole.finish[1]
    assert chunked.finish[0] < chunked.finish[1]
    assert chunked.ttft_s[1] > whole.ttft_s[1]


def test_prefill_first_trades_tokens_of_others_for_an_early_first_one() -> None:
    given = chat(600, 30.0)
    first, last = (
        simulate(given, TABLE, replace(MEMORY, policy="continuous", first=kind, max_sequences=64))
        for kind in ("prefill", "decode")
    )
    assert np.median(first.ttft_s) < np.median(last.ttft_s)
    assert np.nanmedian(first.tpot_s) > np.nanmedian(last.tpot_s)


def test_a_sequence_that_comes_back_from_the_host_is_not_computed_again() -> None:
    given = requests(0.0, [500] * 8, 400)
    tight = replace(MEMORY, kv_tokens=4800)
    again = simulate(given, TABLE, tight)
    swapped = simulate(given, TABLE, replace(tight, preemption="swap", swap_s_per_token=1e-7))
    assert again.totals.preemptions > 0
    assert again.totals.recomputed_tokens > 0
    assert swapped.totals.swapped_tokens > 0
    assert swapped.totals.recomputed_tokens == 0
    assert swapped.totals.prefilled_tokens == given.prompt.sum()
    assert again.totals.prefilled_tokens > given.prompt.sum()


def test_room_that_is_promised_is_never_taken_away() -> None:
    given = requests(0.0, [500] * 40, 400)
    tight = replace(MEMORY, kv_tokens=9600)
    assert simulate(given, TABLE, tight).totals.preemptions > 0
    kept = simulate(given, TABLE, replace(tight, reservation=1.0)).totals
    assert kept.preemptions == 0
    assert kept.kv_held_tokens < simulate(given, TABLE, tight).totals.kv_held_tokens
