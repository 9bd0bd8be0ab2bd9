"""Systems that no published config describes, built from the kinds of layer; and their table."""

import re
from pathlib import Path

import pytest

from roofline.errors import InputError
from roofline.model import catalog, parameters
from roofline.model.architecture import Architecture, Attention, Block, Mlp
from roofline.model.changes import changed
from roofline.model.recurrent import based, s4

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "scenarios" / "SYSTEMS.md"


def network(*blocks: Block) -> Architecture:
    return Architecture("built", "research", 1024, 50_000, blocks, True, 1024)


def test_a_network_of_s4_layers_caches_nothing_per_token() -> None:
    block = Block(s4(1024, 64), Mlp(4096, gated=False), norms=2, norm_parameters=2048)
    built = network(*[block] * 24)
    assert parameters.kv_elements_per_token(built) == 0
    assert parameters.state_elements_per_sequence(built) == 24 * 1024 * 64


def test_based_keeps_a_state_and_a_window() -> None:
    mlp = Mlp(2048, gated=True)
    linear = Block(based(1024, 16, 16, 64), mlp, norms=2, norm_parameters=2048)
    local = Block(Attention(16, 16, 64, window=64), mlp, norms=2, norm_parameters=2048)
    built = network(*[linear, local] * 12)
    assert parameters.state_elements_per_sequence(built) == 12 * 16 * 273 * 64
    assert parameters.kv_elements_per_token(built) == 12 * 2 * 1024
    assert parameters.kv_elements_per_token(built, beyond_window=True) == 0


@pytest.mark.parametrize(
    ("change", "mixer", "state"),
    [
        # Of a layer 1,024 wide with 16 heads of 64: parameters, and numbers of state.
        ("s4=64", 1024**2 + 1024 + 1024 * (3 * 64 + 2), 1024 * 64),
        ("h3=64", 4 * 1024**2 + 1024 * (4 * 64 + 2), 1024 * 64 + 1024 * 63),
        ("retnet", 8 * 1024**2, 16 * 64 * 128),
    ],
)
def test_attention_becomes_a_state(change: str, mixer: int, state: int) -> None:
    """Counted by hand; the feed-forward part, norms and embeddings stay."""
    block = Block(Attention(16, 16, 64), Mlp(4096, gated=False), norms=2, norm_parameters=2048)
    plain = network(*[block] * 24)
    name, _, value = change.partition("=")
    made = changed(plain, name, value)
    assert parameters.kv_elements_per_token(made) == 0
    assert parameters.state_elements_per_sequence(made) == 24 * state
    more = parameters.total(made) - parameters.total(plain)
    assert more == 24 * (mixer - 4 * 1024**2)


def test_a_network_becomes_based_in_every_other_layer() -> None:
    block = Block(Attention(16, 16, 64), Mlp(2048, gated=True), norms=2, norm_parameters=2048)
    made = changed(network(*[block] * 24), "based", "16/64")
    assert parameters.state_elements_per_sequence(made) == 12 * 16 * 273 * 64
    assert parameters.kv_elements_per_token(made) == 12 * 2 * 1024
    assert parameters.kv_elements_per_token(made, beyond_window=True) == 0


@pytest.mark.parametrize("change", ["s4=0", "h3=no", "based=16", "retnet=2"])
def test_a_state_without_a_meaning_is_refused(change: str) -> None:
    name, _, value = change.partition("=")
    with pytest.raises(InputError, match=name):
        changed(catalog.architecture("llama-3.1-8b"), name, value)


def test_jamba_has_one_attention_layer_in_eight() -> None:
    jamba = catalog.architecture("jamba-v0.1")
    attending = [block for block in jamba.layers if isinstance(block.mixer, Attention)]
    assert (len(jamba.layers), len(attending)) == (32, 4)


def test_minimax_01_has_one_softmax_layer_in_eight() -> None:
    minimax = catalog.architecture("minimax-text-01")
    attending = [block for block in minimax.layers if isinstance(block.mixer, Attention)]
    assert (len(minimax.layers), len(attending)) == (80, 10)


def rows() -> list[list[str]]:
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [row for row in cells if not set(row[0]) <= set("- :") and row[0] != "system"]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_system_has_a_formula_a_source_and_a_test_that_exists(row: list[str]) -> None:
    *_, formula, source, held = row
    assert formula
    assert source
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", held)
    assert named
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
