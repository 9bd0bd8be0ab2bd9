"""Fits of one device as they stand for another."""

from dataclasses import replace

import pytest

from roofline.bench.shipping.files import fit_of, labels
from roofline.cost.calibration.devices import HOST, MEASURED, TABLE_SHARE, carried, generation
from roofline.cost.calibration.kernel import Label, nearest
from roofline.cost.kernels.calibrated import Calibrated
from roofline.hardware.catalog import gpu

DECODE = Label("l40s", "vllm", "decode-attention", "bfloat16-bfloat16")
PRODUCT = Label("l40s", "vllm", "gemm", "bfloat16")


def latencies(model: Calibrated) -> dict[str, float]:
    """Constants in seconds. [s]"""
    names = [each.name for each in model.form.constants if each.unit == "s"]
    return {name: model.constants[name] for name in names}


def test_latencies_are_cycles_and_shares_stay() -> None:
    model, a100 = fit_of(DECODE).model, gpu("a100-sxm")
    found = carried(model, DECODE.kind, DECODE.device, a100)
    slower = 2520.0 / 1410.0
    assert latencies(found) == pytest.approx(
        {name: value * slower for name, value in latencies(model).items()}
    )
    shares = model.constants.keys() - latencies(model).keys()
    assert shares
    assert {name: found.constants[name] for name in shares} == {
        name: model.constants[name] for name in shares
    }


def test_launches_of_the_host_and_wires_have_no_clock() -> None:
    blocks = Label("l40s", "vllm", "gemm", "fp8_block")
    model, h100 = fit_of(blocks).model, gpu("h100-sxm")
    found = carried(model, blocks.kind, blocks.device, h100)
    moved = {name for name, value in found.constants.items() if value != model.constants[name]}
    assert "start" in moved
    assert not moved & HOST
    wires = Label("h100-sxm", "nccl", "collective", "all_reduce")
    model = fit_of(wires).model
    assert carried(model, wires.kind, wires.device, gpu("a100-sxm")).constants == model.constants


def test_products_keep_up_what_the_power_of_a_device_lets_them() -> None:
    """No more than the published rate, and as before where nobody measured it."""
    model, server = fit_of(PRODUCT).model, gpu("rtx-pro-6000-server")
    share = model.constants["compute"]

    def compute(sustained: float, kind: str = PRODUCT.kind) -> float:
        other = replace(server, sustained=sustained)
        return carried(model, kind, PRODUCT.device, other).constants["compute"]

    assert compute(2.0 * MEASURED["l40s"].sustained) == pytest.approx(min(2.0 * share, 1.0))
    assert compute(0.5 * MEASURED["l40s"].sustained) == pytest.approx(0.5 * share)
    assert compute(0.0) == share
    assert compute(0.1, "prefill-attention") == share
    assert compute(server.sustained) > share


def test_half_of_a_table_is_carried_to_another_generation() -> None:
    model = fit_of(PRODUCT).model
    assert carried(model, PRODUCT.kind, "l40s", gpu("l40s")) is model
    assert carried(model, PRODUCT.kind, "l40s", gpu("rtx-4090")).table_share == 1.0
    assert carried(model, PRODUCT.kind, "l40s", gpu("a100-sxm")).table_share == TABLE_SHARE


@pytest.mark.parametrize("device", ["a100-pcie", "l4", "h20", "rtx-pro-6000-server", "arc-pro-b60"])
def test_large_products_of_devices_without_rows_are_plausible(device: str) -> None:
    """Compute within a tenth and all of the published rate; memory likewise."""
    wanted = gpu(device)
    found = nearest(labels(), fit_of, wanted, "vllm", "gemm", ("bfloat16",), in_steps=True)
    assert found is not None
    assert found.foreign
    assert found.far == (generation(wanted) != MEASURED[found.fit.label.device].generation)
    assert 0.4 < found.fit.model.constants["compute"] <= 1.0
