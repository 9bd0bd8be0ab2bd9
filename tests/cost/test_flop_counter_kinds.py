"""FLOPs of mixtures, latent attention and recurrent layers against an independent counter.

``tests/golden/flop_counts_kinds.csv`` holds what ``torch.utils.flop_counter.FlopCounterMode``
counted while transformers' own models ran on a CPU with eager attention and eager experts, apart
for products of two matrices (``mm``, ``addmm``), batched products (``bmm``) and convolutions.

Where the counter and the engine mean the same, they agree exactly. Elsewhere:

- Llama 4 runs every token through every expert there; a serving engine runs the chosen ones. The
  test sends tokens to all experts.
- A convolution before a state has no matrix; the engine counts what it moves, not its few FLOPs.
- States are updated element by element there, which the counter does not see: of a decode step it
  sees the multiply-adds in ``SEEN`` of the engine's three or four per element.
- Prompts are padded to whole chunks and all pairs in a chunk are multiplied there, so that batched
  products of prefill are not compared for recurrent layers.
"""

from functools import cache
from typing import Final

import pytest

from roofline import schema
from roofline.cost.recurrent import MULTIPLY_ADDS
from roofline.cost.step import step
from roofline.cost.work import Op
from roofline.model.architecture import Architecture, Attention, Mla, Moe, Recurrent
from roofline.model.huggingface import from_config
from roofline.records import replace
from tests.cost.flop_counts import Counted, counts, named
from tests.cost.networks import deployed, flops

COUNTS: Final = counts("flop_counts_kinds.csv")
SEEN: Final = {"mamba1": 1, "mamba2": 1, "lightning": 2, "gated-delta": 0}
"""Multiply-adds per state element that are matrix products in a decode step: Mamba reads its state
as one, lightning attention updates it so too, gated DeltaNet multiplies and sums."""


@cache
def network(config: str, name: str) -> Architecture:
    built = from_config(schema.parse_json(config, f"{name}.json"), name=name)
    if not name.startswith("llama4"):
        return built
    layers = tuple(
        replace(block, feedforward=replace(part, active=part.experts))
        if isinstance(part := block.feedforward, Moe)
        else block
        for block in built.layers
    )
    return replace(built, layers=layers)


def recurrent(row: Counted) -> bool:
    return any(isinstance(b.mixer, Recurrent) for b in network(row.config, row.name).layers)


def ops(row: Counted) -> dict[str, Op]:
    deployment = deployed(
        network(row.config, row.name), mask="square", logits="all", mla="expanded"
    )
    return step(deployment, row.group)


@pytest.mark.parametrize("row", [row for row in COUNTS if not recurrent(row)], ids=named)
def test_flops_without_a_state_are_those_that_a_flop_counter_saw(row: Counted) -> None:
    assert flops(ops(row)) == row.flops


@pytest.mark.parametrize("row", [row for row in COUNTS if recurrent(row)], ids=named)
def test_matrices_around_a_state_are_those_that_a_flop_counter_saw(row: Counted) -> None:
    matrices = {name: op for name, op in ops(row).items() if op.kind in ("gemm", "moe")}
    assert flops(matrices) == row.matrices


@pytest.mark.parametrize(
    "row", [row for row in COUNTS if recurrent(row) and row.phase == "decode"], ids=named
)
def test_the_products_of_a_decode_step_with_its_state_are_those_that_were_seen(
    row: Counted,
) -> None:
    seen = 0.0
    for block in network(row.config, row.name).layers:
        if isinstance(part := block.mixer, Recurrent) and part.matrix_elements:
            of_all = float(ops(row)[part.kind].work.flops)
            seen += of_all * SEEN[part.kind] / MULTIPLY_ADDS[part.rule]
    attention = {name: op for name, op in ops(row).items() if op.kind == "decode-attention"}
    assert seen + float(flops(attention)) == row.batched


def test_the_counted_networks_cover_the_kinds_of_layers() -> None:
    assert len({row.name for row in COUNTS}) >= 18
    blocks = [b for row in COUNTS for b in network(row.config, row.name).layers]
    mixtures = [b.feedforward for b in blocks if isinstance(b.feedforward, Moe)]
    assert {bool(part.shared_width) for part in mixtures} == {False, True}
    assert any(part.shared_gate for part in mixtures)
    assert any(part.up_bias for part in mixtures)
    latents = [b.mixer for b in blocks if isinstance(b.mixer, Mla)]
    assert {bool(part.query_rank) for part in latents} == {False, True}
    states = [b.mixer for b in blocks if isinstance(b.mixer, Recurrent)]
    assert {part.kind for part in states if part.matrix_elements} == SEEN.keys()
    assert any(not part.matrix_elements for part in states), "a short convolution has none"
    assert any(isinstance(b.mixer, Attention) and b.mixer.gate for b in blocks)
