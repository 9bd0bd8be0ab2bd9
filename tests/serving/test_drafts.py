"""Drafts: their parts, what they read and hold, and networks that cannot draft."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from roofline.cost.layout import Layout
from roofline.errors import InputError, LayoutError
from roofline.model import catalog
from roofline.model.parameters import parts as parameter_parts
from roofline.records import replace
from roofline.serving import drafts
from roofline.serving.acceptance import parse
from roofline.serving.draft_trees import chain
from roofline.serving.drafts import MTP, NGRAM
from roofline.serving.rounds import sheet
from roofline.serving.speculative import speculate
from roofline.serving.static import static_batch
from roofline.serving.workload import Workload
from tests.serving.deployments import on
from tests.serving.speculating import KINDS, WORK, alike, deepseek, made, target


def predicting() -> Iterator[str]:
    for name in catalog.names():
        if MTP in catalog.architecture(name).other_parameters:
            yield name


def test_layers_that_predict_further_tokens_have_the_parameters_that_were_counted() -> None:
    """Every network's head is counted, or refused."""
    priced, refused = set(), set()
    for name in predicting():
        network = catalog.architecture(name)
        host = on(name, "b200-sxm", weights="bf16")
        host = replace(host, architecture=network.stored_as("bf16"))
        try:
            draft = drafts.mtp(host)
        except InputError:
            refused.add(name)
            continue
        weights, _ = drafts.held(draft, host, 1, 100, 1)
        assert weights == 2 * network.other_parameters[MTP], name
        priced.add(name)
    assert {"deepseek-v3", "glm-4.5", "glm-5.2", "mimo-7b-base", "qwen3.5-27b"} <= priced
    assert all(name.startswith(("deepseek-v4", "nvidia-nemotron-3")) for name in refused)


def test_heads_weigh_what_they_are_made_of() -> None:
    host = on("llama-2-7b", weights="bf16")
    d, v = 4096, 32000
    heads, cache = drafts.held(drafts.medusa(host), host, 8, 100, 3)
    assert (heads, cache) == (3 * 2 * (d * d + d + v * d), 0.0)
    layer = (parameter_parts(host.architecture)["mlp"] // 32) + 4 * d * d + 2 * d
    eagle, cache = drafts.held(drafts.eagle(host), host, 8, 100, 3)
    assert eagle == 2 * (layer + 2 * d * d)
    assert cache == 8 * 100 * 2 * d * 2  # one layer of keys and values
    assert drafts.held(NGRAM, host, 8, 100, 3) == (0.0, 0.0)


@pytest.mark.parametrize("weights", ["fp8", "int4-awq", "int8"])
def test_heads_trained_apart_are_not_quantised(weights: str) -> None:
    narrow, wide = on(weights=weights), on()
    for make in (drafts.eagle, drafts.medusa):
        held = [drafts.held(make(host), host, 1, 10, 2)[0] for host in (narrow, wide)]
        assert held[0] == held[1]
        rounds = [
            sheet(make(host), host, WORK, [chain(alike(0.7), 2)], np.array([4.0])).round()
            for host in (narrow, wide)
        ]
        assert rounds[0].draft_s == rounds[1].draft_s
        assert rounds[0].verify_s < rounds[1].verify_s


def test_a_model_of_its_own_is_held_whole() -> None:
    small = on("llama-3.2-1b")
    weights, cache = drafts.held(drafts.model(small), target(), 8, 100, 3)
    assert weights == pytest.approx(2 * 1_235_814_400)
    assert cache == 8 * 100 * 16 * 2 * 8 * 64 * 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_batch_that_fits_is_the_last_one(kind: str) -> None:
    most = made(kind).most
    assert made(kind, work=replace(WORK, batch=most)).free >= 0
    assert made(kind, work=replace(WORK, batch=most + 1)).free < 0


def test_drafted_tokens_are_cached_and_have_logits() -> None:
    speculation = made("ngram", length=4)
    plain, mine = speculation.plain.memory, speculation.memory
    assert mine.kv == plain.kv * (WORK.longest + 4) / WORK.longest
    assert mine.weights == plain.weights
    long = made("ngram", work=Workload(512, 64, 12), length=16)
    logits = 512 * 17 * 128256 * (2 + 4)  # beside them, in fp32
    assert long.memory.activations >= logits > long.plain.memory.activations


def test_heads_read_their_weights_once_each() -> None:
    (first, *others) = made("medusa", length=4).passes
    assert others == [first] * 3
    host = target()
    d, v = 4096, 128256
    read = 2 * (d * d + d + v * d)
    moved = 2 * 8 * (2 * d + d + v)
    assert first == pytest.approx((read + moved) / host.node.gpu.hbm_bytes_per_s, rel=1e-12)


@pytest.mark.slow
def test_a_layer_on_top_takes_in_what_was_accepted() -> None:
    never, always = (made("eagle", rate, length=3).passes for rate in ("0", "1"))
    assert never[1:] == always[1:]
    assert never[0] < always[0]


@pytest.mark.slow
def test_groups_with_sequences_of_their_own_draft_for_those() -> None:
    """Eight groups of two sequences: each drafts for two."""
    host, small = deepseek(Layout(dp=8, ep=8)), on("llama-3.2-1b", "h200-sxm")
    work, one = Workload(16, 512, 12), Workload(2, 512, 12)
    apart = speculate(host, drafts.model(small), parse("0.7"), work, length=2)
    alone = speculate(
        on("llama-3.1-8b", "h200-sxm"), drafts.model(small), parse("0.7"), one, length=2
    )
    assert apart.passes == pytest.approx(alone.passes)
    assert apart.draft_kv == alone.draft_kv


@pytest.mark.slow
def test_the_prompt_is_taken_in_by_what_drafts() -> None:
    one = made(work=Workload(8, 512, 12))
    turns = made(work=Workload(8, 512, 12, prefill_batch=2))
    small = static_batch(on("llama-3.2-1b"), Workload(8, 512, 1))
    assert one.prefill.seconds == pytest.approx(small.ttft_s)
    assert one.ttft_s() == pytest.approx(one.plain.ttft_s + small.ttft_s)
    assert float(turns.prefill.seconds) > float(one.prefill.seconds)
    assert made("ngram").ttft_s() == made("ngram").plain.ttft_s
    latency = one.latency_s()
    assert (latency - one.ttft_s()) / 11 == pytest.approx(one.round.tpot_s)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: drafts.mtp(on()), "no layer that predicts"),
        (lambda: drafts.mtp(on("deepseek-v4-flash", "b200-sxm")), "not like its others"),
        (lambda: drafts.eagle(deepseek()), "EAGLE head for deepseek-v3"),
        (lambda: drafts.eagle(on("mamba2-2.7b")), "EAGLE head"),
        (lambda: drafts.model(on("bert-base-uncased")), "does not generate"),
        (lambda: drafts.draft_layout(on("llama-3.1-70b", tp=4), 8), "8 devices share"),
        (lambda: drafts.draft_layout(on(), 0), "0 devices share"),
        (lambda: made("ngram", work=Workload(8, 512, 1)), "nothing is decoded"),
        (lambda: made("ngram", length=0, tokens=0), "nothing to draft"),
        (lambda: made("ngram", length=2, tokens=3), "by length and tokens"),
        (lambda: made("ngram", length=17), "draft length is 17"),
        (lambda: made("ngram", length=-1), "draft length is -1"),
        (lambda: made(work=Workload(8, 512, 130_900)), "is made for"),
        (
            lambda: speculate(
                on("llada-8b-base"), NGRAM, parse("0.5"), Workload(1, 64, 8), length=1
            ),
            "does not decode token by token",
        ),
        (
            lambda: speculate(on(layout=Layout(tp=2, pp=2)), NGRAM, parse("0.5"), WORK, length=1),
            "TP 2 × PP 2 is not priced",
        ),
        (
            lambda: speculate(
                target(), drafts.model(on("gpt2")), parse("0.5"), Workload(1, 1024, 8), length=1
            ),
            "gpt2 is made for 1,024",
        ),
    ],
)
def test_what_cannot_be_is_refused(ask: Any, said: str) -> None:
    with pytest.raises((InputError, LayoutError), match=re.escape(said)):
        ask()
