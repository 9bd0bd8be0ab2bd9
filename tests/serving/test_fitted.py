"""Claims of a calibrated answer about itself hold."""

import re

import pytest

from roofline.api.setting import make_deployment
from roofline.cost.deployment import Offload
from roofline.hardware.catalog import gpu
from roofline.model.catalog import architecture
from roofline.serving.explain.figures import explain_all
from roofline.serving.notes import notes
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.workload import Workload
from roofline.table import Derivation


def batch(device: str, size: int, offload: Offload | None = None, prompt: int = 128) -> StaticBatch:
    network = architecture("llama-3.1-8b")
    given = make_deployment(
        network, gpu(device), None, calibration="auto", offload=offload or Offload(weights=0.0)
    )
    return static_batch(given, Workload(size, prompt, 16))


def every(derivation: Derivation) -> list[Derivation]:
    return [derivation, *(below for entry in derivation.inputs for below in every(entry))]


@pytest.mark.parametrize("weights", [0.0, 0.5])
def test_the_least_at_published_rates_is_no_more_than_the_time(weights: float) -> None:
    """Loads that are made ahead are hidden behind other operators."""
    answer = batch("h100-sxm", 16, Offload(weights=weights))
    step = next(each for each in every(explain_all(answer)["tpot"]) if "the least" in each.note)
    found = re.search(r"least at published rates is ([\d.]+) (m?s)", step.note)
    assert found is not None
    assert float(found[1]) * {"s": 1.0, "ms": 1e-3}[found[2]] <= step.value * 1.001


@pytest.mark.parametrize(
    ("device", "prompt", "cached"),
    [("l40s", 128, True), ("h100-sxm", 128, True), ("h100-sxm", 16384, False)],
)
def test_a_roof_above_the_time_is_explained(device: str, prompt: int, cached: bool) -> None:
    """Activations that are small may stay in the last-level cache from one layer to the next."""
    answer = batch(device, 1, prompt=prompt)
    above = any("above 100 %" in note for note in notes(answer, 1))
    entries = [*answer.prefill.values(), *answer.decode.values()]
    local = [each for each in entries if each.measured and each.op.kind != "collective"]
    assert above == cached
    assert above == any(0.0 < each.seconds < each.roof for each in local)
