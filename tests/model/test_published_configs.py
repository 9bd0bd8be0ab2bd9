"""Configs as they are published, against counts made by building the networks."""

import csv
import re
from pathlib import Path
from typing import Final

import pytest

from roofline.errors import DocumentError
from roofline.model import parameters
from roofline.model.architecture import Architecture, Moe
from roofline.model.catalog import architecture
from roofline.model.huggingface import from_config
from roofline.schema import read
from tests.model.matrices import matmul_parameters

from .built import ADVERTISED, BUILT
from .published import SAME_DECODER, TOTALS

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIGS: Final = ROOT.parent / "shared" / "hf-configs"
FILES: Final = sorted(CONFIGS.glob("*/*.json"))
ROWS: Final = {
    row["id"]: row
    for row in csv.DictReader((ROOT / "tests/golden/models.csv").read_text().splitlines())
}
COLUMNS: Final = (
    "total_params_exact",
    "active_params_all",
    "active_excl_input_embed",
    "active_excl_both_embed",
    "kv_elems_token_all_attn_layers",
    "kv_bytes_token_bf16_short_ctx",
    "kv_bytes_token_bf16_growth_beyond_window",
    "recurrent_state_elems_per_seq",
    "weights_bytes_bf16",
)
EXCEPTIONS: Final = {
    # The row counts all layers as full; the config has a window of 2047, and Phi-3 uses it.
    ("microsoft/Phi-3-mini-4k", "kv_bytes_token_bf16_growth_beyond_window"): 0,
}
SAME_SHAPE: Final = {
    "meta-llama--Meta-Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "meta-llama--Meta-Llama-3.1-70B": "meta-llama/Llama-3.1-70B",
    "meta-llama--Meta-Llama-3.1-405B": "meta-llama/Llama-3.1-405B",
    "nvidia--Llama-3.1-70B-Instruct-FP8": "meta-llama/Llama-3.1-70B",
    "Qwen--Qwen3-32B-FP8": "Qwen/Qwen3-32B",
    "Qwen--Qwen3-32B-FP8-Static-PerTensor": "Qwen/Qwen3-32B",
    "Qwen--Qwen3-VL-2B-Instruct": "Qwen/Qwen3-1.7B",
    "Qwen--Qwen3-VL-4B-Instruct": "Qwen/Qwen3-4B",
    "Qwen--Qwen3-VL-8B-Instruct": "Qwen/Qwen3-8B",
    "Qwen--Qwen3-VL-32B-Instruct": "Qwen/Qwen3-32B",
    "Qwen--Qwen3-VL-32B-Thinking": "Qwen/Qwen3-32B",
}
"""Files without a row of their own, and the row whose decoder they have."""
ALONE: Final = {"XiaomiMiMo--MiMo-7B-Base", *BUILT, *ADVERTISED}
"""Files whose total is compared on its own, below or in `test_built`."""
NOT_IN_CATALOG: Final = {"GSAI-ML/LLaDA-8B"}
"""A diffusion network: it has the shape of Llama, but does not decode token by token."""

needs_configs = pytest.mark.skipif(
    not FILES, reason=f"published configs are not at {CONFIGS.relative_to(ROOT.parent)}"
)


def counts(network: Architecture) -> dict[str, int]:
    values = (
        parameters.total(network),
        *parameters.active(network).values(),
        parameters.kv_elements_per_token(network),
        parameters.kv_bytes_per_token(network),
        2 * parameters.kv_elements_per_token(network, beyond_window=True),
        parameters.state_elements_per_sequence(network),
        parameters.weight_bytes(network),
    )
    return dict(zip(COLUMNS, values, strict=True))


def expected(name: str) -> dict[str, int]:
    return {column: EXCEPTIONS.get((name, column), int(ROWS[name][column])) for column in COLUMNS}


def row_of(path: Path) -> str | None:
    """Name of the row a file is compared with."""
    stem = path.stem.removesuffix("_config")
    names = {re.sub(r"[()]", "_", name.replace("/", "--")).rstrip("_"): name for name in ROWS}
    return (names | SAME_SHAPE | SAME_DECODER).get(stem)


def compared(network: Architecture, name: str) -> tuple[dict[str, int], dict[str, int]]:
    """Ours, and the row's, as far as the row says the same."""
    found, wanted = counts(network), expected(name)
    # Rows are without the indexer of sparse attention.
    index = parameters.parts(network)["indexer"]
    for column in COLUMNS[:4]:
        found[column] -= index
    found["weights_bytes_bf16"] -= 2 * index
    if network.weight_format not in ("bf16", "fp16") and mixes(network):
        # How experts are stored is compared with checkpoints elsewhere.
        del found["weights_bytes_bf16"], wanted["weights_bytes_bf16"]
    elif network.weight_format not in ("bf16", "fp16"):
        linear = matmul_parameters(network) - network.vocab * network.d_model
        assert network.weight_format in ("fp8", "fp8-block")
        # An fp32 scale for each block of 128 by 128, where there are blocks.
        scales = linear // 128**2 * 4 if network.weight_format == "fp8-block" else 0
        wanted["weights_bytes_bf16"] -= linear - scales
    return found, wanted


def mixes(network: Architecture) -> bool:
    """Whether it has experts."""
    return any(isinstance(block.feedforward, Moe) for block in network.layers)


@pytest.mark.slow
@needs_configs
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_published_config_loads_and_counts_as_built(path: Path) -> None:
    network = from_config(read(path, infinity=True))
    name = row_of(path)
    if name is None:
        stem = path.stem.removesuffix("_config")
        assert stem in ALONE or parameters.total(network) == TOTALS[stem]
        return
    found, wanted = compared(network, name)
    assert found == wanted


@needs_configs
def test_most_published_configs_have_a_row() -> None:
    assert sum(row_of(path) is not None for path in FILES) >= 90


@needs_configs
def test_infinity_is_read_only_where_it_is_asked_for() -> None:
    path = next(path for path in FILES if "Infinity" in path.read_text())
    with pytest.raises(DocumentError, match="Infinity"):
        read(path)


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, row in ROWS.items()
        if re.match(
            r"(Llama4?|Mistral|Mixtral|Qwen[23](Moe)?|Gemma\d?|DeepseekV3|GptOss|MiniMaxM2|Phi3|OPT)"
            r"(Text)?Config",
            row["config_class"],
        )
        and name not in NOT_IN_CATALOG
    ),
)
def test_the_catalog_counts_as_built(name: str) -> None:
    found, wanted = compared(architecture(name), name)
    assert found == wanted


def test_mimo_predicts_further_tokens_with_parameters_of_its_own() -> None:
    network = architecture("mimo-7b-base")
    published = 7_833_409_536
    assert parameters.total(network) + sum(network.other_parameters.values()) == published
