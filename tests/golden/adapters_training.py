"""Parameters and training: which function answers a row, and with what."""

from collections.abc import Mapping
from typing import Final

from roofline.cost.textbook import bounds, parameters, training
from tests.golden.adapters_memory import LAYERS, LECTURE_PARAMETERS
from tests.golden.rows import Adapter, Entry, Implied, Input, Printed, Quoted, Symbol

PARAMETERS: Final[Mapping[str, Entry]] = {
    "sb-tr-q1-params": Adapter(
        parameters.lecture_parameters,
        {
            "d_model": Quoted("D"),
            "d_ff": Quoted("F"),
            "layers": LAYERS,
            "heads": Implied(1.0, "MHA"),  # N·H = D
            "kv_heads": Implied(1.0, "MHA"),
            "head_dim": Quoted("D"),
            "vocab": Quoted("V"),
        },
    ),
    "sb-tr-q1-attnfrac": Adapter(
        parameters.attention_share, {"ff_multiple": Implied(4.0, '"F": "4D"')}
    ),
    "sb-inf-13b-ffn": Adapter(
        parameters.ffn_parameters,
        {
            "d_model": Quoted("D"),
            "d_ff": Implied(13824.0, '"D": 5120, "mult": 2.7'),  # F = 2.7·D
            "layers": LAYERS,
        },
    ),
    "sb-inf-13b-vocab": Adapter(
        parameters.vocabulary_parameters, {"d_model": Quoted("D"), "vocab": Quoted("V")}
    ),
    "sb-inf-13b-attn": Adapter(
        parameters.attention_parameters,
        {
            "d_model": Quoted("D"),
            "heads": Quoted("N"),
            "kv_heads": Quoted("N"),  # MHA
            "head_dim": Quoted("H"),
            "layers": LAYERS,
        },
    ),
    "sb-inf-q1-params": Adapter(
        parameters.lecture_parameters, {**LECTURE_PARAMETERS.inputs, "tied": Quoted("tied")}
    ),
}

TRAINING: Final[Mapping[str, Entry]] = {
    "cs336-l02-70b-flops": Adapter(
        training.training_flops, {"parameters": Quoted("N"), "tokens": Quoted("tokens")}
    ),
    "cs336-l02-70b-days": Adapter(
        training.training_time,
        {
            "parameters": Quoted("N"),
            "tokens": Quoted("tokens"),
            "flops_per_s": Quoted("peak"),
            "chips": Quoted("gpus"),
            "mfu": Quoted("mfu"),
        },
    ),
    "sb-gpu-70b-days": Adapter(
        training.training_time,
        {
            "parameters": Quoted("N"),
            "tokens": Quoted("tok"),
            "flops_per_s": Quoted("peak"),
            "chips": Quoted("gpus"),
            "mfu": Quoted("mfu"),
        },
    ),
    "sb-tr-q7-mfu": Adapter(  # the quoted peak is the PCIe part's
        training.training_mfu,
        {
            "parameters": Quoted("active"),
            "tokens": Quoted("tokens"),
            "chip_seconds": Quoted("gpu_hours", "h"),
            "flops_per_s": Printed("1.979e15"),
        },
    ),
    "ds-v2-train": Adapter(bounds.saving, {"before": Quoted("base"), "after": Quoted("v2")}),
    **dict.fromkeys(
        ("mg-5as-gpt3", "mg-5as-530b"),
        Adapter(
            training.attention_activation_factor,
            {"heads": Quoted("a"), "sequence": Quoted("s"), "d_model": Quoted("h")},
        ),
    ),
}

MEGATRON_SYMBOLS: Final[Mapping[str, Input]] = {
    "sequence": Symbol("s"),
    "batch": Symbol("b"),
    "d_model": Symbol("h"),
    "heads": Symbol("a"),
    "ranks": Symbol("t"),
}
ACTIVATIONS: Final[Mapping[str, Entry]] = {
    "mg-act": {
        "TP": Adapter(training.activation_bytes, MEGATRON_SYMBOLS),
        "TP+SP": Adapter(
            training.activation_bytes, {**MEGATRON_SYMBOLS, "sequence_parallel": Quoted("SP")}
        ),
    }
}
