"""FLOPs against counts of an independent tool that watched the networks run.

``tests/golden/flop_counts.csv`` holds what ``torch.utils.flop_counter.FlopCounterMode`` counted
while transformers' own models ran on a CPU with eager attention; the versions are in the file. It
counts matrix products only, every pair of query and key that is there, and logits of every token.
"""

import csv
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from roofline import schema
from roofline.cost.step import Group, step
from roofline.model.architecture import Architecture, Attention
from roofline.model.huggingface import from_config
from tests.cost.networks import deployed, flops

COUNTS: Final = Path(__file__).parent.parent / "golden" / "flop_counts.csv"


class Counted(NamedTuple):
    name: str
    phase: str
    batch: int
    tokens: int
    past: int
    flops: int
    config: str


@cache
def counts() -> tuple[Counted, ...]:
    with COUNTS.open(encoding="utf-8", newline="") as file:
        return tuple(
            Counted(
                row["name"],
                row["phase"],
                int(row["batch"]),
                int(row["tokens"]),
                int(row["past"]),
                int(row["flops"]),
                row["config"],
            )
            for row in csv.DictReader(file)
        )


@cache
def network(config: str, name: str) -> Architecture:
    return from_config(schema.parse_json(config, f"{name}.json"), name=name)


@pytest.mark.parametrize("row", counts(), ids=lambda r: f"{r.name}-{r.phase}-{r.tokens}-{r.past}")
def test_flops_are_those_that_a_flop_counter_saw(row: Counted) -> None:
    deployment = deployed(network(row.config, row.name), mask="square", logits="all")
    group = Group(float(row.batch), float(row.tokens), float(row.past + row.tokens))
    assert flops(step(deployment, group)) == row.flops


def test_the_counted_networks_cover_what_changes_the_cost() -> None:
    assert len({row.name for row in counts()}) >= 12
    assert {row.phase for row in counts()} == {"prefill", "decode", "chunk"}
    blocks = [b for row in counts() for b in network(row.config, row.name).layers]
    parts = [block.mixer for block in blocks if isinstance(block.mixer, Attention)]
    assert any(part.window for part in parts)
    assert any(part.qkv_biased for part in parts)
    assert any(part.kv_heads == 1 for part in parts)
    assert any(1 < part.kv_heads < part.heads for part in parts)
    assert any(block.parallel for block in blocks)
