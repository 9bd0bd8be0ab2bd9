"""FLOPs against counts of an independent tool that watched the networks run.

``tests/golden/flop_counts.csv`` holds what ``torch.utils.flop_counter.FlopCounterMode`` counted
while transformers' own models ran on a CPU with eager attention; the versions are in the file. It
counts matrix products only, every pair of query and key that is there, and logits of every token.
"""

from functools import cache
from typing import Final

import pytest

from roofline import schema
from roofline.cost.step import step
from roofline.model.architecture import Architecture, Attention
from roofline.model.huggingface import from_config
from tests.cost.flop_counts import Counted, counts, named
from tests.cost.networks import deployed, flops

COUNTS: Final = counts("flop_counts.csv")


@cache
def network(config: str, name: str) -> Architecture:
    return from_config(schema.parse_json(config, f"{name}.json"), name=name)


@pytest.mark.parametrize("row", COUNTS, ids=named)
def test_flops_are_those_that_a_flop_counter_saw(row: Counted) -> None:
    deployment = deployed(network(row.config, row.name), mask="square", logits="all")
    assert flops(step(deployment, row.group)) == row.flops


def test_the_counted_networks_cover_what_changes_the_cost() -> None:
    assert len({row.name for row in COUNTS}) >= 12
    assert {row.phase for row in COUNTS} == {"prefill", "decode", "chunk"}
    blocks = [b for row in COUNTS for b in network(row.config, row.name).layers]
    parts = [block.mixer for block in blocks if isinstance(block.mixer, Attention)]
    assert any(part.window for part in parts)
    assert any(part.qkv_biased for part in parts)
    assert any(part.kv_heads == 1 for part in parts)
    assert any(1 < part.kv_heads < part.heads for part in parts)
    assert any(block.parallel for block in blocks)
