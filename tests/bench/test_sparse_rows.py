"""Measured sparse attention as columns: a few rows whose columns can be checked by hand."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
import pytest

from roofline.bench.columns import prepared
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.shipping.variants import label_of
from roofline.bench.sparse_rows import network, sparse_groups
from roofline.bench.validation import READERS
from roofline.cost.kernels import sparse
from roofline.errors import InputError

MODULE = {
    "gpu": "b200_sxm",
    "backend": "trtllm",
    "version": "1",
    "op": "dsa",
    "kernel": "default",
    "model": "deepseek-ai/DeepSeek-V3.2",
    "phase": "decode",
    "dtype": "bfloat16",
    "kv_dtype": "fp8",
    "gemm_dtype": "nvfp4",
    "compress_ratio": 1,
    "score_mode": "",
    "n_heads": 16,
    "batch": 2,
    "seq_q": 1,
    "seq_kv": 8192,
    "time_s": 1e-4,
}


def groups(*changes: Mapping[str, object], kind: str = "sparse-attention") -> list[RowGroup]:
    rows, refused = prepared(kind, pd.DataFrame([{**MODULE, **each} for each in changes]))
    assert not refused
    return list(READERS[kind](rows))


def weights(group: RowGroup) -> float:
    shapes = [(group.dims[f"n{i}"][0], group.dims[f"k{i}"][0]) for i in range(sparse.MOST)]
    return float(sum(n * k for n, k in shapes))


def test_a_module_has_all_its_matrices_of_a_device() -> None:
    """An eighth of the heads of DeepSeek-V3.2; down, index and its weights on every device."""
    (group,) = groups({})
    down, index = 7168 * (1536 + 576), 1536 * 64 * 128 + 7168 * (128 + 64)
    heads = 16 * (1536 * 192 + 512 * (128 + 128) + 128 * 7168)
    assert weights(group) == down + index + heads
    assert group.dims["weight_width"][0] == 0.5625
    assert group.dims["faster"][0] == 4
    assert group.dims["met"][0] == 2048
    assert group.dims["key_bytes"][0] == 576
    assert group.dims["entries"][0] == 8192


def test_vllm_multiplies_the_weights_of_an_index_of_32_heads_by_another_kernel() -> None:
    """GLM-5's are 32 columns, no multiple of 64; all widths of DeepSeek-V3.2 are."""
    base = {"backend": "vllm", "phase": "prefill", "gemm_dtype": "fp8_block", "n_heads": 64}
    (both,) = groups(base, base | {"model": "zai-org/GLM-5"})
    assert both.form is sparse.UNALIGNED_MODULE
    assert both.dims["unaligned"].tolist() == [0.0, 1.0]
    short = base | {"kernel": "FLASHINFER_MLA_SPARSE"}
    (blocks,), (plain,) = groups(short), groups(short | {"gemm_dtype": "nvfp4"})
    assert blocks.form is sparse.SHORT_UNALIGNED_MODULE
    assert plain.form is sparse.SHORT_MODULE
    assert not plain.dims["unaligned"].any()


def test_a_layer_that_takes_over_a_choice_has_no_index() -> None:
    (group,) = groups({"op": "dsa_skip_indexer", "model": "zai-org/GLM-5.2"})
    assert not group.dims["entries"].any()
    assert not group.dims["index_macs"].any()
    (whole,) = groups({"model": "zai-org/GLM-5.2"})
    assert weights(whole) - weights(group) == 2048 * 32 * 128 + 6144 * (128 + 32)


def test_entries_are_those_of_the_ratio() -> None:
    base = {"model": "deepseek-ai/DeepSeek-V4-Flash", "gemm_dtype": "fp8_block", "n_heads": 64}
    (some,) = groups(base | {"op": "csa", "compress_ratio": 4})
    (every,) = groups(base | {"op": "hca", "compress_ratio": 128})
    assert some.dims["met"][0] == 128 + 512
    assert some.dims["entries"][0] == 2048
    assert every.dims["met"][0] == 128 + 8192 / 128
    assert not every.dims["entries"].any()


def test_kernels_have_their_own_part_only() -> None:
    base = {"phase": "any", "seq_q": 4, "model": "zai-org/GLM-5", "n_heads": 64}
    found = {
        group.name["op"]: group
        for group in groups(
            *(base | {"op": op} for op in ("dsa_topk", "dsa_indexer_logits", "dsa_attn"))
        )
    }
    assert all(weights(group) == 0 for group in found.values())
    assert found["dsa_topk"].dims["chooses"][0] == 1
    assert found["dsa_topk"].dims["index_macs"][0] == 0
    assert found["dsa_indexer_logits"].dims["chooses"][0] == 0
    assert found["dsa_indexer_logits"].dims["index_macs"][0] == 32 * 128
    assert found["dsa_attn"].dims["attends"][0] == 1
    assert not found["dsa_attn"].dims["entries"].any()


def test_blocks_of_minimax_have_groups_of_heads() -> None:
    base = {"model": "MiniMaxAI/MiniMax-M3", "gemm_dtype": "bfloat16", "kv_dtype": "bfloat16"}
    (group,) = groups(base, kind="msa")
    assert group.dims["groups"][0] == 1
    assert group.dims["rows"][0] == 16
    assert group.dims["key_bytes"][0] == 512
    assert weights(group) == 6144 * 128 * (16 + 2) + 6144 * 128 * 5 + 6144 * 16 * 128


def test_few_networks_and_heads_are_told_apart_by_their_batches() -> None:
    changes = [{"n_heads": h, "batch": b} for h, b in product((16, 32), (1, 16, 256))]
    (group,) = groups(*changes)
    assert len(np.unique(group.families)) == 6


def test_the_module_that_an_engine_takes_has_a_name_without_its_kernel() -> None:
    def named(**change: str) -> str:
        (group,) = groups(change)
        return label_of("sparse-attention", group.name).variant

    assert named() == "dsa-decode-bfloat16-fp8-nvfp4"
    assert named(backend="vllm", kernel="FLASHINFER_MLA_SPARSE") == "dsa-decode-bfloat16-fp8-nvfp4"
    assert named(backend="vllm") == "dsa-decode-bfloat16-fp8-nvfp4-default"
    assert named(kernel="sglang_dsa_dense_mha_fa3").endswith("dense_mha_fa3")
    assert "." not in named(op="dsa_indexer_logits", phase="any", kernel="deep_gemm.fp8")


def test_a_network_without_sparse_attention_is_refused() -> None:
    with pytest.raises(InputError, match="no sparse attention"):
        network("deepseek-ai/DeepSeek-V3", 1)
    with pytest.raises(InputError, match="of 7 tokens"):
        list(
            sparse_groups(
                pd.DataFrame([MODULE | {"model": "deepseek-v4-pro", "compress_ratio": 7}])
            )
        )
