"""Pictures that are encoded on instances of their own: times by hand, numbers by events."""

from typing import Any

import pytest

import roofline
from roofline.errors import InputError
from roofline.hardware.catalog import gpu, node
from roofline.records import replace

ASKED: dict[str, Any] = {
    "model": "qwen2.5-vl-7b-instruct", "prefill": "tp1", "decode": "tp1", "prompt": 512,
    "output": 256, "images": 2, "calibration": "none",
}  # fmt: skip


def rows(**more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    apart, inside = roofline.disaggregate(**ASKED, **more).tables["encoders"].rows()
    return dict(apart), dict(inside)


def keeps_up(instances: int, encode_s: float, rate: float, number: int = 4000) -> bool:
    """Whether prompts at equal gaps wait no longer at the end than at the start, one by one."""
    free, waits = [0.0] * instances, []
    for place in range(number):
        came = place / rate
        first = min(range(instances), key=free.__getitem__)
        start = max(free[first], came)
        free[first] = start + encode_s
        waits.append(start - came)
    return waits[-1] < waits[number // 2] + encode_s


def test_times_are_those_of_a_prompt_that_goes_through_all_stages() -> None:
    answer = roofline.disaggregate(**ASKED, encode="tp1")
    apart, inside = answer.tables["encoders"].rows()
    ttft_s = next(r["value"] for r in answer.rows("headline") if r["metric"] == "ttft_s")
    assert apart["ttft_s"] == pytest.approx(apart["encode_s"] + apart["send_s"] + ttft_s)
    # A tower in the prefill pool takes what the pool of its own takes, but for the step around it.
    assert inside["ttft_s"] == pytest.approx(ttft_s + inside["encode_s"])
    assert inside["encode_s"] == pytest.approx(apart["encode_s"], rel=0.01)
    whole = roofline.disaggregate(**ASKED)
    both_s = next(r["value"] for r in whole.rows("headline") if r["metric"] == "ttft_s")
    assert both_s == pytest.approx(inside["ttft_s"])


def test_what_is_sent_is_a_vector_for_each_token_over_the_network() -> None:
    apart, _ = rows(encode="tp1")
    tokens, width = 2 * 37 * 37, 3584
    wires = node("hgx-h100-8").network
    assert wires is not None
    sent = tokens * width * 2 / wires.rate_between_nodes
    assert apart["send_s"] == pytest.approx(wires.latency_s + sent)


@pytest.mark.parametrize("device", [None, "l40s"])
def test_there_are_as_many_instances_as_keep_up_and_no_more(device: str | None) -> None:
    apart, _ = rows(encode="tp1", encode_gpu=device)
    number, each_s = apart["instances"], max(apart["encode_s"], apart["send_s"])
    assert keeps_up(number, each_s, apart["requests_per_s"])
    assert number == 1 or not keeps_up(number - 1, each_s, apart["requests_per_s"])


def test_a_pool_on_a_device_without_a_price_has_none() -> None:
    apart, inside = rows(encode="tp1", encode_gpu=replace(gpu("l40s"), usd_per_hour=0.0))
    assert apart["usd_per_mtok"] is None
    assert inside["usd_per_mtok"] > 0


def test_a_pool_that_encodes_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="encodes no pictures"):
        roofline.disaggregate(**{**ASKED, "images": 0}, encode="tp1")
    with pytest.raises(InputError, match="does not take `encode_gpu`"):
        roofline.disaggregate(**ASKED, encode_gpu="l40s")
