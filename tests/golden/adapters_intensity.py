"""Intensity, rooflines, kernels, hardware: which function answers a row, and with what."""

from collections.abc import Mapping
from typing import Final

from roofline.cost.textbook import attention, bounds, intensity, memory, silicon
from tests.golden.rows import Adapter, Entry, Implied, Input, Printed, Quoted, Symbol, Width

BF16: Final = Implied(2.0, "bf16")
FP16: Final = Implied(2.0, "fp16")
FP32: Final = Implied(4.0, "fp32")
PEAK: Final = Quoted("peak")
BANDWIDTH: Final = Quoted("bw")
RIDGE: Final[Mapping[str, Input]] = {"flops_per_s": PEAK, "bytes_per_s": BANDWIDTH}
INT8_RIDGE: Final = Adapter(
    bounds.ridge, {"flops_per_s": Quoted("peak_int8"), "bytes_per_s": BANDWIDTH}
)

MATMUL_SYMBOLS: Final[Mapping[str, Input]] = {
    "batch": Symbol("B"),
    "d_in": Symbol("D"),
    "d_out": Symbol("F"),
}
MLP_SYMBOLS: Final[Mapping[str, Input]] = {
    "batch": Symbol("B"),
    "tokens": Symbol("T"),
    "d_model": Symbol("D"),
    "d_ff": Symbol("F"),
}
ATTENTION_SYMBOLS: Final[Mapping[str, Input]] = {
    "batch": Symbol("B"),
    "context": Symbol("S"),
    "new": Symbol("T"),
    "d_model": Symbol("D"),
}
MATMUL_QUOTED: Final = Adapter(
    intensity.matmul_intensity,
    {"batch": Quoted("B"), "d_in": Quoted("D"), "d_out": Quoted("F"), "width": Quoted("bytes")},
)
MLP_QUOTED: Final = Adapter(
    intensity.mlp_intensity,
    {"batch": Quoted("B"), "tokens": Quoted("T"), "d_model": Quoted("D"), "d_ff": Quoted("F")},
)
ATTENTION_QUOTED: Final = Adapter(
    attention.attention_intensity, {"context": Quoted("S"), "new": Quoted("T")}
)

INTENSITY: Final[Mapping[str, Entry]] = {
    "cs336-l10-matmul-intensity": Adapter(
        intensity.matmul_intensity, {**MATMUL_SYMBOLS, "width": BF16}
    ),
    "cs336-l10-matmul-int-1-5120-13824": MATMUL_QUOTED,
    "cs336-l10-matmul-int-64-5120-13824": MATMUL_QUOTED,
    "cs336-l10-mlp-bytes": Adapter(intensity.mlp_bytes, MLP_SYMBOLS),
    "cs336-l10-mlp-intensity": Adapter(intensity.mlp_intensity, MLP_SYMBOLS),
    "cs336-l10-mlp-int-B1-T1": MLP_QUOTED,
    "cs336-l10-mlp-int-B64-T1": MLP_QUOTED,
    "cs336-l10-attn-bytes": Adapter(attention.attention_bytes, ATTENTION_SYMBOLS),
    "cs336-l10-attn-flops": Adapter(attention.attention_flops, ATTENTION_SYMBOLS),
    "cs336-l10-attn-int": Adapter(
        attention.attention_intensity, {"context": Symbol("S"), "new": Symbol("T")}
    ),
    "cs336-l10-attn-prefill": Adapter(  # T = S
        attention.attention_intensity, {"context": Symbol("S"), "new": Symbol("S")}
    ),
    "cs336-l10-attn-gen": Adapter(
        attention.attention_intensity, {"context": Symbol("S"), "new": Quoted("T")}
    ),
    "cs336-l10-attn-gen-1024": ATTENTION_QUOTED,
    "cs336-l10-attn-prefill-4096": ATTENTION_QUOTED,
    "sb-tr-q4-prefill": Adapter(  # T = S
        attention.attention_intensity,
        {"context": Symbol("T"), "new": Symbol("T"), "group": Symbol("G")},
    ),
    "sb-tr-q4-gen": Adapter(
        attention.attention_intensity,
        {"context": Symbol("S"), "new": Quoted("T"), "group": Symbol("G")},
    ),
    "sb-roof-dot": Adapter(
        intensity.dot_product_intensity, {"n": Implied(1e9, "N->inf"), "width": BF16}
    ),
    "sb-roof-batched": Adapter(
        intensity.per_example_matmul_intensity,
        {
            "d_in": Implied(1e9, "limit"),
            "d_out": Implied(1e9, "limit"),
            "width": Implied(1.0, "int8"),
        },
    ),
    "sb-gpu-add-int": Adapter(intensity.vector_add_intensity, {"width": FP32}),
}

ATTENTION_FLOPS: Final[Mapping[str, Entry]] = {
    "sb-tr-attn-frac": Adapter(
        attention.attention_to_matmul_flops,
        {"tokens": Symbol("T"), "d_model": Symbol("D"), "ff_multiple": Implied(4.0, "F=4D")},
    ),
    "sb-tr-attn-frac-8k": Adapter(  # F = 4·D, as in the row above
        attention.equal_flops_tokens,
        {"d_model": Quoted("D"), "ff_multiple": Implied(4.0, "attention = matmul FLOPs")},
    ),
    "sb-tr-q5": Adapter(
        attention.equal_flops_tokens,
        {"d_model": Quoted("D"), "ff_multiple": Implied(0.0, "QKVO FLOPs")},
    ),
}

ROOFLINE: Final[Mapping[str, Entry]] = {
    "cs336-l10-h100-ridge": Adapter(
        bounds.ridge, {"flops_per_s": Quoted("peak_flops"), "bytes_per_s": BANDWIDTH}
    ),
    **dict.fromkeys(
        ("sb-roof-v5e-ridge", "sb-gpu-h100-int", "sb-gpu-b200-int", "sb-gpu-fp8-int"),
        Adapter(bounds.ridge, RIDGE),
    ),
    **dict.fromkeys(
        ("sb-roof-h100-B", "kp-ridge"),
        Adapter(bounds.critical_batch, {"ridge_point": Adapter(bounds.ridge, RIDGE)}),
    ),
    **dict.fromkeys(
        ("sb-roof-h100-1e12", "sb-roof-v6e-1e12"),
        Adapter(bounds.math_time, {"flops": Quoted("flops"), "flops_per_s": PEAK}),
    ),
    "sb-roof-2chip": Adapter(
        bounds.two_chip_threshold,
        {"flops_per_s": PEAK, "link_bytes_per_s": Quoted("link_dir")},
    ),
    "sb-roof-int8-ridge": INT8_RIDGE,
    "sb-roof-int8-B": Adapter(
        bounds.critical_batch, {"ridge_point": INT8_RIDGE, "weight_width": Implied(1.0, "int8")}
    ),
    "sb-roof-w8a16-B": Adapter(
        bounds.critical_batch, {"ridge_point": Quoted("ridge"), "weight_width": Width("w")}
    ),
}

KERNELS: Final[Mapping[str, Entry]] = {
    "sb-gpu-mm64": Adapter(
        bounds.memory_time,
        {
            "moved_bytes": Adapter(
                intensity.matmul_bytes,
                {
                    "batch": Quoted("M"),
                    "d_in": Quoted("K"),
                    "d_out": Quoted("N"),
                    "width": Width(),
                },
            ),
            "bytes_per_s": BANDWIDTH,
        },
    ),
    "sb-gpu-mm512": Adapter(
        bounds.math_time,
        {
            "flops": Adapter(
                intensity.matmul_flops,
                {"batch": Quoted("M"), "d_in": Quoted("K"), "d_out": Quoted("N")},
            ),
            "flops_per_s": PEAK,
        },
    ),
    **dict.fromkeys(
        ("sb-gpu-add-1g", "sb-gpu-add-64k"),
        Adapter(
            bounds.memory_time,
            {
                "moved_bytes": Adapter(
                    intensity.vector_add_bytes, {"n": Quoted("N"), "width": FP32}
                ),
                "bytes_per_s": BANDWIDTH,
            },
        ),
    ),
}

HARDWARE: Final[Mapping[str, Entry]] = {
    "sb-gpu-h100-alus": Adapter(
        silicon.vector_cores,
        {"multiprocessors": Quoted("SM"), "partitions": Quoted("sub"), "lanes": Quoted("lanes")},
    ),
    "sb-gpu-b200-alus": Adapter(
        silicon.vector_cores,
        {
            "multiprocessors": Quoted("SM"),
            "partitions": Quoted("sub", row="sb-gpu-h100-alus"),
            "lanes": Quoted("lanes", row="sb-gpu-h100-alus"),
        },
    ),
    **dict.fromkeys(
        ("sb-gpu-h100-vec", "sb-gpu-h100-vecb"),
        Adapter(
            silicon.vector_rate,
            {
                "cores": Quoted("cores"),
                "clock_hz": Quoted("clk"),
                "flops_per_cycle": Implied(1.0, "without FMA"),
            },
        ),
    ),
    "sb-gpu-b200clk": Adapter(
        silicon.vector_clock, {"flops_per_s": Quoted("fp32"), "cores": Quoted("cores")}
    ),
    "sb-gpu-smem": Adapter(
        silicon.shared_memory,
        {"multiprocessors": Quoted("SM"), "bytes_each": Quoted("kB", "KiB")},  # "= 33 MiB"
    ),
    "sb-gpu-nvl72": Adapter(
        silicon.node_egress, {"ports": Quoted("ports"), "bits_per_s": Quoted("gbps", "Gbit/s")}
    ),
    "sb-gpu-tc": Adapter(
        silicon.tensor_flops_per_cycle,
        {
            "flops_per_s": PEAK,
            "multiprocessors": Quoted("SM"),
            "tensor_cores": Quoted("TC"),
            "clock_hz": Quoted("clk"),
        },
    ),
    **dict.fromkeys(
        ("hw-h100-tensor", "hw-a100-tensor"),
        Adapter(
            silicon.tensor_peak,
            {
                "multiprocessors": Quoted("SM"),
                "tensor_cores": Quoted("TC"),
                "flops_per_cycle": Quoted("flop"),
                "clock_hz": Quoted("clk"),
            },
        ),
    ),
    "a100-smem-bw": Adapter(
        silicon.shared_memory_rate,
        {
            "multiprocessors": Quoted("SM"),
            "bytes_per_cycle": Quoted("B_per_clk"),
            "clock_hz": Quoted("clk"),
        },
    ),
}

KERNEL_STUDIES: Final[Mapping[str, Entry]] = {
    "fa1-time": Adapter(
        bounds.ratio, {"before": Quoted("std_ms", "ms"), "after": Quoted("fa_ms", "ms")}
    ),
    "fa2-a100": Adapter(
        silicon.achieved_rate,
        {"flops_per_s": Quoted("peak", "TFLOPS"), "utilization": Printed("72%")},
    ),
    "fa3-fp16": Adapter(
        silicon.achieved_rate,
        {"flops_per_s": Quoted("peak", "TFLOPS"), "utilization": Printed("75%")},
    ),
    **dict.fromkeys(
        ("fa-snippet-2048", "fa-snippet-8192"),
        Adapter(
            memory.tensor_bytes,
            {"rows": Quoted("S"), "columns": Quoted("S"), "width": Width()},
        ),
    ),
    "gqa-mha": Adapter(bounds.ratio, {"before": Printed("1.51 s"), "after": Printed("0.28 s")}),
}
