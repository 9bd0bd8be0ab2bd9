"""Releases that written commands are of, their flags, and what these were checked against."""

from typing import Final

from msgspec import Struct

from roofline.interop.commands import (
    dynamo,
    kubernetes,
    llamacpp,
    llmd,
    ray_serve,
    sglang,
    trtllm,
    vllm,
)


class Package(Struct, frozen=True):
    """A published package whose source has the names of flags."""

    name: str
    release: str
    """Name and release on PyPI."""
    sources: tuple[str, ...]
    """Files and folders in it that name them."""
    wheel: bool = True
    """False where only its sources are read."""


class Pin(Struct, frozen=True):
    """A target of ``serve-command``, at a release."""

    target: str
    version: str
    """Name, and release or commit."""
    checked: str
    """Day of the check."""
    how: str
    """Source that it was checked against."""
    flags: tuple[str, ...] = ()
    """Flags of a server that are written; of a manifest none, but those of its engine."""
    package: Package | None = None
    """Package that a test reads those flags out of, where there is one."""


class Benchmark(Struct, frozen=True):
    """Client that a command is written for, at a release."""

    tool: str
    version: str
    flags: tuple[str, ...]
    package: Package


DAY: Final = "2026-11-28"
_VLLM: Final = (
    "--tensor-parallel-size --pipeline-parallel-size --data-parallel-size "
    "--prefill-context-parallel-size --enable-expert-parallel --dtype --quantization "
    "--kv-cache-dtype --max-model-len --max-num-seqs --max-num-batched-tokens "
    "--gpu-memory-utilization --no-enable-chunked-prefill --no-enable-prefix-caching "
    "--enforce-eager --cpu-offload-gb --speculative-config --enable-lora --max-loras "
    "--max-lora-rank --nnodes --port"
)
_SGLANG: Final = (
    "--model-path --tp-size --pp-size --attn-dp-size --attn-cp-size --ep-size --enable-prefill-cp "
    "--dtype --quantization --kv-cache-dtype --context-length --max-running-requests "
    "--chunked-prefill-size --max-prefill-tokens --mem-fraction-static --scheduler-recv-interval "
    "--stream-interval --disable-radix-cache --disable-cuda-graph --cpu-offload-gb "
    "--speculative-algorithm --speculative-draft-model-path --speculative-num-steps "
    "--speculative-eagle-topk --speculative-num-draft-tokens --enable-lora "
    "--lora-target-modules --max-loras-per-batch --max-lora-rank --nnodes --port"
)
_TRTLLM: Final = (
    "--tp_size --pp_size --ep_size --context_parallel_size --max_batch_size --max_num_tokens "
    "--max_seq_len --kv_cache_free_gpu_memory_fraction --enable_chunked_prefill --config --port"
)
_LLAMACPP: Final = (
    "--model --device --split-mode --tensor-split --parallel --kv-unified --kv-unified-per-slot "
    "--ctx-size --batch-size --ubatch-size --cache-type-k --cache-type-v --gpu-layers "
    "--spec-type --spec-draft-model --spec-draft-n-max --spec-ngram-simple-size-m "
    "--no-cache-prompt --fit --port"
)
PINS: Final = (
    Pin(
        vllm.NAME,
        f"vLLM {vllm.VERSION}",
        DAY,
        "flags in its wheel, by a test",
        tuple(_VLLM.split()),
        Package("vllm", vllm.VERSION, ("vllm/engine/arg_utils.py", "vllm/entrypoints/")),
    ),
    Pin(
        sglang.NAME,
        f"SGLang {sglang.VERSION}",
        DAY,
        "flags in its wheel, by a test",
        tuple(_SGLANG.split()),
        Package("sglang", sglang.VERSION, ("sglang/srt/arg_groups/", "sglang/srt/server_args.py")),
    ),
    Pin(
        trtllm.NAME,
        f"TensorRT-LLM {trtllm.VERSION}",
        DAY,
        "read in its source (serve.py at 00209af1): its package on PyPI is a stub without files",
        tuple(_TRTLLM.split()),
    ),
    Pin(
        llamacpp.NAME,
        llamacpp.TITLE,
        DAY,
        "flags in the llama.cpp (0c1e5709) of llama-cpp-python 0.3.36, by a test",
        tuple(_LLAMACPP.split()),
        Package("llama-cpp-python", "0.3.36", ("vendor/llama.cpp/common/arg.cpp",), wheel=False),
    ),
    Pin(
        kubernetes.NAME,
        "Kubernetes apps/v1, v1",
        DAY,
        "the strict schema of Kubernetes 1.37 in kubernetes-validate 1.37.0, by a test",
    ),
    Pin(
        ray_serve.NAME,
        f"Ray {ray_serve.VERSION}",
        DAY,
        "its own ServeDeploySchema, by a test where ray[serve] is installed",
    ),
    Pin(
        dynamo.NAME,
        dynamo.TITLE,
        DAY,
        f"keys of {dynamo.API} and flag in its wheel, pods by Kubernetes' schema, by tests",
        ("--disaggregation-mode",),
        Package("ai-dynamo", dynamo.VERSION, ("dynamo/vllm/", "dynamo/sglang/")),
    ),
    Pin(
        llmd.NAME,
        f"{llmd.TITLE}, modelservice chart 024c0f2d",
        DAY,
        "keys of the chart's values.schema.json (00b82e2f) by hand, containers by Kubernetes' "
        "schema and read back, by tests: no registry has the chart",
    ),
)
"""Every target, in the order of the option ``--for``."""
_CLIENT: Final = (
    "--base-url --model --dataset-name --random-input-len --random-output-len "
    "--random-range-ratio --num-prompts --max-concurrency"
)
_AIPERF: Final = (
    "--model --url --endpoint-type --streaming --isl --osl --extra-inputs --concurrency "
    "--request-count"
)
BENCHMARKS: Final = (
    Benchmark(
        "vllm bench serve",
        vllm.VERSION,
        (*_CLIENT.split(), "--ignore-eos"),
        Package("vllm", vllm.VERSION, ("vllm/benchmarks/",)),
    ),
    Benchmark(
        "sglang.benchmark.serving",
        sglang.VERSION,
        (*_CLIENT.split(), "--backend"),
        Package("sglang", sglang.VERSION, ("sglang/benchmark/",)),
    ),
    Benchmark(
        "aiperf profile",
        "0.13.0",
        tuple(_AIPERF.split()),
        Package("aiperf", "0.13.0", ("aiperf/config/flags/",)),
    ),
)
"""Clients whose commands are written beside a server's."""
