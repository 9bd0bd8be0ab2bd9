"""Pictures and beams under traffic, beside the same in a static batch, whose work is counted."""

import itertools
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.cost.sampling import beams_held
from roofline.errors import RooflineError
from roofline.model.catalog import architecture
from roofline.model.tower import Media, share
from roofline.serving.traffic.draw import draw
from roofline.serving.traffic.lengths import ConstantLength
from roofline.serving.traffic.traffic import Traffic, Turns

SEES = "qwen2.5-vl-7b-instruct"


def simulated(model: str, **asked: object) -> dict[str, float]:
    alone: dict[str, object] = {"calibration": "none", "concurrency": 1, "requests": 2}
    result = roofline.simulate(model, "h100-sxm", **(alone | asked))  # type: ignore[arg-type]
    rows = [*result.tables["headline"].rows(), *result.tables["throughput"].rows()]
    rows += result.tables["server"].rows()
    found = {row["metric"]: row.get("mean", row.get("value")) for row in rows}
    return {name: float(value) for name, value in found.items() if value is not None}


@pytest.mark.slow
def test_pictures_add_their_tokens_and_the_towers_time() -> None:
    """A client alone: its first token waits for the text, the pictures' tokens, and the tower."""
    tokens = architecture(SEES).media_tokens(Media(images=2))
    seen = simulated(SEES, prompt=512, output=8, images=2)
    text = simulated(SEES, prompt=512 + tokens, output=8)
    static = roofline.analyze(
        SEES, "h100-sxm", calibration="none", batch=1, prompt=512, output=8, images=2
    )
    rows = [row for row in static.tables["ops"].rows() if row["phase"] == "prefill"]
    vision = sum(row["seconds"] for row in rows if row["op"].startswith("vision-"))
    assert seen["prefilled_tokens"] == text["prefilled_tokens"] == 2 * (512 + tokens)
    assert seen["ttft_s"] - text["ttft_s"] == pytest.approx(vision, rel=0.01)
    assert seen["tpot_s"] == pytest.approx(text["tpot_s"], rel=1e-9)


def test_chunks_of_a_prompt_take_their_shares_of_its_pictures() -> None:
    network, pictures = architecture(SEES), Media(images=3, image_size=700, after=123)
    random = np.random.default_rng(1)
    cuts = np.unique([0, *random.integers(0, 9000, 40), 9000])
    shares = [share(network, pictures, b - a, a) for a, b in itertools.pairwise(cuts)]
    assert sum(shares) == pytest.approx(1.0, rel=1e-12)
    first, last = 123, 123 + network.media_tokens(pictures)
    at = [(max(min(b, last) - max(a, first), 0)) for a, b in itertools.pairwise(cuts)]
    assert shares == pytest.approx([each / (last - first) for each in at])


def test_prompts_that_are_cut_take_the_whole_tower_once() -> None:
    """In chunks of 512 tokens the pictures are in several steps, none of them twice."""

    def busy(**asked: int) -> float:
        found = simulated(SEES, output=2, **asked)
        return found["steps"] * found["step_s"]

    whole, cut = (
        busy(prompt=512, images=2, token_budget=budget)
        - busy(prompt=512 + 2738, token_budget=budget)
        for budget in (8192, 512)
    )
    assert cut == pytest.approx(whole, rel=0.03)


def test_a_session_has_its_pictures_in_its_first_message() -> None:
    plain = Traffic(
        ConstantLength(100), ConstantLength(10), requests=6, turns=Turns(ConstantLength(3))
    )
    seen = Traffic(
        ConstantLength(100),
        ConstantLength(10),
        requests=6,
        turns=Turns(ConstantLength(3)),
        media=50,
    )
    assert (draw(seen).prompt - draw(plain).prompt).tolist() == [50] * 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"model": "llama-3.1-8b", "images": 1}, "no vision tower"),
        ({"model": SEES, "images": 1, "workload": "agent-coding", "rate": 0.1}, "agents"),
        ({"model": "llama-3.1-8b", "beams": 4, "samples": 2}, "`samples`"),
        ({"model": "llama-3.1-8b", "beams": 4, "max_sequences": 3}, "4 beams"),
    ],
)
def test_what_has_no_meaning_is_refused(asked: dict[str, object], said: str) -> None:
    asked = {"calibration": "none", **asked}
    with pytest.raises(RooflineError, match=said):
        roofline.simulate(**asked)  # type: ignore[arg-type]


def test_a_search_alone_has_the_steps_of_a_static_one() -> None:
    asked = {"prompt": 1000, "output": 65, "beams": 4}
    found = simulated("llama-3.1-8b", **asked)
    result = roofline.analyze(
        "llama-3.1-8b",
        "h100-sxm",
        calibration="none",
        batch=1,
        **asked,  # type: ignore[arg-type]
    )
    static = {row["metric"]: row["value"] for row in result.tables["headline"].rows()}
    assert found["tpot_s"] == pytest.approx(static["tpot_s"], rel=5e-3)
    plain = simulated("llama-3.1-8b", prompt=1000, output=65)
    assert found["tpot_s"] > plain["tpot_s"]


def test_one_beam_is_no_search() -> None:
    asked = {"prompt": 300, "output": 40, "concurrency": 8, "requests": 40}
    assert simulated("llama-3.1-8b", beams=1, **asked) == simulated("llama-3.1-8b", **asked)


def test_searches_hold_what_their_family_trees_do() -> None:
    """Room for prompts: that of one, cut by the mean tokens that four beams hold."""
    asked = {"prompt": 1000, "output": 65}
    rows = {}
    for beams in (1, 4):
        result = roofline.simulate(
            "llama-3.1-8b", "h100-sxm", calibration="none", concurrency=1, requests=2,
            beams=beams, **asked,  # type: ignore[arg-type]
        )  # fmt: skip
        rows[beams] = {row["part"]: row["tokens"] for row in result.tables["cache"].rows()}
    steps = np.arange(1, 65)
    held = np.mean([beams_held(4, 1000, int(step), page=16) for step in steps])
    known = np.mean(np.ceil((1000 + steps + 3) / 16) * 16)
    assert rows[4]["room"] == pytest.approx(rows[1]["room"] * known / held, rel=1e-3)


def test_answers_alone_are_denoised_as_a_static_batch_is() -> None:
    asked: dict[str, Any] = {"prompt": 512, "output": 256, "denoising_steps": 128, "block": 32}
    found = simulated("llada-8b-base", **asked)
    result = roofline.analyze("llada-8b-base", "h100-sxm", calibration="none", batch=1, **asked)
    static = {row["metric"]: row["value"] for row in result.tables["headline"].rows()}
    assert found["latency_s"] == pytest.approx(static["latency_s"], rel=5e-3)
    assert found["ttft_s"] == pytest.approx(static["first_block_s"], rel=1e-2)


def test_answers_that_are_denoised_together_take_the_steps_of_a_batch() -> None:
    """Eight clients start at once and go in step: eight prompts, then steps of eight blocks."""
    asked: dict[str, Any] = {"prompt": 512, "output": 256, "denoising_steps": 128, "block": 32}
    found = simulated("llada-8b-base", concurrency=8, requests=8, **asked)
    result = roofline.analyze("llada-8b-base", "h100-sxm", calibration="none", batch=8, **asked)
    static = {row["metric"]: row["value"] for row in result.tables["headline"].rows()}
    assert found["latency_s"] == pytest.approx(static["latency_s"], rel=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"denoising_steps": 128}, "give `block`"),
        ({"block": 32}, "`block`"),
        ({"denoising_steps": 600, "block": 32}, "every step fills in a token"),
    ],
)
def test_steps_that_fill_in_nothing_are_refused(asked: dict[str, int], said: str) -> None:
    model = "llada-8b-base" if "denoising_steps" in asked else "llama-3.1-8b"
    with pytest.raises(RooflineError) as error:
        roofline.simulate(model, prompt=512, output=256, rate=1.0, **asked)  # type: ignore[arg-type]
    assert said in f"{error.value.message} {error.value.hint}"
