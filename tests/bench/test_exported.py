"""Records of experts and recurrent states: fitted, exported, and read again as measured kernels."""

from functools import cache

import numpy as np
import pytest

from roofline.bench.calibrating import fit_records
from roofline.bench.columns import prepared
from roofline.bench.exported import KINDS, exported
from roofline.bench.forms import columns
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.prices import PRICES
from roofline.bench.probe import find, points
from roofline.bench.published import of_gpu
from roofline.bench.records import SCHEMA, WORK, ProbeEntry, Record, Records, RunHeader
from roofline.bench.validation import READERS
from roofline.cost.kernels.catalog import FORMS
from roofline.cost.kernels.form import Dims
from roofline.hardware.catalog import gpu
from roofline.records import replace

H100 = of_gpu(gpu("h100-sxm"), "h100-sxm", "nvlink")
RECURRENT = [
    f"{op}-{phase}" for op in ("gated-delta", "convolution") for phase in ("decode", "prefill")
]
EXPERTS = ["mixture-bf16", "mixture-fp8", "mixture-fp8-block"]


@cache
def run(name: str) -> Records:
    """All points of a probe, with the times that its form has before any fit."""
    probe = find(name).probe
    rows = [
        Record(
            point.name,
            *(name, probe.kind, point.state, point.regime, probe.arithmetic),
            at=point.at,
            work={key: float(getattr(probe.work(point.at), key)) for key in WORK},
            reuse=1e9,
            samples=(1.0,) * 10,
            stopped="converged",
        )
        for point in points(probe)
    ]
    form = FORMS[probe.form]
    priors = {constant.name: constant.prior for constant in form.constants}
    times = form.seconds(columns(rows, probe.form, H100), H100.of(probe.arithmetic), priors)
    timed = [
        replace(row, samples=(float(each),) * 10) for row, each in zip(rows, times, strict=True)
    ]
    header = RunHeader(
        schema_version=SCHEMA,
        run="0123456789",
        provider="cupy",
        environment={"machine": "h100-sxm", "datasheet": "h100-sxm", "date": "2026-11-27"},
        probes={name: ProbeEntry(version=1, code="0" * 16, form=probe.form)},
    )
    return Records(header, tuple(timed))


def read(name: str) -> tuple[list[RowGroup], Dims]:
    """Groups of the exported rows of a probe, and the columns of its own form."""
    probe, records = find(name).probe, run(name)
    kind = KINDS[probe.kind]
    frame, refused = prepared(kind, exported(records, kind, "vllm"))
    assert not refused
    return list(READERS[kind](frame)), columns(records.rows, probe.form, H100)


@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrent_layer_is_read_as_its_own_form_sees_it(name: str) -> None:
    (group,), own = read(name)
    assert group.form is FORMS[find(name).probe.form]
    _, variant = PRICES[name]
    assert f"{group.name['op']}-{group.name['phase']}-{group.name['step']}" == variant
    for column in group.dims.keys() & own.keys() - {"rows"}:
        np.testing.assert_allclose(group.dims[column], own[column], err_msg=column)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERTS)
def test_experts_are_read_by_their_format(name: str) -> None:
    groups, own = read(name)
    assert {group.name["dtype"] for group in groups} == {PRICES[name][1]}
    for column in ("hidden", "inter", "weight_width"):
        told = np.unique(np.concatenate([group.dims[column] for group in groups]))
        # Scales of blocks are a part in four thousand of the weights.
        np.testing.assert_allclose(told, np.unique(own[column]), rtol=3e-4, err_msg=column)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RECURRENT, *EXPERTS])
def test_a_fit_finds_the_form_again(name: str) -> None:
    (fitted,), _ = fit_records(run(name), H100)
    assert fitted.form == find(name).probe.form
    assert fitted.errors.median < 0.01
    assert fitted.datasheet is not None
    assert fitted.datasheet.median > 5.0 * fitted.errors.median
