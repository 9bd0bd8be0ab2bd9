"""Forms of probes, and the rates that plans and fits are given."""

import pytest

from roofline.bench.forms import ON_GPU, PRODUCTS, columns, form_of, needed, rate_of
from roofline.bench.probe import Probe, points, probes
from roofline.bench.published import of_gpu, of_run
from roofline.bench.records import WORK, Record
from roofline.cost.kernels.catalog import FORMS
from roofline.errors import DocumentError
from roofline.hardware.catalog import gpu

EVERY = [entry.probe for entry in probes()]
H100 = of_gpu(gpu("h100-sxm"), "h100-sxm", "nvlink", 8)


@pytest.mark.parametrize("provider", ["numpy", "cupy"])
@pytest.mark.parametrize("probe", EVERY, ids=lambda probe: probe.name)
def test_every_probe_has_a_form_that_its_rows_feed(provider: str, probe: Probe) -> None:
    if provider not in probe.backends:
        return
    name = form_of(probe.kind, probe.arithmetic, provider, probe.form)
    form = FORMS[name]
    rows = []
    for point in points(probe):
        work = {key: float(getattr(probe.work(point.at), key)) for key in WORK}
        about = (probe.name, probe.kind, point.state, point.regime, probe.arithmetic)
        names = (point.name, *about)
        rows.append(Record(*names, point.at, work, reuse=1e6, samples=(1.0,), stopped="converged"))
    dims = columns(rows, name, H100)
    times = form.seconds(dims, H100.of(probe.arithmetic), {c.name: c.prior for c in form.constants})
    assert times.shape == (len(rows),)
    assert (times > 0).all()
    for coordinate in form.coordinates:
        assert (dims[coordinate] > 0).all(), coordinate
    assert probe.devices({"ranks": 2}) in (1, 2)


def test_a_form_gets_more_points_than_it_needs() -> None:
    for name, form in FORMS.items():
        assert needed(name) >= 2 * len(form.constants) + 4
    assert needed("decode-own") > needed("memory") == 28


def test_products_have_the_widths_of_their_arithmetic() -> None:
    """Bytes of the weights alone: a huge layer of one token, at the datasheet's rate of memory."""
    widths = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
    assert set(widths) == set(PRODUCTS)
    dims = {"m": 1.0, "n": 2.0**17, "k": 2.0**17}
    for arithmetic, width in widths.items():
        form = FORMS[PRODUCTS[arithmetic]]
        constants = {c.name: c.prior for c in form.constants} | {"memory": 1.0, "depth": 1e-12}
        import numpy as np

        columns_ = {name: np.array([value]) for name, value in dims.items()}
        (found,) = form.seconds(columns_, H100.of(arithmetic), constants | {"knee": 8.0})
        assert found == pytest.approx(width * 2.0**34 / H100.machine.hbm_bytes_per_s, rel=0.01)


def test_a_constant_is_held_against_what_it_is_a_share_of() -> None:
    constants = {c.name: c for c in FORMS["gemm-fp8"].constants}
    machine = H100.of("fp8")
    assert rate_of(constants["compute"], machine) == (1978.9e12, "FLOP/s")
    assert rate_of(constants["memory"], machine) == (3.35e12, "B/s")
    assert rate_of(constants["cache"], machine) == (machine.l2_bytes_per_s, "B/s")
    assert rate_of(constants["knee"], machine)[0] == 0.0
    absolute = {c.name: c for c in FORMS["processor-product"].constants}
    assert rate_of(absolute["read"], machine) == (3.35e12, "B/s")


def test_kinds_have_usual_forms_that_exist() -> None:
    assert {*ON_GPU.values(), *PRODUCTS.values()} <= set(FORMS)
    assert form_of("scan", "bf16", "cupy") == "roof"
    assert form_of("pointwise", "", "cupy", "pass-4") == "pass-4"


def test_a_gpu_computes_at_the_rate_of_each_arithmetic() -> None:
    assert H100.of("bf16").flops_per_s == 989.4e12
    assert H100.of("fp32").flops_per_s == 66.9e12
    assert H100.of("").flops_per_s == H100.machine.flops_per_s
    assert H100.link_bytes_per_s == 450e9
    assert H100.in_switch


def test_wires_are_those_that_were_found() -> None:
    alone = of_run({"datasheet": "h100-sxm"})
    assert alone.link_bytes_per_s == 0.0
    bridged = of_run({"datasheet": "h100-sxm", "link": "pcie", "devices": "2"})
    assert bridged.link_bytes_per_s == 63e9
    assert not bridged.in_switch
    with pytest.raises(DocumentError, match="incomplete"):
        of_run({"datasheet": "h100-sxm", "devices": "many"})
    with pytest.raises(DocumentError, match="incomplete"):
        of_run({"machine": "toy"})
