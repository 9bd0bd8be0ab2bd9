"""Answers and beams that share a prompt: laws, and counts by hand."""

from itertools import pairwise
from typing import Any

import pytest

import roofline
from roofline import api
from roofline.cost.sampling import Sampling, own_tokens
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.explain.figures import explain_all
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.workload import Workload
from tests.formulas import evaluated
from tests.serving.deployments import on

WORK = Workload(4, 1000, 100)
TOKEN = 2 * 8 * 128 * 32 * 2  # keys and values of 8 heads of 128, 32 layers, 2 B


def batch(beams: int = 1, samples: int = 1, sequences: int = 4, **more: Any) -> StaticBatch:
    host = on("llama-3.1-8b", sampling=Sampling(beams=beams, **more))
    return static_batch(host, replace(WORK, batch=sequences, samples=samples))


def test_one_beam_and_one_sample_are_plain_decoding() -> None:
    plain = static_batch(on("llama-3.1-8b"), WORK)
    one = batch()
    assert (one.ttft_s, one.tpot_s, one.memory) == (plain.ttft_s, plain.tpot_s, plain.memory)


def test_more_beams_are_never_faster() -> None:
    every = [batch(beams) for beams in (1, 2, 4, 8)]
    for fewer, more in pairwise(every):
        assert more.tpot_s > fewer.tpot_s
        assert more.ttft_s >= fewer.ttft_s
        assert more.throughput_tok_s < fewer.throughput_tok_s
        assert more.memory.kv > fewer.memory.kv


def test_samples_are_prefilled_once_and_decode_as_so_many_sequences() -> None:
    made, prompts, all_ = batch(samples=4), batch(), batch(sequences=16)
    assert made.ttft_s == prompts.ttft_s
    assert made.tpot_s == all_.tpot_s
    assert made.throughput_tok_s == pytest.approx(16 * 100 / made.latency_s)


def test_beams_are_samples_with_a_choice_and_copies() -> None:
    beams, samples = batch(beams=4), batch(samples=4)
    added = beams.decode.keys() - samples.decode.keys()
    assert added == {"sampling-convert", "sampling-beams", "copy-on-write"}
    more = sum(beams.decode[name].seconds for name in added)
    assert beams.tpot_s == pytest.approx(samples.tpot_s + more)
    assert beams.throughput_tok_s < samples.throughput_tok_s / 4  # of four beams one is the answer


def test_pages_of_a_prompt_are_kept_once() -> None:
    # 62 pages of 16 are shared; 8 tokens of the prompt and 99 of the answer are 7 pages each.
    assert own_tokens(4, 1, 1000, 99, page=16) == 112
    assert batch(samples=4).memory.kv == 4 * (1099 + 3 * 112) * TOKEN
    own = float(own_tokens(1, 4, 1000, 99, page=16))
    assert batch(beams=4).memory.kv == pytest.approx(4 * (1099 + 3 * own) * TOKEN)


@pytest.mark.parametrize("given", [{"beams": 4}, {"samples": 4}, {"temperature": 0.7}])
def test_derivations_give_what_they_explain(given: dict[str, Any]) -> None:
    made = batch(**given)
    every = explain_all(made)
    for name in ("kv", "throughput", "latency"):
        assert evaluated(every[name].substituted) == pytest.approx(every[name].value, rel=0.01)


def test_a_result_says_what_was_asked_and_has_its_operators() -> None:
    found = api.analyze(beams=4, batch=4, prompt=1000, output=100, calibration="none")
    ops = {row["op"]: row for row in found.tables["ops"].rows() if row["phase"] == "decode"}
    assert ops["sampling-beams"]["hbm_bytes"] == 24 * 16 * 128_256
    assert found.metadata["beams"] == 4
    assert any("4 beams, which are one answer" in note for note in found.notes)
    plain = api.analyze(batch=4, prompt=1000, output=100, calibration="none")
    assert not any(key in plain.metadata for key in ("beams", "samples", "temperature"))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"samples": 2, "beams": 2}, "2 samples of 2 beams"),
        ({"samples": 2, "gpu": "h100-sxm", "pp": 2}, "does not take a pipeline"),
        ({"beams": 2, "kv_cache": False}, "does not take `kv_cache=False`"),
        ({"beams": 2, "convention": "textbook"}, "does not take `samples` or `beams`"),
        ({"top_k": 5, "convention": "textbook"}, "does not take `temperature`, `top_k`"),
        ({"fusion": "none", "convention": "textbook"}, "does not take `fusion`"),
        ({"samples": 0}, "samples is 0"),
        ({"top_k": 200_000}, "top-k is 200,000"),
    ],
)
def test_what_is_not_priced_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        api.analyze(**asked)


def test_clients_who_draw_wait_for_the_passes_over_the_logits() -> None:
    """Bytes of a logit by hand: convert 6, temperature 8, softmax 12, draw 16."""
    asked: dict[str, Any] = {"gpu": "h100-sxm", "prompt": 16, "output": 400, "calibration": "none"}
    asked |= {"concurrency": 32, "requests": 320, "length_spread": 0.0}
    greedy = roofline.simulate("llama-3.1-8b", **asked).tpot.value
    drawn = roofline.simulate("llama-3.1-8b", **asked, temperature=0.7, top_p=0.9).tpot.value
    assert drawn - greedy == pytest.approx(42 * 32 * 128_256 / 3.35e12, rel=1e-6)
