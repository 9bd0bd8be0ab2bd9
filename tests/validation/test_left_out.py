"""`validate` on measured rows: the targets of what a fit never saw, and samples of a sibling."""

import numpy as np
import pytest

from roofline.bench.columns import prepared
from roofline.bench.fit import cross_validate, fit
from roofline.bench.held_out import errors
from roofline.bench.predictors import cross_transfer, left_out
from roofline.bench.validation import READERS, Validation, validate
from tests.cases import cases
from tests.validation.kernels import thinned
from tests.validation.measurements import file, measured, needs

DONOR = cases(1000, 3000)
"""Rows that the sibling's fit is made of here."""
SAMPLED = 250
"""Rows that a sample has."""


def shown(title: str, found: Validation) -> None:
    for key, figures in [*found.grouped(["gpu", "backend", "dtype"]), ({}, found.figures())]:
        name = " ".join(key.values()) or "all"
        both = (figures, figures["datasheet"])
        each = ["/".join(f"{part[k]:.1f}" for k in ("median", "mean", "p90")) for part in both]
        inside = f"{figures['interval_coverage']:.2f}"
        print(f"{title} {name:32} {figures['n']:5} {each[0]:18} {inside}  datasheet {each[1]}")


@needs(file("collectives"))
@pytest.mark.parametrize(
    "gpu",
    [
        "h100_sxm",
        pytest.param(
            "a100_sxm",
            marks=pytest.mark.xfail(strict=True, reason="7.2 / 20.7 %, on 40 rows"),
        ),
    ],
)
def test_all_reduces_of_a_size_left_out_are_known(gpu: str) -> None:
    every = measured("collectives")
    of = (every.op == "all_reduce") & (every.backend == "nccl-tests") & (every.gpu == gpu)
    found = validate("collective", every[of], left_out())
    print()
    shown("all-reduce", found)
    figures = found.figures()
    assert figures["coverage"] == 1.0
    assert figures["median"] < 0.2 * figures["datasheet"]["median"]
    assert figures["median"] <= 6.0
    assert figures["p90"] <= 14.0


@needs(file("mla_bmm"))
def test_intervals_of_few_families_hold_in_every_group() -> None:
    """Seven widths of heads: what is left out inside a fit misses more neighbours than outside.

    Every kernel on one GPU, of those that have it in turn; on every GPU where all cases run.
    """
    every = measured("mla_bmm")
    turn = {
        kernel: sorted(set(gpus))[place % len(set(gpus))]
        for place, (kernel, gpus) in enumerate(every.groupby("kernel").gpu)
    }
    some = every[cases(every.gpu == every.kernel.map(turn), every.gpu != "")]
    assert set(some.kernel) == set(every.kernel)
    found = validate("mla-bmm", some.reset_index(drop=True), left_out())
    print()
    shown("heads", found)
    for key, figures in found.grouped(["gpu", "backend", "dtype"]):
        assert 0.72 <= figures["interval_coverage"] <= 0.88, key
    assert 0.77 <= found.figures()["interval_coverage"] <= 0.83


@needs(file("elementwise"))
@pytest.mark.parametrize("op", ["input_layernorm", "add"])
def test_blocks_of_another_kind_run_other_kernels(op: str) -> None:
    every = measured("elementwise")
    some, _ = prepared("pointwise", every[(every.gpu == "h100") & (every.op == op)])
    typical = {}
    for group in READERS["pointwise"](some):
        many = group.dims["m"] >= 2048
        each = group.measured / (group.dims["m"] * group.dims["width"])
        typical[group.name["block"]] = float(np.median(each[many]))
    assert set(typical) == {"layer norm, parallel", "root mean square"}
    print(f"\n{op}: seconds an element {typical}")
    assert max(typical.values()) > 1.5 * min(typical.values())


@needs(file("gemm"), file("attention_decode"))
@pytest.mark.parametrize(
    ("kind", "name"), [("gemm", "gemm"), ("attention-decode", "attention_decode")]
)
def test_a_sample_is_better_known_from_its_sibling_than_from_itself(kind: str, name: str) -> None:
    every = measured(name)
    some, _ = prepared(kind, every[every.gpu.isin(["h100_sxm", "h200_sxm"])])
    groups = list(READERS[kind](some))
    print()
    pairs = [
        (thinned(whole, SAMPLED), thinned(other, DONOR))
        for whole in groups
        for other in groups
        if whole.name["gpu"] == "h200-sxm" and other.name == {**whole.name, "gpu": "h100-sxm"}
    ]
    assert pairs
    for group, sibling in pairs[: cases(1, None)]:
        model = fit(
            sibling.form,
            sibling.dims,
            sibling.machine,
            sibling.measured,
            families=sibling.families,
            starts=1,
        )
        given = (group.dims, group.machine, group.measured)
        carried, _ = cross_transfer(model, *given, families=group.families)
        own, _ = cross_validate(group.form, *given, families=group.families, score=cases(4, None))
        held = np.isfinite(own)
        there, here = (errors(each[held], group.measured[held]) for each in (carried, own))
        print(f"{' '.join(group.name.values()):64} {len(group):4} carried {there} own {here}")
        assert there.mean < here.mean
        assert there.p90 < here.p90
