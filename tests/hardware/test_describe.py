import pytest

from roofline.hardware import catalog
from roofline.hardware.describe import describe, listing


@pytest.mark.parametrize("name", catalog.gpu_names())
def test_every_figure_is_described_once_with_its_source(name: str) -> None:
    gpu = catalog.gpu(name)
    table = describe(gpu)
    assert len(table) == len(gpu.facts) + len(gpu.flops_per_s)
    assert len(set(table["figure"])) == len(table)
    for row in table.rows():
        assert row["value"]
        assert row["source"]
        assert row["where"] or (row["source"] == "assumed" and row["note"])


def test_the_h100_is_described_as_its_file_says() -> None:
    rows = {row["figure"]: row for row in describe(catalog.gpu("h100")).rows()}
    assert rows["memory bandwidth"]["value"] == "3.35 TB/s"
    assert rows["bf16, dense"]["value"] == "989.4 TFLOP/s"
    assert rows["nvlink bandwidth"]["value"] == "450 GB/s"
    assert rows["nvlink latency"]["value"] == "1 µs"
    assert rows["nvlink each further peer"]["basis"] == "assumed"
    assert rows["ridge, bf16"]["value"] == "295.3 FLOP/B"
    assert rows["ridge, bf16"]["basis"] == "datasheet"
    assert rows["price"]["basis"] == "assumed"
    assert rows["price"]["note"].startswith("2025-")
    assert rows["shared memory bandwidth, all"]["note"] == "132 × 128 B × 1980 MHz"


def test_a_product_of_a_guess_is_a_guess() -> None:
    rows = {row["figure"]: row for row in describe(catalog.gpu("mi300x")).rows()}
    assert rows["multiprocessors"]["value"] == "304"
    assert rows["shared memory bandwidth, all"]["basis"] == "assumed"
    assert "shared_bytes_per_clock assumed" in rows["shared memory bandwidth, all"]["note"]


def test_the_listing_has_every_gpu_in_base_units() -> None:
    table = listing()
    assert list(table["name"]) == catalog.gpu_names()
    rows = {row["name"]: row for row in table.rows()}
    h100 = catalog.gpu("h100-sxm")
    assert rows["h100-sxm"] == {
        "name": "h100-sxm",
        "memory": h100.nominal_bytes,
        "bandwidth": h100.hbm_bytes_per_s,
        "dense16": h100.rate("bf16"),
        "dense8": h100.rate("fp8"),
        "ridge": h100.ridge("bf16"),
        "power": 700.0,
        "price": h100.usd_per_hour,
        "confidence": "high",
    }
    assert rows["v100-sxm"]["dense16"] == catalog.gpu("v100-sxm").rate("fp16")
    assert rows["v100-sxm"]["dense8"] is None
    assert rows["h20"]["price"] is None
    assert rows["tpu-v5p"]["power"] is None


def test_the_listing_says_what_is_assumed() -> None:
    columns = listing().columns
    assert (columns["price"].basis, columns["price"].unit) == ("assumed", "$/h")
    assert (columns["bandwidth"].basis, columns["bandwidth"].unit) == ("datasheet", "B/s")
