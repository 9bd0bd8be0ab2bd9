"""Notes below a sweep: bounds, what engines add, how far closed forms are off."""

from typing import Any

import pyarrow as pa

from roofline.study.grounds import notes

COSTS = {"vllm": {"title": "vLLM", "step_s": 1e-3, "sequence_s": 2e-5, "prefill_s": 3e-3}}
ABOUT: dict[str, Any] = {"of": "batch", "engine_costs": COSTS}


def rows(*entries: tuple[str, str, str]) -> pa.Table:
    names = ("gpu", "basis", "engine")
    return pa.Table.from_pylist([dict(zip(names, entry, strict=True)) for entry in entries])


def test_only_gpus_without_measured_kernels_are_named() -> None:
    found = notes(rows(("a", "datasheet", "vllm"), ("b", "interpolated", "vllm")), ABOUT)
    assert found[0].startswith("Rows of a without an interval are priced at published rates")
    assert "ranked among themselves, after the others" in found[0]
    every = notes(rows(("a", "datasheet", "vllm"), ("b", "datasheet", "vllm")), ABOUT)
    assert every[0].startswith("All rows are priced at published rates")
    assert len(notes(rows(("b", "interpolated", "vllm")), ABOUT)) == 1


def test_rows_with_an_interval_are_no_bounds() -> None:
    mixed = rows(("a", "datasheet", "vllm"), ("b", "datasheet", "vllm"))
    mixed = mixed.append_column("ttft_s_low", pa.array([0.5, None], pa.float64()))
    partly, bounds, _ = notes(mixed, ABOUT)
    assert partly.startswith("Rows with basis datasheet and an interval")
    assert bounds.startswith("Rows of b without an interval")


def test_parts_may_list_their_words_in_another_order() -> None:
    parts = [rows(("a", "datasheet", "vllm")), rows(("b", "interpolated", "vllm"))]
    coded = [
        pa.table({name: part[name].dictionary_encode() for name in part.column_names})
        for part in parts
    ]
    assert notes(pa.concat_tables(coded), ABOUT) == notes(pa.concat_tables(parts), ABOUT)


def test_constants_are_those_of_the_one_engine() -> None:
    one = notes(rows(("b", "measured", "vllm")), ABOUT)[-1]
    assert "kernels: vLLM takes 1.00 ms for each step, 20.0 µs for each of its sequences" in one
    for others in (
        rows(("b", "measured", "sglang")),
        rows(("b", "", "vllm"), ("b", "", "trtllm")),
        rows(("b", "datasheet", "vllm")),
    ):
        assert not any("between kernels" in note for note in notes(others, ABOUT))


def test_clients_and_arrivals_have_errors_of_their_own() -> None:
    there = rows(("b", "interpolated", "vllm"))
    arrivals = notes(there, {"of": "traffic", "units": {"rate_per_s": "request/s"}})[-1]
    clients = notes(there, {"of": "traffic", "units": {"ttft_s": "s"}})[-1]
    assert "at 70% of saturation" in arrivals
    assert "saturation" not in clients
    # Datasheet rates have no interval, and the error is told all the same.
    assert arrivals.startswith("Not in these figures: how far the closed form was off")
    ended = there.append_column("ttft_s_low", pa.array([0.1]))
    said = notes(ended, {"of": "traffic", "units": {"rate_per_s": "request/s"}})[-1]
    assert said.startswith("Low and high hold a mean in 4 of 5 cases")


def test_machines_without_a_price_are_named_with_the_way_to_give_one() -> None:
    there = rows(("b", "measured", "vllm"))
    (note,) = [each for each in notes(there, {**ABOUT, "unpriced": ["a", "b"]}) if "price" in each]
    assert note.startswith("No price is known for a and b: ")
    assert "Give prices" in note
    assert not any("price" in each for each in notes(there, ABOUT))
