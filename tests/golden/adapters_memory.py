"""Memory and cache: which function answers a row, and with what."""

from collections.abc import Mapping
from typing import Final

from roofline.cost.textbook import memory, parameters
from tests.golden import engine
from tests.golden.rows import Adapter, Entry, Implied, Input, Printed, Quoted, Width

LAYERS: Final = Quoted("L")
GQA: Final[Mapping[str, Input]] = {
    "layers": LAYERS,
    "kv_heads": Quoted("K"),
    "head_dim": Quoted("H"),
}
# Where a row gives N·H alone, one head of that width has the same cache and parameters.
HIDDEN: Final[Mapping[str, Input]] = {
    "layers": LAYERS,
    "kv_heads": Implied(1.0, "hidden"),
    "head_dim": Quoted("hidden"),
}
INT8: Final = Implied(1.0, "int8")

LECTURE_PARAMETERS: Final = Adapter(
    parameters.lecture_parameters,
    {
        "d_model": Quoted("D"),
        "d_ff": Quoted("F"),
        "layers": LAYERS,
        "heads": Quoted("N"),
        "kv_heads": Quoted("K"),
        "head_dim": Quoted("H"),
        "vocab": Quoted("V"),
    },
)
LECTURE_WEIGHTS: Final = Adapter(
    memory.weight_memory, {"parameters": LECTURE_PARAMETERS, "width": Width()}
)
LECTURE_CACHE: Final = Adapter(
    memory.kv_memory,
    {
        "per_token": Adapter(memory.kv_bytes_per_token, {**GQA, "width": Width()}),
        "context": Quoted("S"),
    },
)
WEIGHTS: Final = Adapter(
    memory.weight_memory, {"parameters": Quoted("P"), "width": Quoted("bytes")}
)
SEQUENCES: Final = Adapter(
    memory.caches_that_fit,
    {
        "free_bytes": Adapter(
            memory.memory_left,
            {
                "chips": Quoted("chips"),
                "bytes_per_chip": Quoted("hbm"),
                "weight_bytes": Quoted("P"),
            },
        ),
        "cache_bytes": Adapter(
            memory.kv_memory, {"per_token": Quoted("kv_tok"), "context": Quoted("S")}
        ),
    },
)

MEMORY: Final[Mapping[str, Entry]] = {
    **dict.fromkeys(("nv-7b-weights", "kp-w", "vllm-w66"), WEIGHTS),
    "cs336-l02-naive-train": Adapter(
        memory.trainable_parameters,
        {
            "chips": Quoted("gpus"),
            "bytes_per_chip": Quoted("mem"),
            "bytes_per_parameter": Quoted("bytes_per_param"),
        },
    ),
    "cs336-l02-ffn-mem": Adapter(
        memory.tensor_bytes,
        {
            "rows": Implied(49152, '"shape": [49152, 12288]'),
            "columns": Implied(12288, '"shape": [49152, 12288]'),
            "width": Width(),
        },
    ),
    "sb-inf-act-8k": Adapter(
        memory.tensor_bytes,
        {"rows": Quoted("T"), "columns": Quoted("D"), "width": Quoted("bytes")},
    ),
    "sb-app-kv240": Adapter(
        memory.kv_memory,
        {"per_token": Quoted("kv"), "context": Quoted("S"), "batch": Quoted("B")},
    ),
    "sb-app-86": Adapter(  # P in int8: a byte each
        memory.chips_needed,
        {
            "memory_bytes": Adapter(
                memory.decode_memory,
                {
                    "weight_bytes": Quoted("P"),
                    "batch": Implied(1.0, '"KV"'),
                    "kv_bytes_per_sequence": Quoted("KV"),
                },
            ),
            "bytes_per_chip": Quoted("hbm"),
        },
    ),
    "sb-app-112": Adapter(
        memory.decode_memory,
        {
            "weight_bytes": Adapter(
                memory.weight_memory, {"parameters": Quoted("P"), "width": INT8}
            ),
            "batch": Quoted("B"),
            "kv_bytes_per_sequence": Adapter(
                memory.kv_memory, {"per_token": Quoted("kv"), "context": Quoted("S")}
            ),
        },
    ),
    **dict.fromkeys(("sb-app-bf16-seqs", "sb-app-int8-seqs", "sb-app-int4-seqs"), SEQUENCES),
    "sb-app-4x8": Adapter(
        memory.memory_left,
        {"chips": Quoted("chips"), "bytes_per_chip": Quoted("hbm"), "weight_bytes": Quoted("P")},
    ),
    "kp-tok3": Adapter(
        memory.caches_that_fit, {"free_bytes": Quoted("free"), "cache_bytes": Quoted("kv")}
    ),
    "kp-tok4": Adapter(  # the usable value divides by the exact cache of a token
        memory.caches_that_fit, {"free_bytes": Quoted("free"), "cache_bytes": Printed("2097152")}
    ),
    **dict.fromkeys(
        ("vllm-slots13", "vllm-slots175"),
        Adapter(
            memory.caches_that_fit,
            {"free_bytes": Quoted("kv_mem"), "cache_bytes": Quoted("kv_tok")},
        ),
    ),
    **dict.fromkeys(
        ("vllm-fig3A", "vllm-fig3B"),
        Adapter(
            memory.slots_never_used,
            {
                "maximum": Quoted("max"),
                "prompt": Quoted("prompt"),
                "generated": Quoted("generated"),
                "future": Quoted("future"),
            },
        ),
    ),
    **dict.fromkeys(
        ("vllm-orca-max", "vllm-orca-oracle"),
        Adapter(
            memory.token_state_share,
            {
                "reserved": Quoted("reserved", "%"),
                "internal": Quoted("internal", "%"),
                "external": Quoted("external", "%"),
            },
        ),
    ),
    "vllm-slots66": Adapter(  # quoted as "21 GB", meant in GiB
        memory.caches_that_fit,
        {"free_bytes": Printed("21 GiB"), "cache_bytes": Quoted("kv_tok")},
    ),
}

KV_CACHE: Final[Mapping[str, Entry]] = {
    "cs336-l10-13b-kvseq": Adapter(  # bf16, as in the lecture's other rows
        memory.kv_memory,
        {
            "per_token": Adapter(
                memory.kv_bytes_per_token, {**GQA, "width": Implied(2.0, "819,200 B/token")}
            ),
            "context": Quoted("S"),
        },
    ),
    "sb-tr-kv-int8": Adapter(
        memory.kv_memory,
        {
            "per_token": Adapter(
                memory.kv_bytes_per_token,
                {
                    "layers": LAYERS,
                    "kv_heads": Implied(1.0, "KH"),
                    "head_dim": Quoted("KH"),
                    "width": Width(),
                },
            ),
            "context": Quoted("S"),
        },
    ),
    "sb-tr-q1-kv": Adapter(
        memory.kv_bytes_per_token,
        {
            "layers": LAYERS,
            "kv_heads": Implied(1.0, "NH"),
            "head_dim": Quoted("NH"),
            "width": Width(),
        },
    ),
    "sb-inf-13b-kv8k": Adapter(
        memory.kv_memory,
        {
            "per_token": Adapter(memory.kv_bytes_per_token, {**GQA, "width": Quoted("bytes")}),
            "context": Quoted("T"),
        },
    ),
    "sb-app-kv": Adapter(memory.kv_bytes_per_token, {**GQA, "width": Width()}),
    "sb-app-kv32k": Adapter(memory.kv_memory, {"per_token": Quoted("kv"), "context": Quoted("S")}),
    "nv-7b-kv": Adapter(
        memory.kv_memory,
        {
            "per_token": Adapter(memory.kv_bytes_per_token, {**HIDDEN, "width": Quoted("bytes")}),
            "context": Quoted("S"),
            "batch": Quoted("B"),
        },
    ),
    **dict.fromkeys(
        ("nv-7b-kvtok", "vllm-opt13-tok"),
        Adapter(memory.kv_bytes_per_token, {**HIDDEN, "width": Quoted("bytes")}),
    ),
    "kp-kvtok": Adapter(
        memory.kv_bytes_per_token,
        {
            "layers": LAYERS,
            "kv_heads": Implied(1.0, '"d"'),
            "head_dim": Quoted("d"),
            "width": Quoted("bytes"),
        },
    ),
    "vllm-opt13-req": Adapter(
        memory.kv_memory,
        {
            "per_token": Adapter(
                memory.kv_bytes_per_token,
                {
                    "layers": Quoted("L", row="vllm-opt13-tok"),
                    "kv_heads": Implied(1.0, "KV per 2048-token request"),
                    "head_dim": Quoted("hidden", row="vllm-opt13-tok"),
                    "width": Quoted("bytes", row="vllm-opt13-tok"),
                },
            ),
            "context": Quoted("S"),
        },
    ),
    **dict.fromkeys(
        ("ds-v2-mha", "ds-v2l-mha"),
        Adapter(
            memory.kv_bytes_per_token,
            {
                "layers": LAYERS,
                "kv_heads": Quoted("heads"),
                "head_dim": Quoted("dh"),
                "width": Implied(1.0, "KV elements/token"),
            },
        ),
    ),
    **dict.fromkeys(
        ("ds-q72-kv", "ds-l405-kv", "cla-mqa"),
        Adapter(memory.kv_bytes_per_token, {**GQA, "width": Quoted("bytes")}),
    ),
    **dict.fromkeys(
        ("jamba-Mixtral-8x7B", "jamba-Mixtral-8x22B", "jamba-Jamba-1.5-Mini"),
        Adapter(
            memory.kv_memory,
            {"per_token": Quoted("bytes_per_token"), "context": Quoted("context")},
        ),
    ),
    "jamba-405B": Adapter(  # 16 bits, as the rows beside it say
        memory.kv_memory,
        {
            "per_token": Adapter(
                memory.kv_bytes_per_token, {**GQA, "width": Implied(2.0, "126 GiB")}
            ),
            "context": Quoted("context"),
        },
    ),
    "jamba1-llama2": Adapter(
        memory.kv_memory,
        {
            "per_token": Adapter(
                engine.kv_bytes_per_token, {"model": Implied("llama-2-7b", "Llama-2 7B (MHA)")}
            ),
            "context": Quoted("context"),
        },
    ),
    "pope-3tb": Adapter(
        memory.kv_memory,
        {
            "per_token": Adapter(
                memory.kv_bytes_per_token,
                {
                    "layers": LAYERS,
                    "kv_heads": Quoted("heads"),
                    "head_dim": Quoted("dh"),
                    "width": Quoted("bytes"),
                },
            ),
            "context": Quoted("S"),
            "batch": Quoted("B"),
        },
    ),
}
