"""Probes of a GPU each price something, and each operator has one or a reason."""

from pathlib import Path

import pytest

from roofline.api.setting import make_deployment
from roofline.bench.calibrating import fit_records
from roofline.bench.calibrations import calibration_of
from roofline.bench.held_out import Errors
from roofline.bench.operators import operators
from roofline.bench.prices import PRICES, REFERENCES, SUSTAINED
from roofline.bench.probe import ProbePoint, find, probes
from roofline.bench.profile import FittedProbe, Profile, write
from roofline.bench.published import of_run
from roofline.bench.records import Record, Records
from roofline.bench.shipping.files import fit_of, labels
from roofline.cost.calibration.kernel import FitLabel
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.layout import Layout
from roofline.hardware import catalog
from roofline.model.catalog import architecture
from roofline.records import replace
from tests.bench.gpu.fake_gpu import FakeGpu, installed
from tests.bench.gpu.planted import PLANTED, seconds
from tests.bench.gpu.test_campaign import measured
from tests.bench.test_calibrating import MACHINE

ON_GPU = {e.probe.name: e.probe for e in probes() if "cupy" in e.probe.backends}
NETWORKS = [
    *("llama-3.1-8b:", "llama-3.1-8b:fp8", "llama-3.1-8b:int8", "mixtral-8x7b-v0.1:fp8"),
    *("deepseek-v3:", "qwen3-next-80b-a3b-instruct:"),
]


def test_every_probe_of_a_gpu_prices_something_or_is_held_against_others() -> None:
    assert set(ON_GPU) == {*PRICES, *SUSTAINED, *REFERENCES}
    asked = {(label.kind, label.variant) for label in labels()}
    for name, (_, variant) in PRICES.items():
        assert (ON_GPU[name].kind, variant) in asked, name


@pytest.mark.parametrize("named", NETWORKS)
def test_every_operator_has_a_probe_or_a_reason(named: str) -> None:
    model, _, weights = named.partition(":")
    network, device = architecture(model), catalog.gpu("h100-sxm")
    deployment = make_deployment(network, device, None, Layout(tp=8), weights=weights or None)
    rows = list(operators(deployment))
    assert len({name for name, *_ in rows}) == len(rows) > 15
    assert all(found for *_, found in rows)
    products = [row for row in rows if row[2].startswith("gemm bfloat16")]
    assert {found for *_, found in products} <= {"gemm-bf16"}


@pytest.mark.slow
def test_the_fastest_attention_that_was_measured_stands_for_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFLINE_HOME", str(tmp_path))
    like = fit_of(FitLabel("h100-sxm", "vllm", "prefill-attention", "bfloat16-bfloat16"))
    known = Errors(0.03, 0.04, 0.09)

    def fitted(name: str, scale: float) -> FittedProbe:
        model = replace(like.model, scale=scale, source="my own")
        kind = "prefill-attention"
        return FittedProbe(name, 1, kind, like.arithmetic, "prefill", model, known, known, 0.8)

    for fastest in ("torch-cudnn", "flash-prefill"):
        scales = {"torch-flash": 2.0, "torch-cudnn": 3.0, "flash-prefill": 4.0, fastest: 1.5}
        fits = {name: fitted(name, scale) for name, scale in scales.items()}
        about = {"machine": "h20"}
        made = Profile("mine", "cupy", "h20", fastest, "0" * 16, about, MACHINE, "h20", fits)
        write(made, tmp_path / "calibrations" / "mine.yaml")
        calibration = calibration_of("auto", catalog.gpu("h20"), "vllm")
        assert isinstance(calibration, GpuCalibration)
        (mine,) = (label for label in calibration.labels if label.mine)
        assert mine.provider == PRICES[fastest][0]


@pytest.mark.slow
def test_products_are_priced_by_the_rate_at_the_power_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, FakeGpu(seconds))
    run = measured(tmp_path, ["gemm-bf16"])
    point = next(iter(run.records.rows))
    large = find("gemm-bf16-sustained").probe
    at = {"m": 8192, "n": 8192, "k": 8192}
    work = large.work(at)
    taken = 2.0 * 8192.0**3 / (0.6 * 989.4e12)
    row: Record = replace(
        point,
        point=ProbePoint(large, at, "cold").name,
        probe=large.name,
        at=at,
        work={name: float(getattr(work, name)) for name in point.work},
        samples=(taken,) * 10,
    )
    header = run.records.header
    entries = {**header.probes, large.name: header.probes["gemm-bf16"]}
    both = Records(header.model_copy(update={"probes": entries}), (*run.records.rows, row))
    (fitted,), notes = fit_records(both, of_run(header.environment))
    share = fitted.model.constants["compute"] / PLANTED["product-2"]["compute"]
    assert 0.75 < share < 0.85
    assert any(note.startswith("Large products of gemm-bf16 go on at 8") for note in notes)
