"""FlashInfer's attention, where it is installed, beside the project's own and PyTorch's."""

from typing import Any

import numpy as np
import pytest

from roofline.bench.gpu.device import CudaDevice
from roofline.bench.gpu.flashinfer_attention import LATENT_PAGE, NEEDS, QUERY
from roofline.bench.gpu.torch_attention import pages
from tests.gpu.running import ran

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def installed() -> None:
    for name in NEEDS:
        pytest.importorskip(name)


def widened(gpu: CudaDevice, array: Any) -> Any:
    import torch

    return torch.from_dlpack(array).view(torch.bfloat16).double()


@pytest.mark.parametrize("context", [128, 2048])
def test_decoding_is_the_projects(gpu: CudaDevice, context: int) -> None:
    at = {"count": 4, "new": 1, "heads": 32, "kv_heads": 8, "head_dim": 128, "context": context}
    ours, theirs = (
        widened(gpu, ran(gpu, name, at)["output"]) for name in ("paged-decode", "flashinfer-decode")
    )
    assert float((theirs.reshape(ours.shape) - ours).norm() / ours.norm()) < 1e-2


@pytest.mark.parametrize(("new", "context"), [(256, 256), (256, 512)])
def test_a_chunk_is_what_pytorch_makes_of_its_pages(
    gpu: CudaDevice, new: int, context: int
) -> None:
    import torch

    at = {"count": 1, "new": new, "heads": 32, "kv_heads": 8, "head_dim": 128, "context": context}
    found = ran(gpu, "flashinfer-prefill", at)
    order = torch.from_numpy(pages(1, context // 16)[0].astype(np.int64)).cuda()
    query = widened(gpu, found["query"]).transpose(0, 1)[None]
    keys, values = (
        widened(gpu, found[name])[order].reshape(context, 8, 128).transpose(0, 1)[None]
        for name in ("keys", "values")
    )
    seen = torch.arange(context)[None] <= torch.arange(context - new, context)[:, None]
    exact = torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=seen.cuda(), enable_gqa=True
    )
    theirs = widened(gpu, found["output"]).transpose(0, 1)[None]
    assert float((theirs - exact).norm() / exact.norm()) < 1e-2


@pytest.mark.parametrize(("new", "context"), [(256, 256), (256, 1024)])
def test_expanded_latents_are_attended_to_as_by_pytorch(
    gpu: CudaDevice, new: int, context: int
) -> None:
    import torch

    at = {"count": 2, "heads": 16, "new": new, "context": context}
    found = ran(gpu, "flashinfer-mla-prefill", at)
    query, keys, values, theirs = (
        widened(gpu, found[name]).reshape(2, -1, *found[name].shape[1:]).transpose(1, 2)
        for name in ("query", "keys", "values", "output")
    )
    seen = torch.arange(context)[None] <= torch.arange(context - new, context)[:, None]
    exact = torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=seen.cuda()
    )
    assert float((theirs - exact).norm() / exact.norm()) < 1e-2


def test_latents_are_read_by_page(gpu: CudaDevice) -> None:
    import torch

    count, context = 2, 512
    found = ran(gpu, "flashinfer-mla", {"count": count, "heads": 16, "context": context})
    order = torch.from_numpy(pages(count, context // LATENT_PAGE).astype(np.int64)).cuda()
    latents, rotated = (
        widened(gpu, found[name])[order].reshape(count, context, -1)
        for name in ("latents", "rotated")
    )
    query, turned = widened(gpu, found["query"]), widened(gpu, found["turned"])
    scores = query @ latents.transpose(1, 2) + turned @ rotated.transpose(1, 2)
    exact = torch.softmax(scores * QUERY**-0.5, dim=-1) @ latents
    theirs = widened(gpu, found["output"])
    assert float((theirs - exact).norm() / exact.norm()) < 1e-2
