"""Recordings in prompts, and Whisper: work, cache and tokens by hand."""

from typing import Any

import pytest

import roofline
from roofline.errors import RooflineError
from roofline.model.catalog import architecture
from roofline.model.tower import Media, share
from roofline.table import Result

WIDTH, INNER, LAYERS, MEL = 1280, 5120, 32, 128
"""Whisper's large encoder, which three others start from."""


def asked(model: str, **more: Any) -> Result:
    return roofline.analyze(model, "h100-sxm", calibration="none", **({"output": 2} | more))


def work(result: Result, phase: str = "prefill") -> dict[str, float]:
    rows = result.tables["ops"].rows()
    return {row["op"]: row["flops"] for row in rows if row["phase"] == phase}


def moved(result: Result, op: str) -> float:
    rows = result.tables["ops"].rows()
    return float(next(r["hbm_bytes"] for r in rows if (r["op"], r["phase"]) == (op, "decode")))


@pytest.mark.parametrize(
    ("model", "seconds", "passes", "positions", "seen", "tokens", "projector"),
    [
        # Filled up to 30 s, of which the tokens are those of the sound; one matrix, and a token for
        # two positions.
        ("qwen2-audio-7b-instruct", 12.0, 1, 1500, 1500, 300, [(1280, 4096)]),
        # Pieces of 30 s, all of which become tokens; two matrices, and a token for four positions.
        ("voxtral-mini-3b-2507", 45.0, 2, 1500, 1500, 750, [(5120, 3072), (3072, 3072)]),
        # Positions see the others of their 2 s.
        ("qwen2.5-omni-7b", 12.0, 1, 600, 100, 300, [(1280, 3584)]),
    ],
)
def test_work_of_a_tower_by_hand(
    model: str,
    seconds: float,
    passes: int,
    positions: int,
    seen: int,
    tokens: int,
    projector: list[tuple[int, int]],
) -> None:
    """Three prompts with two recordings each."""
    found = work(asked(model, batch=3, prompt=10, recordings=2, recording_s=seconds))
    rows = 3 * 2 * passes * positions
    # The first convolution sees every frame, of which there are two for each position.
    assert found["audio-frames"] == 2 * (2 * rows) * (3 * MEL) * WIDTH
    assert found["audio-frames-joined"] == 2 * rows * (3 * WIDTH) * WIDTH
    assert found["audio-qkv"] == LAYERS * 2 * rows * WIDTH * 3 * WIDTH
    assert found["audio-up"] == found["audio-down"] == LAYERS * 2 * rows * WIDTH * INNER
    assert found["audio-attention"] == pytest.approx(LAYERS * 4 * rows * seen * WIDTH)
    ends = [op for name, op in found.items() if name.startswith("audio-project")]
    # Positions of a token are averaged before the matrix, or stand side by side in it.
    assert ends == [2 * 3 * 2 * tokens * n * k for k, n in projector]
    network = architecture(model)
    assert network.media_tokens(Media(recordings=2, recording_s=seconds)) == 2 * tokens
    wide = network.layers[0].linears(network.d_model)[0].n
    new = 3 * (10 + 2 * tokens)
    assert found["qkv"] == len(network.layers) * 2 * new * network.d_model * wide


def test_a_conformer_by_hand() -> None:
    """Gemma 3n on 20 s: 500 positions, each of which sees 24, and 188 tokens whatever its length.

    The convolutions of 3 × 3 halve time and bins twice: 128 bins and one channel, 64 and 128, 32
    and 32.
    """
    found = work(asked("gemma-3n-e4b-it", batch=1, prompt=10, recordings=1, recording_s=20.0))
    width, rows = 1536, 500
    assert found["audio-frames"] == 2 * (2 * rows) * 64 * 128 * 9
    assert found["audio-frames-joined"] == 2 * rows * 32 * 32 * 9 * 128
    assert found["audio-frames-in"] == 2 * rows * 32 * 32 * width
    for name in ("up", "down", "start-up", "start-down"):
        assert found[f"audio-{name}"] == 12 * 2 * rows * width * 4 * width
    assert found["audio-qkv"] == 12 * 2 * rows * width * 3 * width
    assert found["audio-conv-in"] == 12 * 2 * rows * width * 2 * width
    assert found["audio-conv-out"] == 12 * 2 * rows * width * width
    assert found["audio-attention"] == pytest.approx(12 * 4 * rows * 24 * width)
    assert found["audio-project"] == 2 * 188 * width * 2048


def test_whisper_by_hand() -> None:
    """Encoder once, keys and values of its outputs once for each layer; a step reads them all."""
    batch, prompt, output, layers = 4, 4, 97, 32
    result = asked("whisper-large-v3", batch=batch, prompt=prompt, output=output)
    found, rows = work(result), batch * 1500
    assert found["audio-qkv"] == LAYERS * 2 * rows * WIDTH * 3 * WIDTH
    assert found["audio-attention"] == LAYERS * 4 * batch * 1500**2 * WIDTH
    assert found["audio-cross-kv"] == layers * 2 * rows * WIDTH * 2 * WIDTH
    assert found["qkv"] == layers * 2 * batch * prompt * WIDTH * 3 * WIDTH
    assert found["cross-attention"] == layers * 4 * batch * prompt * 1500 * WIDTH
    step = work(result, "decode")
    assert not [name for name in step if name.startswith("audio")]
    assert step["cross-q"] == step["cross-out"] == layers * 2 * batch * WIDTH * WIDTH
    assert step["cross-attention"] == layers * 4 * batch * 1500 * WIDTH
    # Keys and values in 16 bits, queries and outputs.
    crossed = layers * batch * (2 * 1500 + 2) * WIDTH * 2
    assert moved(result, "cross-attention") == pytest.approx(crossed)
    memory = {row["part"]: row["bytes"] for row in result.tables["memory"].rows()}
    # The last token of an answer is not cached.
    kept = 1500 + prompt + output - 1
    assert memory["KV cache"] == layers * batch * 2 * WIDTH * 2 * kept
    assert memory["weights"] == 2 * 1_543_490_560


def test_a_recording_comes_with_the_first_token_of_a_prompt_that_has_none_for_it() -> None:
    network, media = architecture("whisper-large-v3"), Media()
    assert network.media_tokens(media) == 0
    assert [float(share(network, media, new, before)) for new, before in ((4, 0), (2, 2))] == [1, 0]


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("qwen2-audio-7b-instruct", {"prompt": 100, "recordings": 2}),
        ("whisper-large-v3", {"prompt": 4}),
    ],
)
def test_traffic_encodes_a_recording_once_for_each_prompt(model: str, more: dict[str, Any]) -> None:
    """One client alone waits as long as a static batch of one prompt."""
    static = asked(model, batch=1, output=8, **more).tables["headline"].rows()
    alone = {row["metric"]: row["value"] for row in static}
    result = roofline.simulate(
        model, "h100-sxm", calibration="none", concurrency=1, requests=2, output=8, **more
    )
    found = {row["metric"]: row["mean"] for row in result.tables["headline"].rows()}
    assert found["ttft_s"] == pytest.approx(alone["ttft_idle_s"], rel=5e-3)
    assert found["tpot_s"] == pytest.approx(alone["tpot_s"], rel=5e-3)


@pytest.mark.parametrize(
    ("model", "more", "said"),
    [
        ("llama-3.1-8b", {"recordings": 1}, "no audio tower"),
        ("whisper-large-v3", {"recordings": 2}, "one recording"),
        ("whisper-large-v3", {"recording_s": 40.0}, "30 s of a recording of 40 s"),
        ("qwen2-audio-7b-instruct", {"recordings": 1, "recording_s": 31.0}, "30 s"),
        ("qwen2-audio-7b-instruct", {"images": 1}, "no vision tower"),
        ("qwen2-audio-7b-instruct", {"recordings": -1}, "`recordings` is -1"),
        ("whisper-large-v3", {"prompt": 440, "output": 20}, "448"),
    ],
)
def test_what_a_network_does_not_hear_is_refused(
    model: str, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(RooflineError, match=said):
        asked(model, **({"batch": 1, "prompt": 4} | more))
