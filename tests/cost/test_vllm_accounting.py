"""The counts of a step against those of vLLM's own counters, component by component.

They agree within 1 %, or differ by something that is named, and then by no more than it explains.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pytest

from roofline.api.setting import machine_of, make_deployment, network_of
from roofline.cost.step import SequenceGroup, step
from roofline.cost.work import Op
from tests.cost.vllm_accounting import ACTIVATION, Batch, Count, Network, accounting

WITHIN: Final = 0.01
GROUPED: Final = {"layers": 32, "d": 4096, "heads": 32, "kv_heads": 8, "head": 128, "ff": 14336}
NETWORKS: Final = (
    Network("llama-3.1-8b", vocab=128256, **GROUPED),
    Network("llama-3.1-8b", vocab=128256, weight=1, cache=1, **GROUPED),
    Network("mistral-7b-v0.1", vocab=32000, window=4096, windowed=32, **GROUPED),
    Network(
        "gemma-2-9b", layers=42, d=3584, heads=16, kv_heads=8, head=256, ff=14336, vocab=256000,
        window=4096, windowed=21,
    ),
    Network(
        "mixtral-8x7b-v0.1", vocab=32000, moe_layers=32, experts=8, active=2, expert_ff=14336,
        **{**GROUPED, "ff": 0},
    ),
    Network(
        "deepseek-v2-lite", layers=27, d=2048, heads=16, ff=10944, vocab=102400, moe_layers=26,
        experts=64, active=6, expert_ff=1408, shared=2, latent=512, rope=64, nope=128, value=128,
    ),
    Network(
        "deepseek-v3", layers=61, d=7168, heads=128, ff=18432, vocab=129280, moe_layers=58,
        experts=256, active=8, expert_ff=2048, shared=1, latent=512, rope=64, nope=128, value=128,
        query_rank=1536, weight=1,
    ),
)  # fmt: skip
BATCHES: Final = (
    Batch(4, 2048, 2048),  # prompts
    Batch(2, 512, 6144),  # chunks of prompts that are cached up to them
    Batch(16, 1, 2048),
    Batch(256, 1, 6144),
)
COMPONENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "qkv": ("qkv",),
    "latent": ("latent-down",),
    "query": ("q", "q-up"),
    "kv up": ("kv-up", "q-absorb", "v-absorb"),
    "attention": ("attention", "attention-window-4096", "attention-expanded", "attention-absorbed"),
    "cache write": ("kv-store",),
    "out": ("attn-out",),
    "dense": ("gate-up", "activation", "down"),
    "routed": ("experts-gate-up", "experts-activation", "experts-down"),
    "shared": ("shared-gate-up", "shared-activation", "shared-down"),
    "unembed": ("lm-head",),
}
"""Operators of ours in each component of theirs."""
BEYOND: Final = {"embedding", "norm", "final-norm", "latent-norm", "rotary", "router"} | {
    "experts-combine"
}
"""Operators that they do not count; conversions before 8-bit products are others."""


@dataclass(frozen=True)
class Deviation:
    """Why a count of ours is another than theirs.

    Attributes
    ----------
    component, measure
        Of which count.
    why
        What is counted differently, and by whom.
    beyond
        Ours minus theirs, from the geometry alone; 0 where the reason does not apply.
    """

    component: str
    measure: str
    why: str
    beyond: Callable[[Network, Batch], float]


def pairs(b: Batch, window: int) -> float:
    """Pairs of a query and a key that it may see, counted one query at a time."""
    first = b.context - b.new + 1
    seen = range(first, b.context + 1)
    return b.sequences * float(sum(min(keys, window) if window else keys for keys in seen))


def masked(n: Network, b: Batch) -> float:
    """FLOPs of the pairs that a causal mask takes out of the square of tokens and keys."""
    per_pair = 2 * n.heads * (n.nope + n.rope + n.value if n.latent else 2 * n.head)
    layers = ((n.layers - n.windowed, 0), (n.windowed, n.window))
    return per_pair * sum(
        number * (pairs(b, window) - b.new * b.keys(window)) for number, window in layers
    )


def absorbed(n: Network, b: Batch) -> bool:
    """Whether attention of decode runs on the latents."""
    return bool(n.latent) and b.decodes


def per_latent_layer(
    n: Network, b: Batch, elements: float, *, width: float = ACTIVATION, when: bool = True
) -> float:
    return n.layers * elements * width if n.latent and when else 0.0


def window_head(n: Network, b: Batch) -> float:
    """Keys before the window of the last query that earlier queries of the step still see."""
    reach = min(b.context, n.window + b.new - 1) - min(b.context, n.window)
    return n.windowed * b.sequences * reach * 2 * n.kv_heads * n.head * n.cache


def touched(n: Network, b: Batch) -> float:
    """Expected distinct experts, less those that they count."""
    chance = 1 - (1 - n.active / n.experts) ** b.tokens
    return n.experts * chance - min(b.tokens * n.active, n.experts)


DEVIATIONS: Final = (
    Deviation(
        "attention", "flops",
        "they count the square of tokens and keys; a causal kernel skips what the mask hides",
        masked,
    ),
    Deviation(
        "attention", "flops",
        "they count queries as wide as the expanded keys; decode runs in the latent space, where "
        "scores take c + rope and values c for each pair",
        lambda n, b: n.layers * 2 * n.heads * b.new * b.keys()
        * ((2 * n.latent + n.rope) - (n.nope + n.rope + n.value)) * absorbed(n, b),
    ),
    Deviation(
        "attention", "moved",
        "they do not count the output as written",
        lambda n, b: n.layers * b.tokens * n.heads * (n.value if n.latent else n.head) * ACTIVATION
        * (not absorbed(n, b)),
    ),
    Deviation(
        "attention", "moved",
        "they take keys and values of prompts for activations; they are in the cache, in its width",
        lambda n, b: (n.cache - ACTIVATION) * 2 * n.kv_heads * n.head * (not b.decodes)
        * ((n.layers - n.windowed) * b.keys() + n.windowed * b.keys(n.window)),
    ),
    Deviation(
        "attention", "moved",
        "they read one window of keys; the first queries of a step see further back than its last",
        lambda n, b: window_head(n, b),
    ),
    Deviation(
        "attention", "moved",
        "they read the rotated part of a key once for each head; it is one for all",
        lambda n, b: -per_latent_layer(
            n, b, b.keys() * (n.heads - 1) * n.rope, when=not b.decodes
        ),
    ),
    Deviation(
        "attention", "moved",
        "absorbed queries are c + rope wide, and outputs, which they leave out, c",
        lambda n, b: per_latent_layer(
            n, b, b.tokens * n.heads * (2 * n.latent + n.rope - n.nope - n.rope), when=b.decodes
        ),
    ),
    Deviation(
        "cache write", "moved",
        "they count the write; the kernel reads the keys and values that it writes",
        lambda n, b: n.layers * b.tokens * ACTIVATION
        * (n.latent + n.rope if n.latent else 2 * n.kv_heads * n.head),
    ),
    Deviation(
        "latent", "moved",
        "they read the input for queries and for keys; the engine makes both in one product",
        lambda n, b: -per_latent_layer(n, b, b.tokens * n.d, when=n.query_rank > 0),
    ),
    Deviation(
        "kv up", "flops",
        "they expand the new tokens; keys and values of the cached ones are made again too",
        lambda n, b: n.layers * 2 * (b.keys() - b.tokens) * n.latent
        * n.heads * (n.nope + n.value) * (not b.decodes),
    ),
    Deviation(
        "kv up", "moved",
        "the same, with what goes in and comes out",
        lambda n, b: per_latent_layer(
            n, b, (b.keys() - b.tokens) * (n.latent + n.heads * (n.nope + n.value)),
            when=not b.decodes,
        ),
    ),
    Deviation(
        "kv up", "moved",
        "they take latents from the product before; an engine gathers those of all keys from its "
        "cache",
        lambda n, b: per_latent_layer(
            n, b, b.keys() * (n.latent + n.rope), width=n.cache, when=not b.decodes
        ),
    ),
    Deviation(
        "kv up", "moved",
        "decode has a matrix for each head before and after attention: each reads and writes its "
        "own nope + c and c + v",
        lambda n, b: per_latent_layer(
            n, b,
            b.tokens * (n.heads * (n.nope + 2 * n.latent + n.value)
                        - (n.latent + n.heads * (n.nope + n.value))),
            when=b.decodes,
        ),
    ),
    Deviation(
        "routed", "weights",
        "they read as many experts as tokens are routed to, up to all; some tokens choose the same",
        lambda n, b: n.moe_layers * 3 * n.d * n.expert_ff * n.weight * touched(n, b)
        if n.experts else 0.0,
    ),
    Deviation(
        "shared", "moved",
        "they read the input of the last matrix for one of the shared experts and write its output "
        "for each; together they are one wider part",
        lambda n, b: n.moe_layers * (n.shared - 1) * b.tokens * (n.expert_ff - n.d) * ACTIVATION
        if n.shared else 0.0,
    ),
)  # fmt: skip


def ours(n: Network, b: Batch) -> tuple[dict[str, Count], list[Op]]:
    """Counts of a step by their components, and the operators that are in none."""
    gpu, box = machine_of("h100-sxm", None, None)
    stored = {2: "bf16", 1: "fp8"}
    deployment = make_deployment(
        network_of(n.name),
        gpu,
        box,
        weights=stored[int(n.weight)],
        kv=stored[int(n.cache)],
        calibration="none",
    )
    ops = step(deployment, SequenceGroup(b.sequences, b.new, b.context))
    of = {name: part for part, names in COMPONENTS.items() for name in names}
    counts: dict[str, Count] = {}
    for name, op in ops.items():
        # Latents that are gathered stand with whatever runs first after it.
        part = of.get("kv-up" if name == "quantise-kv-up" else name)
        if part is None:
            continue
        before, work = counts.get(part, Count()), op.total
        moved = work.kv_bytes + (0.0 if "quantise" in name else work.activation_bytes)
        counts[part] = Count(
            before.flops + float(work.flops),
            before.weights + float(work.weight_bytes),
            before.moved + float(moved),
        )
    return counts, [op for name, op in ops.items() if name not in of]


CASES: Final = [(n, b) for n in NETWORKS for b in BATCHES]
NAMES: Final = [
    f"{n.name}-{'fp8' if n.weight == 1 else 'bf16'}-{b.sequences}x{b.new}-of-{b.context}"
    for n, b in CASES
]


@pytest.mark.parametrize(("n", "b"), CASES, ids=NAMES)
def test_each_count_is_vllms_or_differs_by_what_is_named(n: Network, b: Batch) -> None:
    mine, _ = ours(n, b)
    theirs = accounting(n, b)
    assert mine.keys() == theirs.keys()
    for part, count in theirs.items():
        for measure in ("flops", "weights", "moved"):
            named = sum(
                each.beyond(n, b)
                for each in DEVIATIONS
                if (each.component, each.measure) == (part, measure)
            )
            found = getattr(mine[part], measure)
            expected = getattr(count, measure) + named
            assert found == pytest.approx(expected, rel=WITHIN), f"{part} {measure}"


@pytest.mark.parametrize("each", DEVIATIONS, ids=lambda each: each.why)
def test_every_deviation_is_needed_somewhere(each: Deviation) -> None:
    def share(n: Network, b: Batch) -> float:
        count = accounting(n, b).get(each.component)
        return abs(each.beyond(n, b)) / getattr(count, each.measure) if count else 0.0

    assert max(share(n, b) for n, b in CASES) > WITHIN


@pytest.mark.parametrize(("n", "b"), CASES, ids=NAMES)
def test_what_vllm_leaves_out_is_no_product_beside_the_router(n: Network, b: Batch) -> None:
    _, others = ours(n, b)
    assert {op.name for op in others if not op.name.startswith("quantise-")} <= BEYOND
    assert {op.name for op in others if op.kind in ("gemm", "moe")} <= {"router"}


def test_decode_of_a_dense_network_agrees_in_all_but_the_kernels_own_reads_and_writes() -> None:
    """The plainest case needs no reason for FLOPs and weights, in no component."""
    n, b = NETWORKS[0], Batch(16, 1, 2048)
    mine, _ = ours(n, b)
    for part, count in accounting(n, b).items():
        assert mine[part].flops == count.flops
        assert mine[part].weights == count.weights
