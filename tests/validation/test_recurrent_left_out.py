"""Recurrent layers, encoders, hyper-connections and conversions of shapes that no fit saw."""

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from roofline.bench.predictors import UNSCORED, left_out
from roofline.bench.validation import Validation, validate
from tests.cases import cases
from tests.validation.measurements import file, measured, needs
from tests.validation.test_left_out import shown

if TYPE_CHECKING:
    import pandas

DEVICES: Final = cases(("h100_sxm",), ("h100_sxm", "b200_sxm"))
SCORED: Final = cases(2, 0)
"""Folds of families that are left out, of eight; 0 for all. [1]"""
THINNED: Final = 0.25
"""Share of the rows that is read: a random sample, from a fixed seed."""


def few(frame: "pandas.DataFrame", device: str) -> "pandas.DataFrame":
    """Some rows of a device; all of them of kernels that have few."""
    here = frame[frame.gpu == device]
    names = [name for name in ("op", "phase", "kernel") if name in here]
    many = here.groupby(["backend", *names], observed=True).time_s.transform("size") > 300
    keep = ~many | (np.random.default_rng(0).uniform(size=len(here)) < THINNED)
    return here[keep].reset_index(drop=True)


def validated(kind: str, frame: "pandas.DataFrame", folds: int = SCORED) -> Validation:
    """Rows by fits without their families; none is refused but those of folds not scored."""
    found = validate(kind, frame, left_out(folds=folds))
    assert {each.why for each in found.refused} <= {UNSCORED}
    print()
    shown(kind, found)
    return found


@needs(file("linear_attention"))
@pytest.mark.parametrize("device", DEVICES)
def test_recurrent_layers_of_a_shape_left_out_are_known(device: str) -> None:
    found = validated("linear-attention", few(measured("linear_attention"), device))
    for key, figures in found.grouped(["backend"]):
        assert figures["median"] <= 8.0, key
        assert figures["p90"] <= 25.0, key
    assert 0.74 <= found.figures()["interval_coverage"] <= 0.86


@needs(file("attention_encoder"))
@pytest.mark.parametrize("device", DEVICES)
def test_encoders_of_heads_left_out_are_known(device: str) -> None:
    found = validated("attention-encoder", few(measured("attention_encoder"), device))
    for key, figures in found.grouped(["backend"]):
        assert figures["median"] <= 7.0, key
        assert figures["p90"] <= 22.0, key
        assert figures["median"] < 0.25 * figures["datasheet"]["median"], key


@needs(file("mhc"))
def test_hyper_connections_of_an_octave_left_out_are_known() -> None:
    found = validated("mhc", measured("mhc"), cases(3, 0))
    for key, figures in found.grouped(["gpu", "backend"]):
        assert figures["median"] <= 5.0, key
        assert figures["p90"] <= 15.0, key


@needs(file("mlp"))
def test_gated_mlps_of_an_octave_left_out_are_known() -> None:
    found = validated("mlp", measured("mlp"), 0)
    assert found.figures()["median"] <= 8.0
    assert found.figures()["p90"] <= 25.0


@needs(file("quantize"))
def test_conversions_of_a_width_left_out_are_known() -> None:
    """Fits to every other token count, or to all where all cases run."""
    every = measured("quantize")
    every = every[every.m.isin(np.unique(every.m)[:: cases(2, 1)])]
    # Three rows are all that one engine has of finding a scale.
    some = every[(every.backend != "sglang") | (every.op == "scale_matrix")]
    found = validated("quantize", some.reset_index(drop=True))
    for key, figures in found.grouped(["gpu", "backend"]):
        assert figures["median"] <= 6.0, key
        assert figures["p90"] <= 20.0, key
