"""Measured rows as columns of forms: a few rows whose columns can be checked by hand."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from roofline.bench.kernel_rows import (
    decode_groups,
    head_groups,
    latent_decode_groups,
    module_groups,
    prefill_groups,
)

ATTENTION = {
    "gpu": "h100_sxm",
    "backend": "trtllm",
    "version": "1",
    "kernel": "torch_flow",
    "dtype": "bfloat16",
    "kv_dtype": "bfloat16",
    "batch": 2,
    "seq_q": 256,
    "seq_kv": 256,
    "n_heads": 8,
    "n_kv_heads": 2,
    "head_dim": 128,
    "window": 0,
    "time_s": 1e-5,
}


def frame(base: Mapping[str, object], *changes: Mapping[str, object]) -> pd.DataFrame:
    return pd.DataFrame([{**base, **change} for change in changes])


def test_formats_and_kernels_are_groups_and_shapes_are_families() -> None:
    rows = frame(
        ATTENTION,
        {},
        {"batch": 4},
        {"n_heads": 16},
        {"window": 128},
        {"dtype": "fp8", "kv_dtype": "fp8"},
    )
    low, plain = sorted(prefill_groups(rows), key=len)
    assert [len(low), len(plain)] == [1, 4]
    assert low.machine.flops_per_s == pytest.approx(2 * plain.machine.flops_per_s, rel=1e-3)
    assert len(np.unique(plain.families)) == 3
    assert plain.dims["reach"].tolist() == [256, 256, 256, 128]
    assert plain.dims["sequences"].tolist() == [16, 32, 32, 16]


def test_some_of_a_group_keeps_its_columns_together() -> None:
    (group,) = prefill_groups(frame(ATTENTION, {}, {"batch": 4}))
    some = group[np.array([False, True])]
    assert len(some) == 1
    assert some.dims["batch"].tolist() == [4]


def test_a_prefill_of_one_token_is_left_to_decoding_where_the_kernel_does_so() -> None:
    one = {"seq_q": 1, "seq_kv": 1}
    (group,) = prefill_groups(frame(ATTENTION, {}, one))
    assert len(group) == 2
    (group,) = prefill_groups(frame(ATTENTION | {"kernel": "vllm_flash_attn"}, {}, one))
    assert len(group) == 1


def test_head_widths_are_apart_where_kernels_in_fp8_are() -> None:
    low = {"dtype": "fp8", "kv_dtype": "fp8"}
    rows = frame(ATTENTION | low | {"gpu": "l40s"}, {}, {"head_dim": 64}, {"head_dim": 256})
    assert [group.name.get("heads", "") for group in prefill_groups(rows)] == ["", "narrow", "wide"]
    (group,) = prefill_groups(rows.assign(gpu="h100_sxm"))
    assert len(group) == 3


def test_heads_read_one_by_one_are_units_of_their_own() -> None:
    rows = frame(ATTENTION | {"seq_q": 1}, {}, {"n_heads": 128}, {"n_kv_heads": 8})
    found = {group.name["heads"]: group for group in decode_groups(rows)}
    assert {name: group.dims["units"].tolist() for name, group in found.items()} == {
        "": [4.0],
        "wide-group": [256.0],
        "alone": [16.0],
    }


def test_flash_attention_2_copies_heads_into_rows_only_where_there_is_a_group() -> None:
    vllm = {"backend": "vllm", "kernel": "vllm_flash_attn", "gpu": "a100_sxm"}
    base = ATTENTION | vllm | {"seq_q": 1}
    changes: list[dict[str, object]] = [{}, {"batch": 1}, {"n_heads": 2}, {"n_kv_heads": 1}]
    (group,) = decode_groups(frame(base, *changes))
    assert group.dims["copies"].tolist() == [1, 0, 0, 0]
    assert group.dims["splits"].tolist() == [128, 128, 1, 128]


@pytest.mark.parametrize(("gpu", "splits"), [("h100_sxm", 128), ("a100_sxm", 1)])
def test_a_latent_cache_is_split_where_there_is_a_kernel_for_it(gpu: str, splits: int) -> None:
    (group,) = latent_decode_groups(frame(ATTENTION | {"gpu": gpu, "seq_q": 1}, {}))
    assert group.dims["splits"].tolist() == [splits]


def test_a_module_absorbs_while_decoding_and_expands_in_prefill() -> None:
    base = ATTENTION | {"model": "deepseek-v3", "gemm_dtype": "fp8_block"}
    rows = frame(base, {"phase": "prefill"}, {"phase": "decode", "seq_q": 1})
    kinds = {group.name["phase"]: group.form.kind for group in module_groups(rows)}
    assert kinds == {"prefill": "latent-module-prefill", "decode": "latent-module-decode"}


def test_heads_quantise_what_goes_in() -> None:
    base = ATTENTION | {"op": "mla_gen_pre", "n_heads": 16, "num_tokens": 64}
    found = list(head_groups(frame(base, {"dtype": "fp8"}, {"dtype": "bfloat16"})))
    assert {group.name["dtype"]: group.dims["quantised"][0] for group in found} == {
        "fp8": 1,
        "bfloat16": 0,
    }
