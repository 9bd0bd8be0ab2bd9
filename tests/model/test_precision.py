"""Number formats: their bits, their names, and what a machine does with them."""

from contextlib import suppress
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import MissingRateError, UnknownNameError
from roofline.hardware import catalog as hardware
from roofline.hardware.machine import Gpu
from roofline.model.precision import (
    FORMATS,
    KV_FORMATS,
    dequantisation,
    named,
    product,
    quantisation,
    resolve,
)
from roofline.records import replace

H100, A100, B200, T4 = (hardware.gpu(name) for name in ("h100-sxm", "a100-sxm", "b200-sxm", "t4"))
BITS = [st.sampled_from((2, 3, 4, 8)), st.integers(2, 4096)]


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("bf16", Fraction(16)),
        ("tf32", Fraction(32)),
        ("fp8", Fraction(8)),
        ("fp8-block", 8 + Fraction(32, 128 * 128)),
        ("fp8-1x128", 8 + Fraction(32, 128)),
        ("mxfp8", 8 + Fraction(8, 32)),
        ("int4", 4 + Fraction(16 + 4, 128)),
        ("int4-g128-zp16", Fraction("4.25")),
        ("int4-g32-sym", Fraction("4.5")),
        ("int4-g64", 4 + Fraction(20, 64)),
        ("int3", 3 + Fraction(19, 128)),
        ("int2", 2 + Fraction(18, 128)),
        ("nf4", 4 + Fraction(8, 64) + Fraction(32, 64 * 256)),
        ("mxfp4", Fraction("4.25")),
        ("nvfp4", Fraction("4.5")),
        ("int4-kv", Fraction("4.25")),
    ],
)
def test_scales_and_zero_points_are_counted(name: str, bits: Fraction) -> None:
    assert named(name).exact_bits == bits
    assert named(name).width == float(bits) / 8


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("FP8", "fp8"), ("fp8_e4m3", "fp8"), ("fp8-block", "fp8-block"), ("int8", "int8"),
        ("w8a8", "int8"), ("int8-wo", "int8-wo"), ("int4", "int4"), ("int4-awq", "int4"),
        ("awq-int4", "int4"), ("int4-gptq", "int4"), ("awq", "int4"), ("GPTQ", "int4"),
        ("int4-g128", "int4"), ("gptq-int3-g128", "int3"), ("int4-g64", "int4-g64"),
        ("awq-g64", "int4-g64"), ("gptq-int8-g32", "int8-g32"), ("int4-g32-asym", "int4-g32"),
        ("int3-sym", "int3-g128-sym"), ("int4-row", "int4-row"), ("squeezellm", "squeezellm-3"),
        ("LLM.int8()", "llm.int8"), (" nf4 ", "nf4"), ("w4a4", "nvfp4"), ("w4a16", "int4"),
    ],
)  # fmt: skip
def test_people_type_many_names(typed: str, found: str) -> None:
    assert named(typed).name == found


def test_a_format_is_found_again_by_its_own_name() -> None:
    for name in (*FORMATS, "int4", "int3-g32-sym", "int8-row", "int2-g7-zp16"):
        assert named(name).name == name
        assert named(named(name).name) == named(name)


@pytest.mark.parametrize(
    ("typed", "meant"), [("fp9", "fp8"), ("mxpf4", "mxfp4"), ("nvfp", "nvfp4"), ("bf61", "bf16")]
)
def test_a_misspelt_format_is_guessed(typed: str, meant: str) -> None:
    with pytest.raises(UnknownNameError, match=typed) as caught:
        named(typed)
    assert f"did you mean {meant}" in caught.value.hint


@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_text_names_a_format_or_is_refused(text: str) -> None:
    with suppress(UnknownNameError):
        assert 2 <= named(text).bits <= 32


@pytest.mark.parametrize(
    "text", ["", "g128", "-g64", "int", "int5", "int4-g0", "int4-g", "int4-g999999", "-row", "fp4"]
)
def test_half_a_name_is_no_name(text: str) -> None:
    with pytest.raises(UnknownNameError):
        named(text)


@given(*BITS, st.sampled_from(("", "-sym", "-zp16")), st.integers(1, 8), st.integers(1, 8))
def test_more_bits_are_never_fewer_bytes(
    bits: int, group: int, zero: str, n: int, more: int
) -> None:
    k = group * more
    sizes = [named(f"int{each}-g{group}{zero}").matrix_bytes(n, k) for each in (2, 3, 4, 8)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 4
    smaller = named(f"int{bits}-g{group}-sym").matrix_bytes(n, k)
    assert smaller < named(f"int{bits}-g{group}").matrix_bytes(n, k)


@given(*BITS)
def test_the_larger_the_group_the_closer_to_the_bits_of_an_element(bits: int, group: int) -> None:
    here = named(f"int{bits}-g{group}")
    over = here.exact_bits - bits
    assert over == Fraction(16 + bits, group)
    assert named(f"int{bits}-g{2 * group}").exact_bits - bits == over / 2
    assert float(named("int4-g65536").exact_bits) == pytest.approx(4, abs=4e-4)


@given(st.sampled_from((2, 3, 4, 8)), st.sampled_from((32, 64, 128)), st.integers(1, 50))
def test_a_matrix_weighs_its_values_and_what_each_group_shares(
    bits: int, group: int, groups: int
) -> None:
    n, k = 24, group * groups
    by_counting = sum(bits * group + 16 + bits for _ in range(n) for _ in range(groups))
    assert named(f"int{bits}-g{group}").matrix_bytes(n, k) == Fraction(by_counting, 8)
    assert named(f"int{bits}-row").matrix_bytes(n, k) == Fraction(n * (k * bits + 16 + bits), 8)


def test_squeezellm_weighs_what_its_paper_says() -> None:
    # Llama-7B: 3.24 and 4.27 bits with 0.45 % of the weights kept apart (arXiv 2306.07629).
    shapes = [(4096, 4096)] * 4 + [(11008, 4096)] * 2 + [(4096, 11008)]
    values = sum(prod(shape) for shape in shapes)
    for name, published in (("squeezellm-3", 3.24), ("squeezellm-4", 4.27)):
        size = sum(named(name).matrix_bytes(*shape) for shape in shapes)
        assert round(float(8 * size / values), 2) == pytest.approx(published, abs=0.011)


def test_every_format_says_where_its_bits_are_from() -> None:
    for entry in (*FORMATS.values(), named("int4"), named("int3-g64-sym")):
        assert entry.source
        assert entry.expression.startswith(str(entry.element_bits))
        assert not entry.activation or entry.activation in FORMATS


@pytest.mark.parametrize(
    ("weights", "gpu", "arithmetic", "activations"),
    [
        ("bf16", H100, "bf16", None),
        ("fp8", H100, "fp8", "fp8"),
        ("fp8-block", H100, "fp8", "fp8-1x128"),
        ("fp8", A100, "bf16", None),
        ("int8", A100, "int8", "int8"),
        ("int8-wo", A100, "bf16", None),
        ("int4-awq", H100, "bf16", None),
        ("nf4", B200, "bf16", None),
        ("nvfp4", B200, "fp4", "nvfp4"),
        ("nvfp4", H100, "bf16", None),
        ("nvfp4-w4a16", B200, "bf16", None),
        ("mxfp4-w4a8", B200, "fp8", "mxfp8"),
        ("mxfp4-w4a8", H100, "bf16", None),
        ("mxfp8", B200, "fp8", "mxfp8"),
        ("mxfp8", H100, "bf16", None),
        ("int4-w4a8", H100, "fp8", "fp8"),
        ("int4", T4, "fp16", None),
        ("tf32", A100, "tf32", None),
    ],
)
def test_a_pair_runs_at_the_rate_the_machine_has_for_it(
    weights: str, gpu: Gpu, arithmetic: str, activations: str | None
) -> None:
    precision = resolve(weights, "auto", gpu)
    made = precision.product()
    assert precision.linear_arithmetic == made.arithmetic == arithmetic
    assert (made.quantised.name if made.quantised else None) == activations
    # A product in the width of the activations of narrower weights is said aloud.
    assert made.dequantises == bool(precision.notes)
    assert all(weights.partition("-")[0].removesuffix("4") in n for n in precision.notes)
    gpu.rate(arithmetic)


def test_a_missing_rate_is_said_with_what_is_missing() -> None:
    (note,) = resolve("fp8", "auto", A100).notes
    assert "a100-sxm has no fp8 arithmetic" in note
    (note,) = resolve("mxfp8", "auto", H100).notes
    assert "scales of groups" in note


def test_nothing_converts_what_a_machine_without_sixteen_bits_cannot_multiply() -> None:
    narrow = replace(H100, flops_per_s={"fp64": 1.0})
    for weights in ("bf16", "int4", "fp8"):
        with pytest.raises(MissingRateError):
            resolve(weights, "auto", narrow)


@pytest.mark.parametrize("weights", ["int4-kv", "int8-kv"])
def test_weights_are_not_stored_as_caches_are(weights: str) -> None:
    with pytest.raises(UnknownNameError, match="cache"):
        resolve(weights, "auto", H100)


def test_a_network_of_several_formats_has_a_product_for_each() -> None:
    precision = resolve("nvfp4", "fp8", B200, also=("bf16", "fp8-block", "nvfp4"))
    assert set(precision.products) == {"nvfp4", "bf16", "fp8-block"}
    assert precision.product("fp8-block").arithmetic == "fp8"
    assert precision.product("bf16").arithmetic == "bf16"
    with pytest.raises(UnknownNameError, match="int4"):
        precision.product("int4")


def test_llm_int8_multiplies_outliers_in_16_bits_and_prints_the_published_slowdown() -> None:
    precision = resolve("llm.int8", "auto", A100)
    assert precision.product().outliers == 0.001
    assert any("15–23 %" in note and "assumed" in note for note in precision.notes)
    assert resolve("int8", "auto", A100).product().outliers == 0


def test_activations_are_converted_as_work_of_their_own() -> None:
    made = resolve("fp8-row", "auto", H100).product()
    # Read in 16 bits; written in 8, with an fp32 scale for each token.
    assert quantisation(made, tokens=10, k=4096) == (2 * 40960, 40960 + 10 * 4)
    assert dequantisation(made, 10, 4096, 4096) == 0
    assert quantisation(resolve("int4", "auto", H100).product(), 10, 4096) == (0, 0)


def test_weights_are_converted_in_registers_unless_a_copy_is_made() -> None:
    assert resolve("int4", "auto", H100).product().dequantises
    assert dequantisation(resolve("int4", "auto", H100).product(), 2, 64, 32) == 0
    nf4 = resolve("nf4", "auto", H100).product()
    # One token is a product of a vector, which converts in registers.
    assert np.array_equal(dequantisation(nf4, np.array([1, 2]), 64, 32), [0, 2 * 64 * 32])


def test_a_share_of_the_weights_is_protected_in_16_bits() -> None:
    # Of 100 weights 99 take 4 + (16 + 4)/128 bits and one 16.
    kept = named("int4-awq-keep0.01")
    assert kept.exact_bits * 100 == 99 * (4 + Fraction(20, 128)) + 16
    assert kept is named("int4-g128-keep.01")
    assert named("int4-keep0.0").name == named("omniquant").name == "int4"
    assert named("omniquant-int2-g64").bits == 2 + 18 / 64
    assert named("int4-awq-keep0.01-2:4").bits < kept.bits


@pytest.mark.parametrize("kv", KV_FORMATS)
def test_a_cache_has_the_formats_engines_store_it_in(kv: str) -> None:
    precision = resolve("bf16", kv, H100)
    assert precision.kv.name == kv
    assert bool(precision.notes) == (named(kv).bits < 16)


@pytest.mark.parametrize("kv", ["int4", "nf4", "mxfp4", "cache", ""])
def test_a_cache_has_no_other_formats(kv: str) -> None:
    with pytest.raises(UnknownNameError):
        resolve("bf16", kv, H100)


def test_every_format_has_a_rate_on_every_gpu_or_is_refused_for_the_want_of_one() -> None:
    for name in hardware.gpu_names():
        gpu = hardware.gpu(name)
        for weights in (*(set(FORMATS) - {"int4-kv", "int8-kv"}), "int4", "int3-g64"):
            with suppress(MissingRateError):
                made = resolve(weights, "auto", gpu).product()
                assert made.arithmetic in gpu.flops_per_s
                # What is multiplied natively needs both sides in the narrow format.
                assert made.stored.bits >= 16 or (made.quantised is None) == made.dequantises


def test_a_wider_type_in_a_narrower_network_is_multiplied_as_the_activations_are() -> None:
    made = product(named("fp32"), named("bf16"), H100)
    assert made.arithmetic == "bf16"
    assert "fp32" in made.note
