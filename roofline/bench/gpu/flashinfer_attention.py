"""FlashInfer's attention over paged caches, the kernels of vLLM and SGLang, where it is installed.

Its compiled kernels must be there too (``flashinfer-jit-cache``): compiling one takes minutes.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from roofline.bench.gpu.paged import PAGE, paged_shape
from roofline.bench.gpu.torch_attention import BorrowedArray, on_stream, pages
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.attention import attention
from roofline.cost.latent import absorbed_attention, expanded_attention
from roofline.cost.work import Work

NEEDS: Final = ("torch", "flashinfer", "flashinfer_jit_cache")
HEADS: Final = ((32, 8, 128), (64, 8, 128), (8, 1, 128), (28, 4, 128))
"""Query heads, key heads and their width: Llama 3.1 8B and 70B, the latter on one of eight devices,
Qwen2.5 7B."""
CHUNKS: Final = (
    *((size, size) for size in (256, 512, 1024, 2048, 4096, 8192, 16384)),
    *((256, 4096), (512, 2048), (512, 8192), (2048, 16384), (2048, 65536), (8192, 32768)),
)
"""New tokens and context: from empty, then after a prefix."""
LATENT: Final = 512
ROTATED: Final = 64
"""Widths of DeepSeek-V3's latent and of the part of keys beside it that is rotated."""
QUERY: Final = 192
VALUE: Final = 128
"""Widths of a head's query and key, and of its value, where they are made of the latent; the root
of the first scales the scores, absorbed or not."""
LATENT_PAGE: Final = 64
"""Tokens of a page of latents. [token]"""
WIDTH: Final = 2
WORKSPACE_BYTES: Final = 1 << 28
"""Room for parts of results: twice what FlashInfer says is usual. [B]"""
SHORT: Final = 1024
"""Context up to which launches weigh. [token]"""


def starts(count: int, each: int) -> NDArray[np.int32]:
    """Place of the first of each sequence's tokens or pages, and after the last.

    >>> starts(3, 5).tolist()
    [0, 5, 10, 15]
    """
    return np.arange(0, count * each + 1, each, dtype=np.int32)


def decode(name: str) -> Probe:
    """Probe of one new token per sequence over a paged cache, by the tensor cores."""
    return _probe(
        name,
        kind="decode-attention",
        axes={
            "count": (1, 4, 16, 64, 256),
            "new": (1,),
            "heads kv_heads head_dim": HEADS,
            "context": (128, 512, 2048, 8192, 32768, 131072),
        },
        arguments=_paged,
        launch=_decode,
        work=_work,
        streamed=("keys", "values"),
        states=("cold",),
        regime=lambda at: "short" if at["context"] <= SHORT else "long",
    )


def prefill(name: str) -> Probe:
    """Probe of prompts, and of chunks of them after a prefix, over a paged cache."""
    return _probe(
        name,
        kind="prefill-attention",
        axes={"count": (1, 4), "heads kv_heads head_dim": HEADS, "new context": CHUNKS},
        arguments=_paged,
        launch=_prefill,
        work=_work,
        regime=lambda at: "whole" if at["new"] == at["context"] else "chunk",
    )


def latent(name: str) -> Probe:
    """Probe of one new token per sequence over a paged cache of latents."""
    return _probe(
        name,
        kind="latent-decode",
        axes={
            "count": (1, 4, 16, 64, 256),
            "heads": (16, 32, 64, 128),
            "context": (512, 1024, 2048, 4096, 8192, 32768),
        },
        arguments=_latents,
        launch=_latent,
        work=_latent_work,
        streamed=("latents", "rotated"),
        states=("cold",),
        regime=lambda at: "short" if at["context"] <= SHORT else "long",
    )


def expanded(name: str) -> Probe:
    """Probe of prompts, and of chunks of them, on keys and values that are made of latents."""
    return _probe(
        name,
        kind="latent-prefill",
        axes={"count": (1, 4), "heads": (16, 32, 64, 128), "new context": CHUNKS},
        arguments=_made,
        launch=_expanded,
        work=_expanded_work,
        form="latent-prefill",
        regime=lambda at: "whole" if at["new"] == at["context"] else "chunk",
    )


def _probe(name: str, **what: Any) -> Probe:
    return Probe(
        name=name,
        version=1,
        arithmetic="bf16",
        provider="flashinfer",
        backends=("cupy",),
        needs=NEEDS,
        **what,
    )


def _paged(make: Maker, at: Shape) -> Mapping[str, object]:
    """Queries, the cache in pages, and room for the result."""
    count, new, heads, width = at["count"], at["new"], at["heads"], at["head_dim"]
    shape = paged_shape(at)
    return {
        "query": make.normal(count * new, heads, width, of="bf16"),
        "keys": make.normal(*shape, of="bf16"),
        "values": make.normal(*shape, of="bf16"),
        "output": make.empty(count * new, heads, width, of="bf16"),
        "shape": (count, new, at["context"]),
    }


def _latents(make: Maker, at: Shape) -> Mapping[str, object]:
    """Queries in the latent and beside it, both parts of the cache, and room for the result."""
    count, heads = at["count"], at["heads"]
    held = count * -(-at["context"] // LATENT_PAGE)
    return {
        "query": make.normal(count, heads, LATENT, of="bf16"),
        "turned": make.normal(count, heads, ROTATED, of="bf16"),
        "latents": make.normal(held, LATENT_PAGE, LATENT, of="bf16"),
        "rotated": make.normal(held, LATENT_PAGE, ROTATED, of="bf16"),
        "output": make.empty(count, heads, LATENT, of="bf16"),
        "context": at["context"],
    }


def _made(make: Maker, at: Shape) -> Mapping[str, object]:
    """Queries, keys and values by token, and room for the result."""
    count, new, context, heads = at["count"], at["new"], at["context"], at["heads"]
    return {
        "query": make.normal(count * new, heads, QUERY, of="bf16"),
        "keys": make.normal(count * context, heads, QUERY, of="bf16"),
        "values": make.normal(count * context, heads, VALUE, of="bf16"),
        "output": make.empty(count * new, heads, VALUE, of="bf16"),
        "shape": (count, new, context),
    }


def _decode(
    xp: Any, query: Any, keys: Any, values: Any, output: Any, shape: tuple[int, int, int]
) -> None:
    count, _, context = shape
    heads = query.shape[1], *keys.shape[2:]
    _run(xp, lambda: planned_decode(count, context, *heads), query, (keys, values), output)


def _prefill(
    xp: Any, query: Any, keys: Any, values: Any, output: Any, shape: tuple[int, int, int]
) -> None:
    heads = query.shape[1], *keys.shape[2:]
    _run(xp, lambda: planned_prefill(*shape, *heads), query, (keys, values), output)


def _run(xp: Any, planned: Callable[[], Any], query: Any, cache: Any, output: Any) -> None:
    with on_stream(xp, "FlashInfer"):
        plan = planned()
        held = tuple(view(BorrowedArray(array)) for array in cache)
        plan.run(view(BorrowedArray(query)), held, out=view(BorrowedArray(output)))


def _expanded(
    xp: Any, query: Any, keys: Any, values: Any, output: Any, shape: tuple[int, int, int]
) -> None:
    with on_stream(xp, "FlashInfer"):
        plan = planned_expanded(*shape, query.shape[1])
        arrays = [view(BorrowedArray(array)) for array in (query, keys, values)]
        plan.run(*arrays, out=view(BorrowedArray(output)))


def _latent(
    xp: Any, query: Any, turned: Any, latents: Any, rotated: Any, output: Any, context: int
) -> None:
    count, heads, _ = query.shape
    with on_stream(xp, "FlashInfer"):
        plan = planned_latent(count, context, heads)
        arrays = [view(BorrowedArray(array)) for array in (query, turned, latents, rotated)]
        plan.run(*arrays, out=view(BorrowedArray(output)))


@cache
def view(borrowed: BorrowedArray) -> Any:
    """PyTorch's view of an array in bfloat16.

    Kept until the next plan, as a capture cannot wait for a stream; there are thousands of copies
    of a small cache.
    """
    import torch

    return torch.from_dlpack(borrowed.array).view(torch.bfloat16)


@cache
def workspace() -> Any:
    """Room that all plans share; one runs at a time."""
    import torch

    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")


def _placed(*arrays: NDArray[np.int32]) -> list[Any]:
    """Arrays of a plan on the device; views of those of the plan before are forgotten."""
    import torch

    view.cache_clear()
    return [torch.from_numpy(np.ascontiguousarray(array)).cuda() for array in arrays]


def _table(count: int, context: int, page: int) -> list[NDArray[np.int32]]:
    """Starts of the sequences' pages, pages in no order, and tokens of the last of each."""
    each = -(-context // page)
    last = np.full(count, context - (each - 1) * page, np.int32)
    return [starts(count, each), pages(count, each).ravel(), last]


@lru_cache(maxsize=1)
def planned_decode(count: int, context: int, heads: int, kv_heads: int, width: int) -> Any:
    """FlashInfer's plan of one token for each sequence."""
    import torch
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    plan = BatchDecodeWithPagedKVCacheWrapper(workspace(), "NHD", use_tensor_cores=True)
    kinds = {"q_data_type": torch.bfloat16, "kv_data_type": torch.bfloat16}
    plan.plan(*_placed(*_table(count, context, PAGE)), heads, kv_heads, width, PAGE, **kinds)
    return plan


@lru_cache(maxsize=1)
def planned_prefill(
    count: int, new: int, context: int, heads: int, kv_heads: int, width: int
) -> Any:
    """FlashInfer's plan of some tokens for each sequence, the last of its context."""
    import torch
    from flashinfer import BatchPrefillWithPagedKVCacheWrapper

    plan = BatchPrefillWithPagedKVCacheWrapper(workspace(), "NHD")
    kinds = {"q_data_type": torch.bfloat16, "kv_data_type": torch.bfloat16}
    places = _placed(starts(count, new), *_table(count, context, PAGE))
    plan.plan(*places, heads, kv_heads, width, PAGE, causal=True, **kinds)
    return plan


@lru_cache(maxsize=1)
def planned_latent(count: int, context: int, heads: int) -> Any:
    """FlashInfer's plan of one token for each sequence over latents."""
    import torch
    from flashinfer.mla import BatchMLAPagedAttentionWrapper

    plan = BatchMLAPagedAttentionWrapper(workspace())
    begins, order, _ = _table(count, context, LATENT_PAGE)
    lengths = np.full(count, context, np.int32)
    names = ("qo_indptr", "kv_indptr", "kv_indices", "kv_len_arr")
    places = _placed(starts(count, 1), begins, order, lengths)
    plan.plan(
        **dict(zip(names, places, strict=True)),
        num_heads=heads,
        head_dim_ckv=LATENT,
        head_dim_kpe=ROTATED,
        page_size=LATENT_PAGE,
        causal=False,
        sm_scale=QUERY**-0.5,
        q_data_type=torch.bfloat16,
        kv_data_type=torch.bfloat16,
    )
    return plan


@lru_cache(maxsize=1)
def planned_expanded(count: int, new: int, context: int, heads: int) -> Any:
    """FlashInfer's plan of some tokens for each sequence, on keys and values in their order."""
    import torch
    from flashinfer import BatchPrefillWithRaggedKVCacheWrapper

    plan = BatchPrefillWithRaggedKVCacheWrapper(workspace(), "NHD")
    plan.plan(
        *_placed(starts(count, new), starts(count, context)),
        num_qo_heads=heads,
        num_kv_heads=heads,
        head_dim_qk=QUERY,
        head_dim_vo=VALUE,
        causal=True,
        sm_scale=QUERY**-0.5,
        q_data_type=torch.bfloat16,
        kv_data_type=torch.bfloat16,
    )
    return plan


def _work(at: Shape) -> Work:
    """Work as the cost model counts it."""
    return attention(
        *(at["count"], at["new"], at["context"]),
        heads=at["heads"],
        kv_heads=at["kv_heads"],
        head_dim=at["head_dim"],
        width=WIDTH,
        kv_width=WIDTH,
    )


def _expanded_work(at: Shape) -> Work:
    """Work as the cost model counts it, but for keys: here each head has its rotated part."""
    return expanded_attention(
        *(float(at["count"]), float(at["new"]), float(at["context"])),
        heads=float(at["heads"]),
        query_dim=float(QUERY),
        value_dim=float(VALUE),
        rope=0.0,
        width=WIDTH,
    )


def _latent_work(at: Shape) -> Work:
    """Work as the cost model counts it."""
    return absorbed_attention(
        *(float(at["count"]), 1.0, float(at["context"])),
        heads=float(at["heads"]),
        latent=float(LATENT),
        rope=float(ROTATED),
        width=WIDTH,
        kv_width=WIDTH,
    )
