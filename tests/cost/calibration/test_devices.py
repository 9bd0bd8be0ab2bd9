"""Fits of one device as they stand for another."""

import pytest

from roofline.bench.shipping.files import fit_of, labels
from roofline.cost.calibration.kernel import (
    ELSEWHERE,
    HOST,
    MEASURED,
    FitLabel,
    KernelFit,
    carried,
    generation,
    nearest,
)
from roofline.cost.kernels.form import FittedForm
from roofline.hardware.catalog import gpu
from roofline.records import replace

DECODE = FitLabel("l40s", "vllm", "decode-attention", "bfloat16-bfloat16")
PRODUCT = FitLabel("l40s", "vllm", "gemm", "bfloat16")


def latencies(model: FittedForm) -> dict[str, float]:
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
    blocks = FitLabel("l40s", "vllm", "gemm", "fp8_block")
    model, h100 = fit_of(blocks).model, gpu("h100-sxm")
    found = carried(model, blocks.kind, blocks.device, h100)
    moved = {name for name, value in found.constants.items() if value != model.constants[name]}
    assert "start" in moved
    assert not moved & HOST
    wires = FitLabel("h100-sxm", "nccl", "collective", "all_reduce")
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


def test_clocks_of_one_chip_are_one_clock() -> None:
    """A B200 and a GB200 start a product alike in fits of their own rows."""
    start = {
        device: fit_of(PRODUCT._replace(device=device)).model.constants["start"]
        for device in ("b200-sxm", "gb200")
    }
    assert start["b200-sxm"] == pytest.approx(start["gb200"], rel=0.02)
    model = fit_of(PRODUCT._replace(device="b200-sxm")).model
    found = carried(model, PRODUCT.kind, "b200-sxm", gpu("gb200"))
    assert found.constants["start"] == model.constants["start"]
    assert carried(model, PRODUCT.kind, "b200-sxm", gpu("b200-sxm")) is model


@pytest.mark.parametrize("device", ["a100-pcie", "l4", "h20", "rtx-pro-6000-server", "arc-pro-b60"])
def test_large_products_of_devices_without_rows_are_plausible(device: str) -> None:
    """Between two fifths and all of the published rate."""
    wanted = gpu(device)
    found = nearest(labels(), fit_of, wanted, "vllm", "gemm", ("bfloat16",), in_steps=True)
    assert found is not None
    assert found.foreign
    assert found.far == (generation(wanted) != MEASURED[found.fit.label.device].generation)
    assert 0.4 < found.fit.model.constants["compute"] <= 1.0


def test_a_device_of_another_vendor_that_was_measured_itself_is_known() -> None:
    """Nothing is carried to it, and nothing added to the spread of its own fit."""
    wanted = gpu("arc-pro-b60")
    mine = fit_of(PRODUCT)._replace(label=PRODUCT._replace(device=wanted.name))

    def found(*known: FitLabel) -> KernelFit:
        fit = nearest(
            known, lambda _: mine, wanted, "vllm", PRODUCT.kind, (PRODUCT.variant,), in_steps=True
        )
        assert fit is not None
        return fit

    assert found(mine.label).spread == 0.0
    assert found(PRODUCT).spread >= ELSEWHERE
