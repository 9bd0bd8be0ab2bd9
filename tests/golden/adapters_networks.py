"""Mixtures of experts, latent attention, shared caches: which function answers a row."""

from collections.abc import Mapping
from typing import Final

from roofline.cost import moe
from roofline.cost.textbook import bounds, memory
from tests.golden import engine
from tests.golden.rows import Adapter, Entry, Implied, Input, Printed, Quoted

LATENT: Final[Mapping[str, Input]] = {
    "layers": Quoted("L"),
    "latent": Quoted("dc"),
    "rope_dim": Quoted("dr"),
}
DEEPSEEK_V3: Final = Adapter(
    engine.kv_bytes_per_token, {"model": Implied("deepseek-v3", "DeepSeek-V3")}
)

LATENT_CACHE: Final[Mapping[str, Entry]] = {
    **dict.fromkeys(("ds-v2-mla", "ds-v2l-mla"), Adapter(engine.latent_elements, LATENT)),
    "ds-v3-kv": DEEPSEEK_V3,
    "ds-q72-x": Adapter(
        bounds.ratio,
        {
            "before": Adapter(
                engine.kv_bytes_per_token, {"model": Implied("qwen2.5-72b", "Qwen multiplier")}
            ),
            "after": DEEPSEEK_V3,
        },
    ),
    "ds-l405-x": Adapter(
        bounds.ratio,
        {
            "before": Adapter(
                engine.kv_bytes_per_token,
                {"model": Implied("llama-3.1-405b", "Llama-405B multiplier")},
            ),
            "after": DEEPSEEK_V3,
        },
    ),
    "ds-v2-groups": Adapter(  # a group is one key and one value head
        bounds.ratio,
        {
            "before": Adapter(
                engine.latent_elements,
                {
                    "layers": Implied(1, "equivalent GQA groups"),
                    "latent": Implied(512, '"dc": "4dh"'),
                    "rope_dim": Implied(64, '"dr": "dh/2"'),
                },
            ),
            "after": Adapter(
                memory.kv_bytes_per_token,
                {
                    "layers": Implied(1, "equivalent GQA groups"),
                    "kv_heads": Implied(1, "groups"),
                    "head_dim": Quoted("dh"),
                    "width": Implied(1.0, "groups"),
                },
            ),
        },
    ),
    "ds-v2-933": Adapter(  # 6 bits against 16, as the note beside it says
        bounds.saving,
        {
            "before": Adapter(
                engine.kv_bytes_per_token,
                {"model": Implied("deepseek-llm-67b", "vs DeepSeek 67B")},
            ),
            "after": Adapter(
                memory.tensor_bytes,
                {
                    "rows": Implied(1, "KV reduction"),
                    "columns": Adapter(
                        engine.kv_elements, {"model": Implied("deepseek-v2", '"v2": "576*60')}
                    ),
                    "width": Printed("6 bit"),
                },
            ),
        },
    ),
}

SHARED_CACHE: Final[Mapping[str, Entry]] = {
    "cla-mqa-cla2": Adapter(
        memory.tensor_bytes,
        {
            "rows": Implied(1, "KV/token"),
            "columns": Adapter(
                engine.shared_elements,
                {
                    "layers": Quoted("L"),
                    "kv_heads": Quoted("K", row="cla-mqa"),
                    "head_dim": Quoted("H"),
                    "share": Quoted("share"),
                },
            ),
            "width": Quoted("bytes", row="cla-mqa"),
        },
    ),
}

CATALOG: Final[Mapping[str, Implied]] = {
    "mixtral-8x7b-v0.1": Implied("mixtral-8x7b-v0.1", "mixtral-8x7b-v0.1"),
    "deepseek-v3": Implied("deepseek-v3", "deepseek-v3"),
    "gpt-oss-120b": Implied("gpt-oss-120b", "gpt-oss-120b"),
    "jamba-v0.1": Implied("jamba-v0.1", "jamba-v0.1"),
}

TOUCHED: Final = Adapter(
    moe.touched, {"tokens": Quoted("tokens"), "experts": Quoted("E"), "active": Quoted("k")}
)

EXPERTS: Final[Mapping[str, Entry]] = {
    **dict.fromkeys(
        ("moe-exp-8-2-1", "moe-exp-8-2-4", "moe-exp-8-2-16", "moe-exp-256-8-32"), TOUCHED
    ),
    # The row shows what "experts x 7B" misses; its value is the network's total.
    "moe-mixtral-naive": Adapter(
        engine.total_parameters, {"model": Implied("mixtral-8x7b-v0.1", "Mixtral card")}
    ),
    **{
        f"model-{name}-params": Adapter(engine.total_parameters, {"model": model})
        for name, model in CATALOG.items()
    },
    **{
        f"model-{name}-active": Adapter(engine.active_parameters, {"model": model})
        for name, model in CATALOG.items()
    },
    **{
        f"model-{name}-kv": Adapter(engine.kv_bytes_per_token, {"model": model})
        for name, model in CATALOG.items()
    },
}
