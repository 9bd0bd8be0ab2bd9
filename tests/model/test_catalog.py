"""The catalog of networks."""

import json
import re
from pathlib import Path

import pytest

from roofline import schema
from roofline.content import shipped
from roofline.errors import DocumentError, UnknownNameError
from roofline.model import catalog, parameters
from roofline.model.catalog import architecture, entry, names

NAMES = names()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_network_of_the_catalog_has_the_total_its_file_states(name: str) -> None:
    network = architecture(name)
    stated = re.search(r"total[a-z ]* ((?:\d{1,3},)+\d{3})(.*)", entry(name)[0].source.note)
    assert stated is not None
    total = parameters.total(network)
    whole = (" with the vision tower", " with the audio tower", " as published, of which")
    if stated[2].startswith(whole):
        total += sum(network.other_parameters.values())
    elif stated[2].startswith(" without "):
        assert network.other_parameters
    else:
        assert not network.other_parameters
    assert f"{total:,}" == stated[1]
    assert network.name == name


def test_names_follow_the_hub_unless_an_alias_says_so() -> None:
    for name in NAMES:
        file, _ = entry(name)
        short = file.hub.rpartition("/")[2].lower().removeprefix("meta-").removesuffix("-hf")
        assert short in (name, *(alias.lower() for alias in file.aliases)), name


def test_no_name_means_two_networks() -> None:
    files = [entry(name)[0] for name in NAMES]
    every = [file.name for file in files] + [file.hub.lower() for file in files]
    every += [alias.lower() for file in files for alias in file.aliases]
    assert len(every) == len(set(every))


def test_there_are_at_least_forty_networks() -> None:
    assert len(NAMES) >= 40


@pytest.mark.parametrize(
    "name",
    [
        "llama-3.1-8b",
        "LLAMA-3.1-8B",
        " llama-3.1-8b ",
        "meta-llama/Llama-3.1-8B",
        "meta-llama/meta-llama-3.1-8b",
        "Llama-3.1-8B-Instruct",
    ],
)
def test_names_aliases_and_hub_ids_resolve_in_any_case(name: str) -> None:
    assert architecture(name).name == "llama-3.1-8b"


def test_a_plain_name_reads_one_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROOFLINE_CACHE", str(tmp_path))
    read: list[str] = []

    def spy(path: Path) -> schema.Document:
        read.append(path.name)
        return schema_read(path)

    schema_read = schema.read
    monkeypatch.setattr(schema, "read", spy)
    catalog._shipped.cache_clear()
    for _ in range(2):
        architecture("qwen2.5-7b")
    assert read == ["qwen2.5-7b.yaml"]


def test_numbers_point_to_their_line_of_the_catalog() -> None:
    lines = (shipped("scenarios") / "models/llama-3.1-8b.yaml").read_text().splitlines()
    provenance = architecture("llama-3.1-8b").provenance["d_model"]
    found = re.fullmatch(r"hidden_size = 4096, .*llama-3\.1-8b\.yaml:(\d+):(\d+)", provenance)
    assert found is not None
    assert lines[int(found[1]) - 1][int(found[2]) - 1 :] == "4096"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("lama-3.1-8b", "llama-3.1-8b"), ("meta-llama/llama-3.1-7b", "llama-3.1-"), ("gpt-3", "gpt")],
)
def test_a_mistyped_name_gets_a_suggestion(wrong: str, right: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        architecture(wrong)
    assert right in caught.value.hint


@pytest.mark.parametrize("name", ["", "  ", "\0", "../x", "a" * 5000, "~", "🦙", "%s", "con/../x"])
def test_what_is_neither_a_name_nor_a_path_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError):
        architecture(name)


CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
}


def test_a_config_is_found_by_file_and_by_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my-net"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "other.json").write_text(json.dumps(CONFIG))
    assert architecture(str(folder)).name == "my-net"
    assert architecture(str(folder / "config.json")).name == "my-net"
    assert architecture(str(tmp_path / "other.json")).name == "other"


def test_a_catalog_file_elsewhere_works_too(tmp_path: Path) -> None:
    copy = tmp_path / "mine.yaml"
    copy.write_text((shipped("scenarios") / "models/gpt2.yaml").read_text())
    assert architecture(str(copy)).layers == architecture("gpt2").layers


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"config\.json"):
        architecture(str(tmp_path))


@pytest.mark.parametrize("text", ["[]", "3", "{}", '{"model_type": 3}', '{"schema_version": 1}'])
def test_a_file_that_is_no_config_is_refused_at_its_place(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(DocumentError) as caught:
        architecture(str(path))
    assert caught.value.where.startswith(str(path))


@pytest.mark.parametrize(
    ("checkpoint", "name", "weights"),
    [
        ("Qwen/Qwen3-32B-AWQ", "qwen3-32b-awq", "int4-awq"),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b-fp8-block", "fp8-block"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b-fp8", "fp8"),
        ("nvidia/DeepSeek-R1-FP4", "deepseek-r1-fp4", "nvfp4"),
        (
            "neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w4a16",
            "llama-3.1-8b-quantized.w4a16",
            "int4-gptq",
        ),
    ],
)
def test_the_ending_of_a_checkpoint_is_its_format(checkpoint: str, name: str, weights: str) -> None:
    network = architecture(checkpoint)
    plain = architecture(next(base for base in names() if name.startswith(f"{base}-")))
    assert (network.name, network.weight_format) == (name, weights)
    assert network.layers[-1].mixer == plain.layers[-1].mixer
    assert network.notes[-1].startswith(f"Weights are taken to be {weights} throughout")
    assert architecture(name) == network, "what a command prints can be asked again"


def test_an_ending_makes_no_network_of_a_name_that_is_none() -> None:
    with pytest.raises(UnknownNameError, match="llama-9-awq"):
        architecture("llama-9-awq")
