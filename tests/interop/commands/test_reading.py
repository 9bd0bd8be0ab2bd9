"""Commands as people write them: short flags, older spellings, contradictions, unmodelled flags."""

import re
import time

import pytest

from roofline.cost.layout import Layout
from roofline.errors import RooflineError
from roofline.interop.commands import targets
from roofline.interop.commands.reading import ParsedCommand
from roofline.interop.commands.served import Adapters, DraftSettings, OffloadedWeights, ServerMemory
from roofline.records import replace
from roofline.schema import Document, parse_yaml
from tests.interop.commands.serving import GIB, SITE, read_back

YAML = """\
tensor_parallel_size: 8
enable_attention_dp: true
moe_expert_parallel_size: 8
kv_cache_config:
  dtype: fp8
  free_gpu_memory_fraction: 0.85
cuda_graph_config:
  enable_padding: true
speculative_config:
  decoding_type: MTP
  num_nextn_predict_layers: 2
"""


def read(text: str, **files: str) -> ParsedCommand:
    def named(name: str) -> Document:
        return parse_yaml(files[name.partition(".")[0]], name)

    return targets.read(text, named)


@pytest.mark.parametrize(
    ("command", "layout"),
    [
        ("vllm serve m -tp 4 -pp=2", Layout(tp=4, pp=2)),
        ("vllm serve m -tp 2 -dp 4 --enable-expert-parallel", Layout(tp=2, dp=4, ep=8)),
        ("vllm serve m -dp 4 --no-enable-expert-parallel", Layout(dp=4)),
        ("vllm serve m --enable_expert_parallel true -tp 8", Layout(tp=8, ep=8)),
        ("VLLM_PP_LAYER_PARTITION=3,2 vllm serve m -pp 2", Layout(pp=2, stages=(3, 2))),
        ("python -m vllm.entrypoints.openai.api_server --model m -tp 2", Layout(tp=2)),
        ("/opt/venv/bin/vllm serve m", Layout()),
        ("sglang serve --model m --tp 8 --ep 4", Layout(tp=8, ep=4)),
        (
            "python3 -m sglang.launch_server --model-path m --tp-size 8 --dp-size 8 "
            "--enable-dp-attention",
            Layout(dp=8),
        ),
        (
            "python3 -m sglang.launch_server --model-path m --tp-size 16 --attn-dp-size 8",
            Layout(tp=2, dp=8),
        ),
        ("trtllm-serve m --tp_size 4 --pp-size 2", Layout(tp=4, pp=2)),
        ("trtllm-serve serve m --config x.yaml", Layout(dp=8, ep=8)),
        ("llama-server -m m.gguf -dev CUDA0,CUDA1 -sm tensor", Layout(tp=2)),
        ("llama-server -m m.gguf -dev CUDA0,CUDA1 -ts 3,1", Layout(pp=2, stages=(3, 1))),
        ("llama-server -m m.gguf -dev CUDA0,CUDA1 -sm none", Layout()),
    ],
)
def test_layouts_as_people_write_them(command: str, layout: Layout) -> None:
    assert read(command, x=YAML).served.layout == layout


def test_data_parallelism_around_a_model_is_replicas() -> None:
    served = read("sglang serve --model m --tp 2 --dp 4").served
    assert (served.layout, served.replicas) == (Layout(tp=2), 4)


@pytest.mark.parametrize(
    ("command", "field", "value"),
    [
        ("vllm serve m --max-model-len 32k", "max_context", 32000),
        ("vllm serve m --max-model-len 32K", "max_context", 32768),
        ("vllm serve m --max-model-len auto", "max_context", None),
        ("vllm serve m", "memory", None),
        ("vllm serve m", "cuda_graphs", True),
        ("vllm serve m --enforce-eager", "cuda_graphs", False),
        ("sglang serve --model m --disable-cuda-graph", "cuda_graphs", False),
        ("trtllm-serve m --config x.yaml", "cuda_graphs", True),
        ("vllm serve m --max-num-seqs 8 -dp 4", "max_sequences", 32),
        ("vllm serve m --kv-cache-dtype fp8_e4m3", "kv", "fp8"),
        ("vllm serve m -q awq_marlin", "weights", "int4"),
        ("vllm serve m -q compressed-tensors --dtype bfloat16", "weights", ""),
        ("vllm serve m --dtype half", "weights", "fp16"),
        ("vllm serve m -q ptpc_fp8", "weights", "fp8-row"),
        ("vllm serve m --enable-lora", "adapters", Adapters(1, 16)),
        (
            "vllm serve m --enable-lora --max-loras 4 --max-lora-rank 64",
            "adapters",
            Adapters(4, 64),
        ),
        ("vllm serve m --max-loras 4", "adapters", None),
        ("sglang serve m --enable-lora --max-lora-rank 32", "adapters", Adapters(8, 32)),
        ("sglang serve m --lora-paths a=b --max-loras-per-batch 2", "adapters", Adapters(2, None)),
        ("sglang serve org/m --tp 2", "model", "org/m"),
        ("text-generation-launcher --model-id m --num-shard 2", "layout", Layout(tp=2)),
        ("MODEL_ID=m NUM_SHARD=4 text-generation-launcher", "layout", Layout(tp=4)),
        ("text-generation-launcher --model-id m --sharded false", "layout", Layout()),
        ("text-generation-launcher --model-id m --quantize awq", "weights", "int4"),
        ("text-generation-launcher --model-id m --kv-cache-dtype fp8_e5m2", "kv", "fp8-e5m2"),
        ("text-generation-launcher --model-id m --cuda-graphs 0", "cuda_graphs", False),
        (
            "docker run -e MAX_TOTAL_TOKENS=4096 -p 80:80 "
            "ghcr.io/huggingface/text-generation-inference:3.3.5 --model-id m",
            "max_context",
            4096,
        ),
        (
            "text-generation-launcher --model-id m --max-batch-total-tokens 9000",
            "memory",
            ServerMemory(9000.0, "tokens"),
        ),
        (
            "text-generation-launcher --model-id m --speculate 3",
            "speculation",
            DraftSettings("ngram", 3),
        ),
        ("lmdeploy serve api_server m --tp 2", "layout", Layout(tp=2)),
        ("lmdeploy serve api_server m", "memory", ServerMemory(0.8, "free")),
        (
            "lmdeploy serve api_server m --cache-max-entry-count 10",
            "memory",
            ServerMemory(640.0, "tokens"),
        ),
        ("lmdeploy serve api_server m --quant-policy 4", "kv", "int4-kv"),
        ("lmdeploy serve api_server m --model-format awq", "weights", "int4"),
        ("lmdeploy serve api_server m", "prefix_caching", False),
        ("ollama run llama3.1:8b", "model", "llama-3.1-8b"),
        ("ollama run llama3.1:70b-instruct-q8_0", "model", "llama-3.1-70b"),
        ("ollama run llama3.1:70b-instruct-q8_0", "weights", "q8-0"),
        ("ollama run qwen2.5:7b-instruct-fp16", "weights", "fp16"),
        ("ollama run hf.co/org/M-7B-GGUF:Q4_0", "model", "org/M-7B"),
        ("OLLAMA_NUM_PARALLEL=4 ollama run mistral:7b", "max_sequences", 4),
        ("OLLAMA_KV_CACHE_TYPE=q8_0 ollama run mistral:7b", "kv", "int8-kv"),
        ("docker run -e OLLAMA_NUM_PARALLEL=4 ollama/ollama run mistral:7b", "max_sequences", 4),
        ("vllm serve m --cpu-offload-gb 2.5", "offloaded", OffloadedWeights(2.5 * GIB, "bytes")),
        ("vllm serve m --spec-method mtp --spec-tokens 2", "speculation", DraftSettings("mtp", 2)),
        (
            "vllm serve m --speculative-config.method eagle3 --speculative-config.model h "
            "--speculative-config.num_speculative_tokens 3",
            "speculation",
            DraftSettings("eagle", 3, "h"),
        ),
        ("sglang serve --model m", "memory", None),
        ("sglang serve --model m --chunked-prefill-size -1", "chunked_prefill", False),
        (
            "sglang serve --model m --speculative-algorithm EAGLE --speculative-num-steps 2",
            "speculation",
            DraftSettings("mtp", 2),
        ),
        ("trtllm-serve m", "memory", None),
        ("trtllm-serve m", "chunked_prefill", False),
        ("trtllm-serve m --config x.yaml", "memory", ServerMemory(0.85, "free")),
        ("trtllm-serve m --config x.yaml", "speculation", DraftSettings("mtp", 2)),
        ("trtllm-serve m --max_batch_size 4 --config x.yaml", "max_sequences", 32),
        ("llama-server -m m-F16.gguf", "weights", "fp16"),
        ("llama-server -hf org/m-GGUF:BF16", "model", "org/m"),
        ("llama-server -hf org/m-GGUF:IQ4_XS", "weights", "iq4-xs"),
        ("llama-server -hf org/m-GGUF", "weights", "q4-k-m"),
        ("llama-server -m /data/ggufs/m-7b-Q4_K_M.gguf", "model", "m-7b"),
        ("llama-server -m org/m-7b-Q4_K_M.gguf", "model", "org/m-7b"),
        ("llama-server -m org/m-7b.Q5_K_S.gguf", "weights", "q5-k-s"),
        ("llama-server -m m-70b-Q8_0-00001-of-00002.gguf", "model", "m-70b"),
        ("llama-server -m m.gguf -c 4096 -np 4", "max_context", 1024),
        ("llama-server -m m.gguf -c 4096 -np 4 -kvu", "max_context", None),
        ("llama-server -m m.gguf -c 4096", "memory", ServerMemory(4096.0, "tokens")),
        ("llama-server -m m.gguf -b 64", "token_budget", 64),
        ("llama-server -m m.gguf -ngl 20", "offloaded", OffloadedWeights(20.0, "resident")),
        ("llama-server -m m.gguf -ngl 99", "offloaded", None),
    ],
)
def test_settings_as_people_write_them(command: str, field: str, value: object) -> None:
    assert getattr(read(command, x=YAML).served, field) == value


@pytest.mark.parametrize(("text", "graphs"), [("null", False), ("{}", True)])
def test_trtllm_runs_without_graphs_where_their_configuration_is_empty(
    text: str, graphs: bool
) -> None:
    found = read("trtllm-serve m --config x.yaml", x=f"cuda_graph_config: {text}")
    assert found.served.cuda_graphs == graphs
    assert not graphs or "cuda_graph_config" in found.unused[0]


@pytest.mark.parametrize(
    ("command", "said", "column"),
    [
        ("vllm serve m -tp 2 --tensor-parallel-size 4", "said twice, '2' before and '4' here", 20),
        ("vllm serve m --model n", "'m' is served already", 14),
        ("vllm serve m --enable-prefix-caching --no-enable-prefix-caching", "the opposite", 38),
        ("vllm serve m -tp two", "'two' is no whole number", 14),
        ("vllm serve m -tp 0", "'0' is no whole number of 1 or more", 14),
        ("vllm serve m --gpu-memory-utilization 1.2", "above 0 and up to 1", 14),
        ("vllm serve m --kv-cache-dtype fp9", "'fp9' is a cache that is not modelled", 14),
        ("vllm serve m -q humming", "not modelled", 14),
        ("VLLM_PP_LAYER_PARTITION=3,2 vllm serve m -pp 3", "2 stages, but 3", 1),
        ("vllm serve m -tp 3 --nnodes 2", "3 devices do not spread evenly over 2 nodes", 20),
        (
            "vllm serve m --max-num-batched-tokens 1 --max-num-seqs 256 "
            "--no-enable-chunked-prefill",
            "1 new tokens of a step are fewer than the 256 of --max-num-seqs",
            14,
        ),
        ("vllm serve m --speculative-config '{]'", "not a JSON object", 14),
        ("vllm serve m --spec-method mtp", "num_speculative_tokens", 14),
        ('vllm serve m -sc \'{"method": "mtp"}\' --spec-method mtp', "says it too", 38),
        ("vllm serve m --spec-method medusa --spec-tokens 2", "'medusa' is not modelled", 14),
        ("sglang serve --model m --tp 6 --attn-dp-size 4", "divided into 4 attention groups", 31),
        ("sglang serve --model m --tp 8 --ep 3", "3 does not divide --tp-size 8", 31),
        (
            "sglang serve --model m --tp 8 --dp 4 --attn-dp-size 2 --enable-dp-attention",
            "--attn-dp-size 2 contradicts --dp-size 4",
            55,
        ),
        (
            "sglang serve --model m --speculative-algorithm NEXTN --speculative-num-steps 3 "
            "--speculative-num-draft-tokens 3",
            "3 steps draft 4 tokens",
            80,
        ),
        ("trtllm-serve m --tp_size 4 --ep_size 3", "3 does not divide the 4 devices", 28),
        ("trtllm-serve m --tp_size 4 --config x.yaml", "said twice, '4' before and '8' here", 23),
        ("llama-server -m m.gguf -hf a/b", "--model names a file already", 24),
        ("llama-server -m m.gguf -c 100 -np 3", "cannot be divided among 3 slots", 24),
        ("llama-server -m m.gguf -sm row", "no way of splitting that is modelled", 24),
        ("vllm serve $MODEL", "only a shell knows", 12),
        ("vllm serve m && rm x", "another command", 14),
        ("vllm serve 'm", "stays open", 12),
        ("vllm serve", "no model is named", 1),
    ],
    ids=str,
)
def test_a_contradiction_is_an_error_with_its_place(command: str, said: str, column: int) -> None:
    with pytest.raises(RooflineError, match=re.escape(said)) as caught:
        read(command, x=YAML)
    assert caught.value.hint
    assert caught.value.where.rpartition(":")[2] == str(column), caught.value.where


def test_a_contradiction_with_a_file_is_located_in_the_file() -> None:
    with pytest.raises(RooflineError) as caught:
        read("trtllm-serve m --kv_cache_free_gpu_memory_fraction 0.9 --config x.yaml", x=YAML)
    assert caught.value.where.startswith("x.yaml:6:")


@pytest.mark.parametrize(
    ("command", "unused"),
    [
        (
            "docker run -e NUM_SHARD=2 -e HF_HOME=/x ghcr.io/huggingface/text-generation-inference"
            " --model-id m",
            ("docker run -e HF_HOME=/x",),
        ),
        (
            "docker run --gpus all vllm/vllm-openai:latest --model m --async-scheduling",
            ("docker run --gpus all", "--async-scheduling"),
        ),
        (
            "HF_HOME=/x vllm serve m --tool-call-parser hermes --enable-auto-tool-choice -O3",
            ("HF_HOME=/x", "--tool-call-parser hermes", "--enable-auto-tool-choice", "-O3"),
        ),
        ("vllm serve --enable-sleep-mode m --port 1", ("--enable-sleep-mode", "--port 1")),
        ("trtllm-serve m --config x.yaml", ("cuda_graph_config.enable_padding true",)),
        ("llama-server -m m.gguf -fa on --no-mmap", ("-fa on", "--no-mmap")),
    ],
)
def test_what_is_not_modelled_is_listed(command: str, unused: tuple[str, ...]) -> None:
    assert read(command, x=YAML).unused == unused


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("vllm serve m -tp 4 -dcp 2", "decode-context-parallel-size"),
        ("vllm serve m -pcp 2", "2 times too few"),
        ("llama-server -m m.gguf -ctk q8_0 -ctv f16", "two formats"),
        ("llama-server -hf a/b:Q4_0_4_4", "Q4_0_4_4 is not modelled"),
        ("llama-server -hf a/b-GGUF:UD-Q4_K_XL", "UD-Q4_K_XL is counted as q4-k"),
    ],
)
def test_what_is_modelled_otherwise_is_noted(command: str, said: str) -> None:
    assert any(said in note for note in read(command).notes)


@pytest.mark.parametrize("command", ["ollama run m:7b-fp16", "llama-server -m m-F16.gguf"])
def test_a_format_that_is_modelled_as_it_is_has_no_note(command: str) -> None:
    assert not any("counted as" in note for note in read(command).notes)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("true\nvllm serve m --spec-method eagle3 --spec-tokens 2", "command:2:1"),
        ("nothing serve m", "command:1:1"),
        (f"vllm serve m --speculative-config '{'[' * 60_000}'", "command:1:14"),
    ],
)
def test_what_is_wrong_with_a_command_as_a_whole_has_its_place(text: str, where: str) -> None:
    with pytest.raises(RooflineError) as refused:
        read(text)
    assert refused.value.where == where


def test_a_text_that_starts_no_engine_is_refused() -> None:
    with pytest.raises(RooflineError, match="starts no engine that is known"):
        read("tritonserver --model-repository m")


def test_the_first_server_of_a_script_is_read() -> None:
    script = (
        "#!/bin/sh\nexport X=1\n# vllm serve no\nvllm serve m \\\n  -tp 2\n\nvllm bench serve\n"
    )
    assert read(script).served.layout == Layout(tp=2)


@pytest.mark.parametrize(
    ("told", "steps"),
    [
        ("{enable_balance: true, timeout_iters: 60, batching_wait_iters: 0}", 60),
        ("{enable_balance: true}", 50),  # TensorRT-LLM documentation, AttentionDpConfig
        ("{enable_balance: false, timeout_iters: 60}", 0),
    ],
)
def test_prompts_wait_for_other_copies_of_attention_where_they_are_balanced(
    told: str, steps: int
) -> None:
    text = f"{YAML}attention_dp_config: {told}\n"
    served = read("trtllm-serve m --config x.yaml", x=text).served
    assert served.dp_timeout_iters == steps
    if steps:
        written = targets.write("trtllm", replace(served, speculation=None), SITE)
        assert read_back(written).served.dp_timeout_iters == steps


@pytest.mark.parametrize("text", ["\n" * 140_000, "cat > a <<'EOF'\n" * 4_000, " " * 140_000])
def test_texts_of_nothing_are_read_in_no_time(text: str) -> None:
    start = time.process_time()
    with pytest.raises(RooflineError):
        targets.read(text, lambda _: parse_yaml("", "none"))
    assert time.process_time() - start < 0.5  # quadratic matching took 24 s
