"""T5: the prompt passes the encoder once, the decoder attends to it and to itself, by hand."""

import pytest

import roofline
from roofline.errors import InputError

BATCH, PROMPT, OUTPUT = 4, 400, 65
LAYERS, WIDTH, INNER, VOCAB = 12, 768, 3072, 32128


def work(phase: str) -> dict[str, float]:
    result = roofline.analyze(
        "t5-base", "h100-sxm", batch=BATCH, prompt=PROMPT, output=OUTPUT, calibration="none"
    )
    return {row["op"]: row["flops"] for row in result.tables["ops"].rows() if row["phase"] == phase}


def test_a_prompt_passes_the_encoder_and_one_token_the_decoder() -> None:
    found, read = work("prefill"), BATCH * PROMPT
    assert found["encoder-qkv"] == LAYERS * 2 * read * WIDTH * 3 * WIDTH
    # All see each other.
    assert found["encoder-attention"] == LAYERS * 4 * BATCH * PROMPT**2 * WIDTH
    assert found["encoder-up"] == found["encoder-down"] == LAYERS * 2 * read * WIDTH * INNER
    assert found["cross-kv"] == LAYERS * 2 * read * WIDTH * 2 * WIDTH
    assert found["qkv"] == LAYERS * 2 * BATCH * WIDTH * 3 * WIDTH
    assert found["cross-q"] == found["cross-out"] == LAYERS * 2 * BATCH * WIDTH * WIDTH
    assert found["attention"] == LAYERS * 4 * BATCH * PROMPT * WIDTH
    assert found["lm-head"] == 2 * BATCH * WIDTH * VOCAB


def test_a_step_of_the_decoder_reads_the_prompt_and_the_answer_so_far() -> None:
    """The mean step of 64 sees the prompt and 32.5 tokens of the answer, itself among them."""
    found = work("decode")
    assert not [name for name in found if name.startswith("encoder") or name == "cross-kv"]
    assert found["cross-q"] == LAYERS * 2 * BATCH * WIDTH * WIDTH
    mean = LAYERS * 4 * BATCH * (PROMPT + (1 + 64) / 2) * WIDTH
    assert found["attention"] == pytest.approx(mean, rel=1e-3)


def test_weights_and_cache_are_those_of_both_halves() -> None:
    result = roofline.analyze(
        "t5-base", "h100-sxm", batch=BATCH, prompt=PROMPT, output=OUTPUT, calibration="none"
    )
    memory = {row["part"]: row["bytes"] for row in result.tables["memory"].rows()}
    assert memory["weights"] == 2 * 222_903_552
    assert memory["KV cache"] == LAYERS * 2 * WIDTH * 2 * BATCH * (PROMPT + OUTPUT - 1)


def test_prompts_that_an_encoder_reads_join_nobody() -> None:
    with pytest.raises(InputError, match="reads its prompts with an encoder"):
        roofline.simulate("t5-base", "h100-sxm", prompt=100, output=10, concurrency=1)
