"""Collectives, splits and disaggregation: which function answers a row, and with what."""

from collections.abc import Mapping
from typing import Final

from roofline.cost.textbook import bounds, collectives, latency, memory, parallelism
from tests.golden.rows import Adapter, Entry, Implied, Input, Quoted, Symbol

RATE: Final = Quoted("W")
LINK_RIDGE: Final = Adapter(bounds.ridge, {"flops_per_s": Quoted("C"), "bytes_per_s": RATE})
SYMBOLS: Final[Mapping[str, Input]] = {"payload": Symbol("B"), "bytes_per_s": Symbol("W")}
RING: Final[Mapping[str, Input]] = {**SYMBOLS, "ranks": Symbol("N")}
BF16_MATRIX: Final = Adapter(
    memory.tensor_bytes,
    {"rows": Quoted("B"), "columns": Quoted("F"), "width": Implied(2.0, "AllGather time")},
)
LEVEL: Final = Adapter(collectives.all_gather_rate, {"ranks": Quoted("D"), "bytes_per_s": RATE})

COLLECTIVES: Final[Mapping[str, Entry]] = {
    "sb-inf-latbound": Adapter(
        collectives.latency_bound_bytes,
        {"ranks": Quoted("shards"), "bytes_per_s": RATE, "hop_seconds": Quoted("hop")},
    ),
    "sb-inf-actint8": Adapter(
        memory.tensor_bytes,
        {"rows": Quoted("B"), "columns": Quoted("D"), "width": Quoted("bytes")},
    ),
    "sb-app-ici": Adapter(  # bf16 activations
        collectives.all_gather_time,
        {
            "payload": Adapter(
                memory.tensor_bytes,
                {
                    "rows": Quoted("B"),
                    "columns": Quoted("D"),
                    "width": Implied(2.0, "T_ici one matmul"),
                },
            ),
            "bytes_per_s": RATE,
        },
    ),
    "sb-gpu-node-bw": Adapter(
        collectives.node_rate, {"ranks": Quoted("gpus"), "bytes_per_s": RATE}
    ),
    "sb-gpu-ag-512M": Adapter(
        collectives.all_gather_time,
        {"payload": Quoted("bytes"), "bytes_per_s": RATE, "ranks": Quoted("N")},
    ),
    "sb-gpu-ag-33M": Adapter(
        collectives.all_gather_time,
        {"payload": BF16_MATRIX, "bytes_per_s": RATE, "ranks": Quoted("N")},
    ),
    "sb-gpu-ag-33Mapprox": Adapter(
        collectives.all_gather_time, {"payload": BF16_MATRIX, "bytes_per_s": RATE}
    ),
    "sb-gpu-ar-form": {
        "": Adapter(collectives.all_reduce_time, RING),
        "SHARP": Adapter(collectives.switch_all_reduce_time, SYMBOLS),
    },
    "sb-gpu-a2a-form": Adapter(collectives.all_to_all_time, RING),
    **dict.fromkeys(("sb-gpu-nodeAG", "sb-gpu-leafAG", "sb-gpu-spineAG"), LEVEL),
    "kp-gopher-small-comm": Adapter(
        collectives.tensor_parallel_latency,
        {"layers": Quoted("L"), "hop_seconds": Quoted("lat"), "steps": Quoted("steps")},
    ),
    "kp-gopher-large-comm": Adapter(
        collectives.tensor_parallel_time,
        {
            "batch": Quoted("B"),
            "d_model": Quoted("d"),
            "layers": Quoted("L"),
            "bytes_per_s": RATE,
            "width": Implied(1.0, "omits 2 bytes/element"),
        },
    ),
}

PARALLELISM: Final[Mapping[str, Entry]] = {
    "sb-inf-ymax": Adapter(
        parallelism.decode_tensor_parallel_limit,
        {"d_ff": Quoted("F"), "batch": Quoted("B"), "rate_ratio": Quoted("beta")},
    ),
    "sb-inf-2dws": Adapter(
        parallelism.weight_stationary_crossing, {"ff_multiple": Implied(4.0, '"F": "4D"')}
    ),
    **dict.fromkeys(
        ("sb-gpu-dp", "sb-gpu-dp2", "sb-gpu-b200-dp"),
        Adapter(
            parallelism.data_parallel_critical_batch,
            {"flops_per_s": Quoted("C"), "bytes_per_s": RATE},
        ),
    ),
    "sb-gpu-moe-dp": Adapter(
        parallelism.data_parallel_critical_batch,
        {
            "flops_per_s": Quoted("C", row="sb-gpu-dp2"),
            "bytes_per_s": Quoted("W", row="sb-gpu-dp2"),
            "experts": Quoted("E"),
            "active_experts": Quoted("k"),
        },
    ),
    "sb-gpu-tp": Adapter(
        parallelism.tensor_parallel_limit, {"d_ff": Quoted("F"), "link_ridge": Quoted("alpha")}
    ),
    "sb-gpu-b200-tp": LINK_RIDGE,
    "sb-gpu-tp1995": Adapter(
        parallelism.tensor_parallel_limit, {"d_ff": Quoted("F"), "link_ridge": LINK_RIDGE}
    ),
}

PIPELINE: Final[Mapping[str, Entry]] = {
    **dict.fromkeys(
        ("pp-4-8-1", "pp-8-32-1"),
        Adapter(
            parallelism.pipeline_bubble,
            {"stages": Quoted("p"), "microbatches": Quoted("m"), "chunks": Quoted("v")},
        ),
    ),
}

DEEPSEEK_TPOT: Final = Adapter(
    parallelism.exchange_bound_tpot,
    {
        "exchange_seconds": Quoted("per", row="ds-ep-tpot"),
        "layers": Quoted("L", row="ds-ep-tpot"),
        "microbatches": Quoted("microbatches", row="ds-ep-tpot"),
    },
)
NVL72_EXCHANGE: Final = Adapter(  # widths as in the row it leans on: 1 + 2 bytes
    parallelism.expert_exchange_time,
    {
        "tokens": Quoted("tokens", row="ds-ep-ib"),
        "experts": Quoted("experts", row="ds-ep-ib"),
        "d_model": Quoted("hidden", row="ds-ep-ib"),
        "bytes_per_s": Quoted("W", row="ds-ep-nvl"),
    },
)

EXPERT_PARALLEL: Final[Mapping[str, Entry]] = {
    "ds-ep-ib": Adapter(
        parallelism.expert_exchange_time,
        {
            "tokens": Quoted("tokens"),
            "experts": Quoted("experts"),
            "d_model": Quoted("hidden"),
            "bytes_per_s": RATE,
            "dispatch_width": Implied(1.0, '"bytes": "1+2"'),
            "combine_width": Implied(2.0, '"bytes": "1+2"'),
        },
    ),
    "ds-ep-tpot": DEEPSEEK_TPOT,
    "ds-ep-tps": Adapter(
        latency.decode_throughput, {"batch": Implied(1.0, "tokens/s"), "latency": DEEPSEEK_TPOT}
    ),
    "ds-ep-nvl": NVL72_EXCHANGE,
    "ds-ep-nvl-tpot": Adapter(
        parallelism.exchange_bound_tpot,
        {**DEEPSEEK_TPOT.inputs, "exchange_seconds": NVL72_EXCHANGE},
    ),
}

DISAGGREGATION: Final[Mapping[str, Entry]] = {
    "sb-app-ratio": Adapter(
        parallelism.prefill_servers,
        {
            "prefill_seconds": Quoted("prefill_s"),
            "queries_per_s": Adapter(
                latency.queries_per_second,
                {"batch": Quoted("B"), "latency": Quoted("step"), "tokens": Quoted("G")},
            ),
        },
    ),
    "ds-dist-opt66": Adapter(
        memory.kv_memory,
        {
            "per_token": Adapter(
                memory.kv_bytes_per_token,
                {
                    "layers": Quoted("L"),
                    "kv_heads": Implied(1.0, '"d"'),  # MHA: K·H = d
                    "head_dim": Quoted("d"),
                    "width": Quoted("bytes"),
                },
            ),
            "context": Quoted("S"),
        },
    ),
    "ds-dist-bw": Adapter(
        parallelism.kv_transfer_rate, {"kv_bytes": Quoted("kv"), "queries_per_s": Quoted("rps")}
    ),
}
