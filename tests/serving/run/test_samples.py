"""Answers to one prompt as requests of a simulation: what they share, and what each computes."""

import pytest

import roofline
from roofline.errors import RooflineError

CLIENTS, REQUESTS, PROMPT, OUTPUT = 16, 64, 4010, 64


@pytest.mark.parametrize(("samples", "shared"), [(1, True), (4, True), (4, False)])
def test_whole_pages_of_a_prompt_are_computed_once_for_all_its_answers(
    samples: int, shared: bool
) -> None:
    made = roofline.simulate(
        "llama-3.1-8b",
        samples=samples,
        concurrency=CLIENTS,
        prompt=PROMPT,
        output=OUTPUT,
        requests=REQUESTS,
        prefix_caching=shared,
        calibration="none",
    )
    counts = {row["metric"]: row["value"] for row in made.tables["server"].rows()}
    prompts = REQUESTS // samples
    again = PROMPT % 16 if shared else PROMPT  # pages of vLLM have 16 tokens
    assert counts["prefilled_tokens"] == prompts * PROMPT + (REQUESTS - prompts) * again
    assert counts["decoded_tokens"] == REQUESTS * (OUTPUT - 1)


def test_answers_of_recorded_requests_are_not_asked_for() -> None:
    with pytest.raises(RooflineError, match="samples"):
        roofline.simulate("llama-3.1-8b", trace="trace.csv", samples=4)
