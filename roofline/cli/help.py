"""Help of the commands: options in groups, examples, as wide as the terminal."""

from collections.abc import Mapping
from shutil import get_terminal_size
from typing import Any, Final

import typer.core

from roofline.errors import EXIT_CODES

WIDEST: Final = 120
"""Characters of a line of help, beyond which it is hard to read. [1]"""
ROUTINE: Final = 10
"""Options up to which they need no groups. [1]"""
GROUPS: Final[Mapping[str, str]] = {
    "Common": "gpu gpus power budget_per_hour layout batch prompt output weights kv rate "
    "concurrency workload slo with_ draft acceptance prefill decode target explain report",
    "Load": "trace drop_over_length clip rate_curve cv requests warmup seed length_spread ramp_up "
    "prompt_pool harness prefill_batch prefix_hit cold timeout static",
    "Parallelism": "node tp pp ep dp cp sp stages prefill_replicas microbatches ring_attention "
    "overlap objective "
    "top over overlapped decode_gpu decode_node disaggregated",
    "Engine": "engine engine_version cuda_graphs memory_utilization max_sequences max_context "
    "token_budget chunked_prefill prefix_caching policy first preemption contiguous host_cache "
    "recv_interval stream_interval dp_timeout_iters page reserved profile port",
    "Decoding": "samples beams temperature top_k top_p denoising_steps block",
    "LoRA adapters": "adapters lora_rank lora_targets max_loras adapter_skew",
    "Drafts": "draft_length draft_tokens draft_model draft_weights draft_tp length tree tokens",
    "Model and kernels": "mla routing_skew expert_loads attention fusion mask kv_cache "
    "offload_weights offload_kv offload_to prefetch convention calibration",
    "Cost and risk": "price reserved_price scaling pue usd_per_kwh carbon own years "
    "training_tokens headroom confidence intervals",
}
"""Options by group, in the order of the help; those of no group are under `OTHERS`."""
OTHERS: Final = "Output"
EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "analyze": (
        "llama-3.1-70b --gpu h100-sxm --gpus 8 --batch 64 --weights fp8",
        "deepseek-v3 --gpu h200-sxm --gpus 8 --engine sglang --isl 4k --osl 1k",
        "./config.json --gpu l40s --explain tpot",
    ),
    "compare": (
        "llama-2-13b --with gqa=8 --with mla=512 --gpu h100-sxm",
        "llama-3.1-8b --with weights=fp8 --with weights=int4-awq",
        "llama-3.1-8b --with gpu=h200-sxm --report page.html",
    ),
    "layouts": (
        "llama-3.1-70b --gpus 16 --batch 64",
        "deepseek-v3 --gpu h200-sxm --gpus 32 --objective throughput",
        "qwen3-32b --gpus 8 --top 5 --format json",
    ),
    "simulate": (
        "llama-3.1-70b --gpus 8 --weights fp8 --rate 5 --slo ttft=500ms,tpot=40ms",
        "llama-3.1-8b --concurrency 64 --prompt 1k --output 200",
        "llama-3.1-8b --trace requests.csv --out served.parquet",
    ),
    "plan": (
        "llama-3.1-70b --gpus 32 --rate 20 --slo ttft=500ms,tpot=40ms --report plan.html",
        "qwen3-32b --gpu h100-sxm --gpu h200-sxm --weights bf16 --weights fp8 --rate 10",
        "llama-3.1-8b --rate 40 --confidence 95% --headroom n+1",
    ),
    "sweep": ("gpus", "./mine.yaml --out results", "quantisation --keep top-20 --report page.html"),
    "speculate": (
        "llama-3.1-70b --gpus 4 --draft llama-3.2-1b --acceptance 0.7",
        "llama-3.1-8b --draft eagle --tree 3,2,1 --acceptance 0.7",
        "deepseek-v3 --gpus 8 --gpu h200-sxm --draft mtp --acceptance 0.85",
    ),
    "disaggregate": (
        "llama-3.1-70b --prefill tp4 --decode tp8 --gpus 32",
        "llama-3.1-70b --prefill tp2 --decode tp4 --decode-gpu h200-sxm",
        "deepseek-v3 --gpu h200-sxm --prefill dp8-ep8 --decode dp16-ep16",
    ),
    "compare-measured": (
        "results.json --gpu h100-sxm --gpus 1",
        "runs/*.json --fail-above 20",
        "table.csv --report page.html",
    ),
    "serve-command": (
        "llama-3.1-70b --gpus 4 --for vllm",
        "deepseek-v3 --gpu h200-sxm --gpus 8 --for sglang",
        "llama-3.1-8b --for k8s",
    ),
    "calibrate": (
        "",
        "--backend cupy --budget 8min",
        "--from results.json --given gpu=h100-sxm,gpus=1",
        "--from-log vllm.log --given model=llama-3.1-8b,gpu=h100-sxm,gpus=1",
    ),
}
"""Arguments of examples, by command."""


def _group(name: str) -> str:
    return next((group for group, names in GROUPS.items() if name in names.split()), OTHERS)


class Command(typer.core.TyperCommand):
    """Command whose help has its options in groups, and examples below them."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the options group by group."""
        shown = [(each, each.get_help_record(ctx)) for each in self.get_params(ctx)]
        arguments = [text for each, text in shown if text and each.param_type_name == "argument"]
        options = [
            (each, text) for each, text in shown if text and each.param_type_name == "option"
        ]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        if len(options) <= ROUTINE:
            with formatter.section("Options"):
                formatter.write_dl([text for _, text in options])
            return
        for group in (*GROUPS, OTHERS):
            names = GROUPS.get(group, "").split()
            some = [(each.name, text) for each, text in options if _group(each.name) == group]
            if some:
                order = {name: place for place, name in enumerate(names)}
                some.sort(key=lambda one: order.get(one[0], len(order)))
                with formatter.section(group):
                    formatter.write_dl([text for _, text in some], col_max=34)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write examples and what the exit code says."""
        if examples := EXAMPLES.get(self.name or ""):
            with formatter.section("Examples"):
                for each in examples:  # in one line, to be copied
                    formatter.write(f"  {ctx.command_path} {each}".rstrip() + "\n")
        super().format_epilog(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_text("; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()))


class Commands(typer.core.TyperGroup):
    """Group of commands whose help says what each does in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each with its first sentence."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            first = (command.help or "").partition("\n\n")[0] if command is not None else ""
            rows.append((name, " ".join(first.split())))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def width() -> int:
    """Characters of a line of help: those of the terminal, or of a page where there is none. [1]"""
    return min(get_terminal_size().columns, WIDEST)
