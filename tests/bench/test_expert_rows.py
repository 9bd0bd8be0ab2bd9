"""Measured experts and exchanges as columns of forms, checked by hand."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from roofline.bench.columns import prepared
from roofline.bench.exchange_rows import alltoall_groups, exchange_groups
from roofline.bench.expert_rows import WEIGHTS, expert_groups
from roofline.bench.shipping.variants import label_of
from roofline.bench.validation import READERS
from roofline.bench.wide_rows import mega_groups, wide_groups
from roofline.cost.kernels import experts

EXPERTS = {
    "gpu": "h100_sxm",
    "backend": "trtllm",
    "version": "1",
    "kernel": "moe_torch_flow_cutlass",
    "dtype": "fp8_block",
    "distribution": "balanced",
    "num_tokens": 64,
    "hidden": 4096,
    "inter": 1024,
    "topk": 2,
    "experts": 16,
    "tp": 2,
    "ep": 4,
    "time_s": 1e-4,
}
DEEPSEEK = {"hidden": 7168, "inter": 2048, "topk": 8, "experts": 256, "tp": 1}
WIDE = (
    EXPERTS
    | DEEPSEEK
    | {
        "backend": "sglang",
        "kernel": "deepepmoe",
        "distribution": "uniform",
        "phase": "decode",
        "slots": 256,
        "rank_tokens": 0,
    }
)


def frame(base: Mapping[str, object], *changes: Mapping[str, object]) -> pd.DataFrame:
    return pd.DataFrame([{**base, **change} for change in changes])


def test_experts_are_those_of_the_busiest_device() -> None:
    (group,) = expert_groups(frame(EXPERTS, {}, {"num_tokens": 1}))
    assert group.dims["inter"].tolist() == [512, 512]
    assert group.dims["local"].tolist() == [4, 4]
    assert group.dims["rows"].tolist() == [32, 1]
    assert group.dims["touched"].tolist() == [4, 1]
    assert group.dims["matrices"].tolist() == [3, 3]
    # 64 tokens choose 2 of the 4 experts here, were there no others: 32 rows each.
    assert group.dims["height"].tolist() == [32, 8]
    assert group.dims["tiles"].tolist() == [4, 1]


def test_few_shapes_of_experts_are_told_apart_by_their_split() -> None:
    (group,) = expert_groups(frame(EXPERTS, {}, {"tp": 1}, {"ep": 2}))
    assert len(np.unique(group.families)) == 3


@pytest.mark.parametrize("dtype", list(WEIGHTS))
def test_every_format_has_its_weights_and_arithmetic(dtype: str) -> None:
    (group,) = expert_groups(frame(EXPERTS | {"gpu": "b200_sxm", "dtype": dtype}, {}))
    bits = 8 * group.dims["weight_width"][0]
    named = {"bfloat16": 16, "float16": 16, "fp8": 8, "fp8_block": 8}.get(dtype, 4)
    assert named <= bits <= 1.2 * named
    narrow = {"nvfp4": "fp4", "w4a16_mxfp4": "bf16", "int4_wo": "bf16", "float16": "bf16"}
    assert group.arithmetic == narrow.get(dtype, "bf16" if dtype == "bfloat16" else "fp8")


def test_experts_without_a_gate_have_two_matrices() -> None:
    shape = {"inter": 5120, "topk": 22, "experts": 512, "hidden": 8192}
    (group,) = expert_groups(frame(EXPERTS, shape))
    assert group.dims["matrices"].tolist() == [2]


def test_a_gate_limited_to_groups_doubles_what_half_of_the_devices_do() -> None:
    base = EXPERTS | DEEPSEEK | {"num_tokens": 4096, "ep": 2}
    found = {}
    for backend in ("trtllm", "sglang"):
        (group,) = expert_groups(frame(base | {"backend": backend}, {}))
        found[backend] = float(group.dims["rows"][0])
    assert found == {"trtllm": 4096 * 8 / 2, "sglang": 4096 * 8}


@pytest.mark.parametrize(("dtype", "kernel", "variant"), [
    ("nvfp4", "moe_torch_flow_cutlass", "nvfp4"),
    ("nvfp4", "moe_torch_flow_min_latency", "nvfp4-min-latency"),
    ("nvfp4", "moe_torch_flow_nongated", "nvfp4-nongated"),
    ("fp8_block", "sglang_flashinfer_trtllm_moe", "fp8_block-limited"),
    ("fp8_block", "sglang_fused_moe_triton", "fp8_block"),
    ("bfloat16", "sglang_flashinfer_cutlass_moe", "bfloat16-nongated"),
])  # fmt: skip
def test_kernels_of_one_format_have_labels_of_their_own(
    dtype: str, kernel: str, variant: str
) -> None:
    name = {"gpu": "b200_sxm", "backend": "trtllm", "dtype": dtype, "kernel": kernel}
    assert label_of("moe", name).variant == variant


def test_the_normal_mode_sends_a_token_once_to_a_device() -> None:
    base = EXPERTS | {"backend": "deepep", "node_num": 1, "topk": 8, "experts": 256}
    rows = frame(base, *({"mode": m, "op": "dispatch", "sms": 24} for m in ("normal", "ll")))
    found = {group.name["mode"]: group.dims["copies"][0] for group in exchange_groups(rows)}
    assert found["ll"] == 8
    # Eight devices, each missed by 8 of 256 experts with a chance near (7/8)^8.
    assert found["normal"] == pytest.approx(8 * (1 - (7 / 8) ** 8), rel=0.01)


def test_a_token_crosses_to_another_node_once() -> None:
    base = EXPERTS | {"backend": "deepep", "node_num": 2, "topk": 8, "experts": 256}
    (group,) = exchange_groups(frame(base, {"mode": "normal", "op": "combine", "sms": 24}))
    # Nearly every token has some of its 8 experts on the other one of two nodes.
    assert group.dims["crossing"][0] == pytest.approx(1.0, abs=0.01)
    assert group.dims["copies"][0] > 6.0


def test_decoding_masks_rows_and_a_prefill_rounds_them_up() -> None:
    both = frame(WIDE | {"ep": 4}, {"num_tokens": 1024}, {"num_tokens": 1024, "phase": "prefill"})
    decode, prefill = wide_groups(both.assign(distribution="power_law_1.2"))
    assert decode.dims["tokens"][0] == pytest.approx(decode.dims["rows"][0] / 8, rel=0.01)
    assert prefill.dims["rows"][0] > decode.dims["rows"][0]
    assert prefill.dims["tokens"].tolist() == [1024]
    assert prefill.form is experts.EAGER


def test_redundant_experts_are_slots_of_a_device() -> None:
    base = WIDE | {"backend": "trtllm", "phase": "any", "ep": 8, "slots": 288}
    rows = {"num_tokens": 2048, "rank_tokens": 1500, "distribution": "power_law_1.2_eplb"}
    (group,) = wide_groups(frame(base, rows))
    assert group.dims["local"].tolist() == [36]
    assert group.dims["tokens"].tolist() == [1500]
    assert 1500 <= group.dims["rows"][0] <= 1500 * 8


def test_one_fused_kernel_exchanges_what_its_experts_take() -> None:
    base = EXPERTS | {"gpu": "gb200", "dtype": "w4a8_mxfp4_mxfp8", "phase": "decode"}
    shape = {"hidden": 7168, "inter": 3072, "topk": 6, "experts": 384, "ep": 8}
    measured = frame(base | shape, {"num_tokens": 512}).drop(columns="tp")  # files have none
    (group,) = mega_groups(measured)
    rows = float(group.dims["rows"][0])
    assert rows == 512 * 6 / 8
    assert 2 * 7168 * rows < group.dims["exchanged"][0] <= (2 + 33 / 32) * 7168 * rows


def test_an_all_to_all_sends_a_token_to_as_many_devices_as_there_are() -> None:
    base = EXPERTS | DEEPSEEK | {"gpu": "gb200", "kernel": "NVLinkTwoSided", "dtype": "nvfp4"}
    rows = frame(base, *({"op": "alltoall_dispatch", "ep": ep} for ep in (4, 32)))
    (group,) = alltoall_groups(rows)
    assert group.dims["copies"].tolist() == [4, 8]
    assert group.dims["width"].tolist() == [0.5625, 0.5625]
    assert label_of("moe-alltoall", group.name).variant == "dispatch-nvfp4"


@pytest.mark.parametrize("kind", ["moe", "moe-wideep", "moe-mega"])
def test_a_row_of_each_kind_is_read_through_its_columns(kind: str) -> None:
    rows, refused = prepared(
        kind, frame(WIDE | {"ep": 8, "dtype": "fp8_block"}, {"distribution": "power_law_1.2"})
    )
    assert not refused
    (group,) = READERS[kind](rows)
    assert len(group) == 1


def test_shapes_of_an_older_release_stand_beside_those_of_the_latest() -> None:
    rows = frame(
        EXPERTS,
        {"version": "1.3.0rc9"},
        {"version": "1.3.0rc9", "hidden": 2880},
        {"version": "1.3.0rc20"},
    )
    found = {group.name["version"]: group.dims["hidden"].tolist() for group in expert_groups(rows)}
    assert found == {"1.3.0rc9": [4096], "1.3.0rc20": [2880, 4096]}
