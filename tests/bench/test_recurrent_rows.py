"""Measured recurrent layers, encoders, hyper-connections and conversions, read into groups."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from roofline.bench.columns import prepared
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.shipping.variants import label_of
from roofline.bench.validation import READERS
from roofline.cost.kernels import encoder, hyper, pointwise, recurrent
from roofline.cost.kernels.catalog import name_of
from tests.validation.measurements import file, needs

GDN = {
    "gpu": "h100_sxm",
    "backend": "vllm",
    "version": "0.24.0",
    "op": "gdn",
    "n_k_heads": 16,
    "k_head_dim": 128,
    "n_v_heads": 32,
    "v_head_dim": 128,
    "batch": 2,
    "time_s": 1e-5,
}
PREFILL = {**GDN, "phase": "prefill", "seq_len": 512}
DECODE = {**GDN, "phase": "decode", "seq_len": 1}
SCAN = {**PREFILL, "kernel": "chunk_gated_delta_rule"}


def groups(kind: str, *rows: Mapping[str, object]) -> list[RowGroup]:
    frame, refused = prepared(kind, pd.DataFrame(list(rows)))
    assert not refused
    return list(READERS[kind](frame))


def test_a_convolution_is_told_by_its_channels_and_a_state_by_none() -> None:
    short, state = groups(
        "linear-attention",
        {**PREFILL, "kernel": "causal_conv1d_fn", "conv_channels": 8192, "d_conv": 4},
        {**SCAN, "conv_channels": 0},
    )
    assert (short.form, short.name["step"]) == (recurrent.CONVOLUTION, "convolution")
    assert short.dims["channels"].tolist() == [8192]
    assert (state.form, state.name["step"]) == (recurrent.SCAN, "state")
    assert state.dims["chunk"].tolist() == [recurrent.CHUNK]
    assert state.dims["sequences"].tolist() == [64]


def test_rows_that_name_no_kernel_are_told_apart_by_their_channels() -> None:
    state, short = groups("linear-attention", {**PREFILL, "conv_channels": 8192}, PREFILL)
    assert (state.form, short.form) == (recurrent.SCAN, recurrent.CONVOLUTION)
    assert (len(state.dims["new"]), len(short.dims["channels"])) == (1, 1)


@pytest.mark.parametrize(
    ("kernel", "alone"),
    [("chunk_gated_delta_rule_flashinfer", 1), ("flashkda_fwd", 1), ("chunk_gated_delta_rule", 0)],
)
def test_one_kernel_scans_alone(kernel: str, alone: int) -> None:
    (group,) = groups("linear-attention", {**SCAN, "kernel": kernel})
    assert group.dims["alone"].tolist() == [alone]


def test_few_steps_determine_few_constants() -> None:
    def steps(rows: int) -> RowGroup:
        each = [{**DECODE, "kernel": "step", "batch": batch + 1} for batch in range(rows)]
        (group,) = groups("linear-attention", *each)
        return group

    assert steps(15).form is recurrent.TOKEN
    assert steps(16).form is recurrent.STEP
    assert len(np.unique(steps(15).families)) == 15


def test_a_family_is_a_shape_where_there_are_enough() -> None:
    rows = [
        {**SCAN, "n_v_heads": heads, "n_k_heads": heads, "batch": batch}
        for heads in (2, 4, 8, 16)
        for batch in (1, 2)
    ]
    (group,) = groups("linear-attention", *rows)
    assert len(np.unique(group.families)) == 4
    (few,) = groups("linear-attention", *rows[:6])
    assert len(np.unique(few.families)) == 6


@pytest.mark.parametrize(
    ("change", "variant"),
    [
        ({}, "gdn-prefill-state"),
        ({"kernel": "causal_conv1d_fn", "conv_channels": 8}, "gdn-prefill-convolution"),
        ({"op": "kda", "phase": "decode", "kernel": "fused_kda_decode"}, "kda-decode-state-fused"),
        ({"op": "kda", "phase": "decode", "kernel": "fused_recurrent_kda"}, "kda-decode-state"),
        (
            {"op": "kda", "kernel": "causal_conv1d_fn_qkv3", "conv_channels": 8},
            "kda-prefill-convolution-eager",
        ),
        (
            {"phase": "decode", "backend": "sglang", "kernel": "fused_recurrent_gated_delta_rule"},
            "gdn-decode-state-unpacked",
        ),
        (
            {"phase": "decode", "backend": "trtllm", "kernel": "fused_recurrent_gated_delta_rule"},
            "gdn-decode-state",
        ),
    ],
)
def test_kernels_of_other_work_have_another_label(
    change: Mapping[str, object], variant: str
) -> None:
    (group,) = groups("linear-attention", {**SCAN, **change})
    label = label_of("linear-attention", group.name)
    assert (label.kind, label.variant) == ("linear-attention", variant)


def test_an_encoder_has_the_blocks_of_its_kernel() -> None:
    row = {
        "gpu": "b200_sxm",
        "kernel": "vllm_vit_flash_attn_fa4",
        "batch": 2,
        "seq": 1024,
        "n_heads": 16,
        "head_dim": 72,
        "time_s": 1e-5,
    }
    (group,) = groups("attention-encoder", row)
    assert group.form is encoder.FORM
    assert (group.dims["rows"][0], group.dims["depth"][0]) == (256, 80)
    (triton,) = groups("attention-encoder", {**row, "gpu": "l40s", "kernel": "triton"})
    assert (triton.dims["rows"][0], triton.dims["depth"][0]) == (64, 128)
    assert triton.dims["interleaved"].all()


def test_kernels_that_an_engine_chooses_by_tokens_are_one_group() -> None:
    row = {"gpu": "h100_sxm", "op": "pre", "hidden": 7168, "hc_mult": 4, "time_s": 1e-5}
    (group,) = groups(
        "mhc",
        {**row, "num_tokens": 8, "kernel": "trtllm_mhc_pre_fma"},
        {**row, "num_tokens": 128, "kernel": "trtllm_mhc_pre_dg_splitk"},
    )
    assert group.form is hyper.HYPER["pre"]
    assert group.dims["sites"].tolist() == [2, 2]


def test_both_phases_of_a_gated_mlp_are_one_group() -> None:
    row = {"gpu": "h100_sxm", "dtype": "fp8_block", "hidden": 7168, "inter": 2048, "time_s": 1e-5}
    (group,) = groups(
        "mlp",
        {**row, "num_tokens": 4, "phase": "decode"},
        {**row, "num_tokens": 4, "phase": "prefill"},
    )
    assert name_of(group.form) == "gated-mlp"
    assert group.arithmetic == "fp8"
    assert group.dims["weight_width"].tolist() == [1, 1]


def test_a_difference_of_two_kernels_has_its_own_form() -> None:
    row = {"gpu": "h100_sxm", "op": "computescale", "m": 8, "k": 4096, "time_s": 1e-6}
    (minus,) = groups("quantize", {**row, "kernel": "dynamic_minus_static"})
    (plain,) = groups("quantize", {**row, "kernel": "torch_ops"})
    assert minus.form is pointwise.CONVERSION["difference"]
    assert minus.dims["resident"].tolist() == [8]
    assert plain.form is pointwise.CONVERSION["computescale"]


@pytest.mark.slow
@needs(file("linear_attention"))
def test_no_two_kernels_of_one_release_have_one_label() -> None:
    """The later of two releases is shipped; two kernels of one could not be told apart."""
    frame = pd.read_parquet(file("linear_attention"))
    for column in frame.select_dtypes("category"):
        frame[column] = frame[column].astype(str)
    seen: dict[tuple[object, str], str] = {}
    rows, refused = prepared("linear-attention", frame)
    assert not refused
    for group in READERS["linear-attention"](rows):
        key = label_of("linear-attention", group.name), group.name["version"]
        assert key not in seen, (seen.get(key), group.name["kernel"])
        seen[key] = group.name["kernel"]
