"""Latency, throughput, utilisation and exact FLOPs: which function answers a row, with what."""

from collections.abc import Mapping
from typing import Final

from roofline.cost.textbook import bounds, intensity, latency, memory
from tests.golden import engine
from tests.golden.adapters_memory import LECTURE_CACHE, LECTURE_PARAMETERS, LECTURE_WEIGHTS
from tests.golden.rows import Adapter, Entry, Implied, Input, Quoted, Width

LECTURE_MEMORY: Final = Adapter(
    memory.decode_memory,
    {
        "weight_bytes": LECTURE_WEIGHTS,
        "batch": Quoted("B"),
        "kv_bytes_per_sequence": LECTURE_CACHE,
    },
)
LECTURE_LATENCY: Final = Adapter(
    bounds.memory_time, {"moved_bytes": LECTURE_MEMORY, "bytes_per_s": Quoted("bw")}
)
LECTURE_THROUGHPUT: Final = Adapter(
    latency.decode_throughput, {"batch": Quoted("B"), "latency": LECTURE_LATENCY}
)
LECTURE_POINTS: Final = ("B1-K40", "B64-K40", "B256-K40", "B64-K8")

BOOK_LATENCY: Final = Adapter(
    bounds.memory_time,
    {
        "moved_bytes": Adapter(
            memory.decode_memory,
            {
                "weight_bytes": Quoted("weights"),
                "batch": Quoted("B"),
                "kv_bytes_per_sequence": Quoted("kv_seq"),
            },
        ),
        "bytes_per_s": Quoted("bw_chip"),
        "chips": Quoted("chips"),
    },
)
BOOK_THROUGHPUT: Final = Adapter(
    latency.decode_throughput, {"batch": Quoted("B"), "latency": BOOK_LATENCY}
)
BOOK_POINTS: Final = ("mha-B1", "mha-B64", "mha-B240", "gqa-B1", "gqa-B64", "gqa-B240")

POP_QUIZ: Final[Mapping[str, Input]] = {
    "batch": Quoted("B"),
    "kv_bytes_per_sequence": Adapter(
        memory.kv_memory, {"per_token": Quoted("kv_tok"), "context": Quoted("S")}
    ),
    "parameters": Quoted("P"),
    "bytes_per_s": Quoted("bw"),
    "chips": Quoted("chips"),
    "weight_width": Width("w"),
}
SERVED_MATRIX: Final[Mapping[str, Input]] = {"d_in": Quoted("D"), "d_out": Quoted("F")}

LLAMA2_13B: Final[Mapping[str, Entry]] = {
    "cs336-l10-13b-K40-params": LECTURE_PARAMETERS,
    "cs336-l10-13b-K8-params": LECTURE_PARAMETERS,
    **{f"cs336-l10-13b-{point}-mem": LECTURE_MEMORY for point in LECTURE_POINTS},
    **{f"cs336-l10-13b-{point}-lat": LECTURE_LATENCY for point in LECTURE_POINTS},
    **{f"cs336-l10-13b-{point}-thr": LECTURE_THROUGHPUT for point in LECTURE_POINTS},
}

DECODE: Final[Mapping[str, Entry]] = {
    **{f"sb-inf-13b-{point}-ms": BOOK_LATENCY for point in BOOK_POINTS},
    **{f"sb-inf-13b-{point}-tps": BOOK_THROUGHPUT for point in BOOK_POINTS},
    "sb-inf-popquiz-4": Adapter(
        latency.decode_step_time,
        {**POP_QUIZ, "flops_per_s": Quoted("peak", row="sb-inf-popquiz-256")},
    ),
    "sb-inf-popquiz-256": Adapter(
        latency.decode_step_time, {**POP_QUIZ, "flops_per_s": Quoted("peak")}
    ),
    "sb-inf-appA": Adapter(
        bounds.memory_time,
        {
            "moved_bytes": Adapter(
                memory.weight_memory, {"parameters": Quoted("params"), "width": Quoted("bytes")}
            ),
            "bytes_per_s": Quoted("bw"),
            "chips": Quoted("shard"),
        },
    ),
    "sb-app-17ms": Adapter(
        bounds.memory_time,
        {"moved_bytes": Quoted("bytes"), "bytes_per_s": Quoted("bw"), "chips": Quoted("chips")},
    ),
    "sb-app-19ms": Adapter(
        bounds.memory_time, {"moved_bytes": Quoted("hbm"), "bytes_per_s": Quoted("bw")}
    ),
    "sb-app-235": Adapter(
        latency.decode_throughput,
        {"batch": Quoted("B"), "latency": Quoted("step"), "chips": Quoted("chips")},
    ),
    "sb-app-hbm": Adapter(  # bf16 weights
        bounds.memory_time,
        {
            "moved_bytes": Adapter(
                memory.tensor_bytes,
                {
                    "rows": Quoted("D"),
                    "columns": Quoted("F"),
                    "width": Implied(2.0, "T_hbm one matmul"),
                },
            ),
            "bytes_per_s": Quoted("bw"),
            "chips": Quoted("chips"),
        },
    ),
    "sb-app-math": Adapter(
        bounds.math_time,
        {
            "flops": Adapter(intensity.matmul_flops, {"batch": Quoted("B"), **SERVED_MATRIX}),
            "flops_per_s": Quoted("peak"),
            "chips": Quoted("chips"),
        },
    ),
    "kp-gopher-small-c": Adapter(
        bounds.memory_time,
        {
            "moved_bytes": Adapter(
                memory.weight_memory,
                {"parameters": Quoted("P"), "width": Implied(2.0, "Gopher weights time")},
            ),
            "bytes_per_s": Quoted("bw"),
            "chips": Quoted("N"),
        },
    ),
    "kp-gopher-large-c": Adapter(
        latency.prefill_latency,
        {
            "parameters": Quoted("P"),
            "tokens": Quoted("B"),
            "flops_per_s": Quoted("peak"),
            "chips": Quoted("N"),
        },
    ),
    "pope-29ms": Adapter(bounds.ratio, {"before": Quoted("time"), "after": Quoted("steps")}),
}

PREFILL: Final[Mapping[str, Entry]] = {
    "sb-app-prefill": Adapter(
        latency.prefill_latency,
        {
            "parameters": Quoted("P"),
            "tokens": Quoted("S"),
            "flops_per_s": Quoted("peak"),
            "chips": Quoted("chips"),
            "mfu": Quoted("mfu"),
        },
    ),
    "kp-kvflops": Adapter(
        latency.kv_projection_time,
        {"d_model": Quoted("d"), "layers": Quoted("L"), "bytes_per_s": Quoted("bw")},
    ),
}

UTILISATION: Final[Mapping[str, Entry]] = {
    **dict.fromkeys(
        ("pope-540B-LL-prefill", "pope-540B-LL-decode", "pope-540B-HT-prefill"),
        Adapter(
            latency.inference_mfu,
            {
                "parameters": Quoted("N"),
                "batch": Quoted("B"),
                "tokens": Quoted("tokens"),
                "seconds": Quoted("time_s"),
                "flops_per_s": Quoted("peak"),
                "chips": Quoted("chips"),
            },
        ),
    ),
}

THROUGHPUT: Final[Mapping[str, Entry]] = {
    "sb-app-qps-bf16": Adapter(
        latency.queries_per_second,
        {
            "batch": Quoted("B"),
            "latency": Quoted("step"),
            "tokens": Quoted("len"),
            "chips": Quoted("chips"),
        },
    ),
}

CATALOG: Final[Mapping[str, Implied]] = {
    hub: Implied(name, hub)
    for hub, name in {
        "llama-2-7b-hf": "llama-2-7b",
        "llama-2-13b-hf": "llama-2-13b",
        "llama-2-70b-hf": "llama-2-70b",
        "llama-3.1-8b": "llama-3.1-8b",
        "llama-3.1-405b": "llama-3.1-405b",
        "qwen2.5-7b": "qwen2.5-7b",
        "gemma-2-9b": "gemma-2-9b",
    }.items()
}
COUNTED: Final = (
    "llama-2-7b-hf",
    "llama-2-70b-hf",
    "llama-3.1-8b",
    "llama-3.1-405b",
    "qwen2.5-7b",
    "gemma-2-9b",
)
FLOP_COUNTER: Final = {
    "llama-2-7b-hf-S512-B1": "llama-2-7b-hf",
    "llama-2-7b-hf-S2048-B1": "llama-2-7b-hf",
    "llama-2-13b-hf-S1024-B1": "llama-2-13b-hf",
    "llama-3.1-8b-S2048-B1": "llama-3.1-8b",
}

MODELS: Final[Mapping[str, Entry]] = {
    **{
        f"model-{hub}-params": Adapter(engine.total_parameters, {"model": CATALOG[hub]})
        for hub in COUNTED
    },
    **{
        f"model-{hub}-kv": Adapter(engine.kv_bytes_per_token, {"model": CATALOG[hub]})
        for hub in COUNTED
    },
    **{
        f"flops-{point}-prefill": Adapter(
            engine.prefill_flops,
            {"model": CATALOG[hub], "batch": Quoted("B"), "context": Quoted("S")},
        )
        for point, hub in FLOP_COUNTER.items()
    },
    **{
        f"flops-{point}-decode": Adapter(
            engine.decode_flops,
            {"model": CATALOG[hub], "batch": Quoted("B"), "past": Quoted("past")},
        )
        for point, hub in FLOP_COUNTER.items()
    },
}
