"""Sampling of the next token by PyTorch: the likeliest of each sequence, drawn by their chances."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from roofline.bench.gpu.torch_attention import BorrowedArray, on_stream
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.work import Work

BATCHES: Final = (1, 4, 16, 64, 256)
"""Sequences that get a token. [sequence]"""
VOCABULARIES: Final = (32_000, 128_256, 151_936)
"""Tokens of Llama 2, Llama 3 and Qwen3. [token]"""
TOP_K: Final = 50
TOP_P: Final = 0.9
WIDTH: Final = 4


def arguments(make: Maker, at: Shape) -> Mapping[str, object]:
    """Logits, and noise that stands for what a run draws."""
    shape = at["batch"], at["vocabulary"]
    return {"logits": make.normal(*shape), "noise": make.normal(*shape)}


def launch(xp: Any, logits: Any, noise: Any) -> None:
    """A token for each sequence; PyTorch makes room for what it needs itself."""
    found = [plain(BorrowedArray(array)) for array in (logits, noise)]
    with on_stream(xp, "sampling"):
        sample(*found)


@lru_cache(maxsize=2)
def plain(borrowed: BorrowedArray) -> Any:
    """PyTorch's view of an array; kept as those of attention are."""
    import torch

    return torch.from_dlpack(borrowed.array)


def sample(logits: Any, noise: Any, top_k: int = TOP_K, top_p: float = TOP_P) -> Any:
    """Token of each sequence, [sequences, 1].

    Those below the k-th are left out, then the least likely up to 1 − p together. A token wins with
    its chance where the noise is exponential. Source: ``apply_top_k_top_p_pytorch`` and
    ``random_sample`` of vLLM (``v1/sample/ops/topk_topp_sampler.py``).
    """
    none = float("-inf")
    ordered, tokens = logits.sort(dim=-1)
    ordered = ordered.masked_fill(ordered < ordered[:, -top_k].unsqueeze(1), none)
    below = ordered.softmax(dim=-1).cumsum(dim=-1) <= 1.0 - top_p
    below[:, -1] = False
    chances = ordered.masked_fill(below, none).softmax(dim=-1)
    winner = chances.div(noise.abs()).argmax(dim=-1, keepdim=True)
    return tokens.gather(-1, winner)


def work(at: Shape) -> Work:
    """Logits and noise are read once."""
    return Work(activation_bytes=2.0 * at["batch"] * at["vocabulary"] * WIDTH)


def sampling(name: str) -> Probe:
    """Probe of top-k and top-p sampling, called as its file is."""
    return Probe(
        name=name,
        version=1,
        kind="lookup",
        axes={"batch": BATCHES, "vocabulary": VOCABULARIES},
        arguments=arguments,
        launch=launch,
        work=work,
        provider="torch",
        backends=("cupy",),
        form="memory",
        needs=("torch",),
    )
