"""The catalog of engines: defaults on a device, releases, and names that sources give them."""

from itertools import pairwise
from pathlib import Path

import pytest

from roofline.errors import DocumentError, UnknownNameError
from roofline.hardware import engine as catalog
from roofline.hardware.catalog import gpu, gpu_names
from roofline.hardware.engine import engine, engine_names, engine_of
from roofline.hardware.machine import Gpu
from roofline.hardware.serving_engine import DeviceDefault, DeviceRule
from roofline.records import replace
from roofline.units import parse

EVERY = engine_names(unlisted=True)


def test_users_choose_from_the_engines_of_today() -> None:
    assert engine_names() == ["ideal", "llamacpp", "sglang", "trtllm", "vllm"]
    assert {"vllm-2024", "trtllm-2023", "fastertransformer", "llama.cpp-2024", "unknown"} < set(
        EVERY
    )
    with pytest.raises(UnknownNameError) as refused:
        engine("tgi")
    assert engine("llama.cpp") == engine("LlamaCpp") == engine("llamacpp")
    assert refused.value.hint == "engines: ideal, llamacpp, sglang, trtllm, vllm"


@pytest.mark.parametrize("name", EVERY)
def test_every_engine_has_defaults_on_every_device(name: str) -> None:
    known = engine(name)
    assert known.name == name
    for device in map(gpu, gpu_names()):
        assert known.sequences_on(device) >= 1
        assert known.step_tokens_on(device) >= 0
        assert 0 < known.memory_utilization_on(device) <= 1
    assert 0 <= known.reservation <= 1


# vLLM 0.33, engine/arg_utils.py, EngineArgs.get_batch_defaults, API server.
@pytest.mark.parametrize(
    ("device", "sequences", "tokens"),
    [
        ("h100-sxm", 1024, 8192),
        ("h100-pcie", 1024, 8192),
        ("h200-sxm", 1024, 8192),
        ("b200-sxm", 1024, 8192),
        ("mi300x", 1024, 8192),
        ("a800-sxm", 1024, 8192),
        ("a100-sxm", 256, 2048),
        ("a100-pcie", 256, 2048),
        ("a100-sxm-40gb", 256, 2048),
        ("l40s", 256, 2048),
        ("l4", 256, 2048),
        ("t4", 256, 2048),
    ],
)
def test_vllm_takes_less_at_once_on_small_devices_and_a100(
    device: str, sequences: int, tokens: int
) -> None:
    known, where = engine("vllm"), gpu(device)
    assert (known.sequences_on(where), known.step_tokens_on(where)) == (sequences, tokens)
    assert known.memory_utilization_on(where) == 0.92
    assert known.memory_of == "device"


# SGLang, srt/server_args.py: reserved = 512 MiB + 1.5 MiB · max(chunk, 2048) + 2 MiB · graph batch
# + 128 MiB · devices, at one device.
@pytest.mark.parametrize(
    ("device", "chunk", "graph_batch"),
    [
        ("t4", 2048, 8),
        ("l4", 2048, 24),
        ("l40s", 4096, 32),
        ("a100-sxm-40gb", 4096, 32),
        ("h100-sxm", 8192, 256),
        ("a100-sxm", 8192, 256),
        ("h200-sxm", 8192, 256),
        ("b200-sxm", 16384, 512),
    ],
)
def test_sglang_reserves_memory_by_the_size_of_the_device(
    device: str, chunk: int, graph_batch: int
) -> None:
    known, where = engine("sglang"), gpu(device)
    assert known.step_tokens_on(where) == chunk
    reserved = 512 + 1.5 * max(chunk, 2048) + 2 * graph_batch + 128
    share = 1 - reserved * parse("1 MiB", "B") / where.memory_bytes
    assert known.memory_utilization_on(where) == pytest.approx(share, rel=1e-12)
    assert known.memory_of == "static"


def test_sglang_divides_its_chunk_between_groups_and_others_have_one_each() -> None:
    where = gpu("h200-sxm")
    assert engine("sglang").step_tokens_on(where, 8) == 8192
    assert engine("sglang").step_tokens_on(where, 3) == 3 * (8192 // 3)
    assert engine("vllm").step_tokens_on(where, 8) == 8 * 8192


def test_trtllm_takes_nine_tenths_of_what_is_free() -> None:
    known, where = engine("trtllm"), gpu("h100-sxm")
    assert (known.memory_of, known.memory_utilization_on(where)) == ("free", 0.9)
    assert (known.sequences_on(where), known.step_tokens_on(where)) == (2048, 8192)
    assert known.reservation == 1


def test_the_first_rule_that_applies_holds() -> None:
    device: Gpu = replace(gpu("h100-sxm"), title="Some A100", memory_bytes=50.0)
    rules = (DeviceRule(1, memory_below=50.0), DeviceRule(2, title_has="a100"), DeviceRule(3))
    assert DeviceDefault(0, rules).on(device) == 2
    assert DeviceDefault(0, rules).on(replace(device, memory_bytes=49.0)) == 1
    assert DeviceDefault(0, rules).on(replace(device, title="Other")) == 3
    assert DeviceDefault(0).on(device) == 0
    both = DeviceRule(1, memory_below=60.0, title_has="A100")
    assert not both.applies(replace(device, memory_bytes=70.0))


# First releases: TensorRT-LLM 0.10 brought the executor to its benchmarks, 1.0 the PyTorch
# workflow, 1.1 a faster front end, 1.2 faster mixtures of experts; vLLM 0.6 multi-step
# scheduling, 0.14 asynchronous scheduling.
@pytest.mark.parametrize(
    ("name", "version", "found"),
    [
        ("vllm", "0.5.4", "vllm-2024"),
        ("vllm", "0.6.0", "vllm-sync"),
        ("vllm", "0.13.0", "vllm-sync"),
        ("vllm", "0.14.0", "vllm"),
        ("vLLM", "0.33.0", "vllm"),
        ("vllm", "", "vllm"),
        ("vLLM", "", "vllm-2024"),
        ("TensorRT-LLM", "0.9.0", "trtllm-2023"),
        ("TensorRT-LLM", "0.17-dev", "trtllm-2024"),
        ("trtllm", "1.0.0rc3", "trtllm-1.0"),
        ("trtllm", "1.1.0rc2.post2", "trtllm-1.1"),
        ("trtllm", "1.2.1", "trtllm"),
        ("TensorRT-LLM", "", "trtllm-2023"),
        ("lmdeploy-turbomind", "", "lmdeploy"),
        ("deepspeed", "1.2", "deepspeed-mii"),
        ("mlc", "0.1", "unknown"),
    ],
)
def test_a_source_means_the_release_that_it_names(name: str, version: str, found: str) -> None:
    assert engine_of(name, version).name == found


def test_no_two_engines_have_a_name_or_a_first_release_in_common() -> None:
    every = [engine(name) for name in EVERY]
    aliases = [alias for each in every for alias in each.aliases]
    assert len(aliases) == len(set(aliases))
    releases = [(each.family, each.since) for each in every if each.family]
    assert len(releases) == len(set(releases))
    for family in {family for family, _ in releases}:
        own = sorted((each for each in every if each.family == family), key=lambda e: e.since)
        for older, newer in pairwise(own):
            assert older.version.endswith("before {}.{}".format(*newer.since))


def test_a_mistake_in_a_file_is_located(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = (catalog._folder() / "ideal.yaml").read_text()
    rule = "devices: [{memory_below: 70 apples, value: 1}]"
    (tmp_path / "bad.yaml").write_text(good.replace("{value: 1024,", f"{{value: 1024, {rule},"))
    (tmp_path / "less.yaml").write_text(good.replace("value: 1024", "value: -1"))
    monkeypatch.setattr(catalog, "_folder", lambda: tmp_path)
    for name, said in (("bad", "apples"), ("less", "sequences is negative")):
        with pytest.raises(DocumentError, match=said) as refused:
            engine.__wrapped__(name)
        assert f"{name}.yaml:7" in str(refused.value.where)
