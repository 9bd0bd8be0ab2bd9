"""Help of the commands: options in groups, examples, as wide as the terminal."""

import re
from collections.abc import Mapping
from shutil import get_terminal_size
from typing import Any, Final

import typer.core

from roofline.errors import EXIT_CODES

WIDEST: Final = 120
"""Characters of a line of help, beyond which it is hard to read. [1]"""
ROUTINE: Final = 10
"""Options up to which they need no groups. [1]"""
FIRST: Final = 8
"""Options that people use first. [1]"""
WIDE: Final = 30
"""Characters of values that stand beside the name of an option; more are told in its text. [1]"""
COMMON: Final[tuple[str, ...]] = (
    *("with_", "prefill", "decode", "target", "gpu", "gpus", "batch", "rate", "prompt", "output"),
    *("weights", "slo", "concurrency", "workload", "draft", "acceptance", "kv", "layout"),
)
"""Options that people use first, those of all commands: of these a command shows its first ones
before all groups."""
GROUPS: Final[Mapping[str, str]] = {
    "Parallelism": "layout node tp pp ep dp cp sp stages prefill_replicas microbatches "
    "ring_attention overlap two_batch objective top over overlapped decode_gpu decode_node encode "
    "encode_gpu ffn ffn_gpu ffn_over disaggregated length_pools ffn_pools encoder_pools",
    "Formats": "weights kv draft_weights",
    "Model and kernels": "mla routing_skew expert_loads redundant_experts attention split_kv "
    "sram fusion mask kv_cache offload_weights offload_kv offload_to prefetch convention "
    "calibration",
    "Traffic": "rate concurrency workload slo trace trace_sessions drop_over_length clip "
    "rate_curve sessions_per_day cv requests warmup seed length_spread ramp_up prompt_pool harness "
    "prefill_batch prefix_hit images image_size recordings recording_s characters_per_token cold "
    "timeout static",
    "Engine": "engine engine_version cuda_graphs memory_utilization max_sequences max_context "
    "token_budget chunked_prefill prefix_caching policy first admission preemption contiguous "
    "host_cache nvme_cache cache_pool cache_curve recv_interval stream_interval dp_timeout_iters "
    "beside router workers page reserved profile port",
    "Decoding": "samples beams temperature top_k top_p denoising_steps block",
    "LoRA adapters": "adapters lora_rank lora_targets max_loras adapter_skew",
    "Drafts": "draft acceptance acceptance_spread draft_length draft_tokens draft_model draft_tp "
    "length tree tokens",
    "Cost": "price reserved_price power budget_per_hour job within scaling pue usd_per_kwh carbon "
    "own years training_tokens headroom confidence what_if intervals",
}
"""Options by group, in the order of the help; those of no group are under `OTHERS`."""
OTHERS: Final = "Output"
COMMAND_GROUPS: Final[Mapping[str, str]] = {
    "Deployments": "analyze compare layouts disaggregate speculate paging",
    "Traffic": "simulate plan",
    "Sweeps and pages": "sweep report schema",
    "Measurements": "compare-measured scoreboard calibrate validate bench",
    "Engine commands": "serve-command parse-command",
    "Catalog and machine": "gpus models doctor",
}
"""Commands by group, in the order of the help."""
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
        "llama-3.1-8b --draft eagle --tree 2,1 --acceptance 0.6+0.1,0.6",
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
    "scoreboard": (
        "",
        "rows.csv --where gpu=h100_sxm",
        "rows.csv --cross-validate --report p.html",
    ),
    "paging": (
        "llama-3.1-8b --gpu l40s",
        "llama-3.1-70b --gpus 4 --prompt 8k --output 1k",
        "qwen3-32b --page 64 --samples 4",
    ),
    "report": ("results/result.parquet", "plan.json --out plan.html", "a.parquet b.parquet"),
    "parse-command": (
        "'vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 128'",
        "'python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8'",
        "- < start.sh",
    ),
    "schema": ("", "> scenario.schema.json"),
    "validate": (
        "gemm.csv --kind gemm",
        "moe.parquet --kind moe --where gpu=h100_sxm --by gpu,dtype",
        "served.csv --kind e2e --cross-validate --report page.html",
    ),
    "doctor": ("", "--gpu h100-sxm", "--need gpu"),
    "gpus": ("", "show h100-sxm", "--format csv"),
    "gpus show": ("h100-sxm", "mi300x --format json", "./mine.yaml"),
    "models": ("", "show deepseek-v3", "| grep qwen"),
    "models fetch": ("Qwen/Qwen3-8B-FP8",),
    "models show": ("deepseek-v3", "./config.json", "meta-llama/Llama-3.1-8B --kv fp8"),
    "bench": ("list", "run gemm-bf16 --budget 90s --records run", "fit run"),
    "bench list": ("", "--format csv"),
    "bench run": ("", "gemm-bf16 copy --budget 90s", "--backend cupy --records run"),
    "bench fit": ("run", "run.tgz --out mine.zip"),
    "bench export": ("run gemm.csv --kind gemm",),
}
"""Arguments of examples, by command."""


_HYPHEN: Final = "\N{NON-BREAKING HYPHEN}"
"""In place of hyphens while lines are broken."""


def _whole(formatter: Any) -> Any:
    """Formatter of help that breaks no name at a hyphen, made of Typer's."""

    class Whole(formatter):  # type: ignore[misc]  # its class is known at run time
        def write_text(self, text: str) -> None:
            super().write_text(text.replace("-", _HYPHEN))

        def write_dl(self, rows: Any, *sizes: Any, **named: Any) -> None:
            rows = [(name, text.replace("-", _HYPHEN)) for name, text in rows]
            super().write_dl(rows, *sizes, **named)

        def getvalue(self) -> str:
            text: str = super().getvalue()
            return text.replace(_HYPHEN, "-")

    return Whole


class _ExampleHelp:
    """Help that ends with examples and exit codes, and breaks no name."""

    def get_help(self, ctx: Any) -> str:
        """Help as it is printed."""
        ctx.formatter_class = _whole(ctx.formatter_class)
        text: str = super().get_help(ctx)  # type: ignore[misc]  # of Typer's class beside this one
        return text

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write examples, what else is to be said, and what the exit code says."""
        if (examples := EXAMPLES.get(ctx.command_path.partition(" ")[2])) is not None:
            with formatter.section("Examples"):
                for each in examples:
                    for line in example_lines(f"{ctx.command_path} {each}", formatter.width):
                        formatter.write(line + "\n")
        super().format_epilog(ctx, formatter)  # type: ignore[misc]  # as above
        with formatter.section("Exit codes"):
            formatter.write_text("; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()))


class GroupedCommand(_ExampleHelp, typer.core.TyperCommand):
    """Command whose help has its options in groups, and examples below them."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the options group by group."""
        shown = [(each, _record(each, ctx)) for each in self.get_params(ctx)]
        kinds = ("argument", "option")
        arguments, options = (
            {each.name: text for each, text in shown if text and each.param_type_name == kind}
            for kind in kinds
        )
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(list(arguments.values()))
        if len(options) <= ROUTINE:
            with formatter.section("Options"):
                formatter.write_dl(list(options.values()))
            return
        groups = {"Common": [name for name in COMMON if name in options][:FIRST]}
        left = [name for name in options if name not in groups["Common"]]
        for group, names in GROUPS.items():
            groups[group] = [name for name in names.split() if name in left]
        told = {name for names in groups.values() for name in names}
        groups[OTHERS] = [name for name in left if name not in told]
        for group, some in groups.items():
            if some:
                with formatter.section(group):
                    formatter.write_dl([options[name] for name in some], col_max=34)


class CommandGroup(_ExampleHelp, typer.core.TyperGroup):
    """Group of commands whose help says what each does in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each with its first sentence."""
        rows = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            first = (command.help or "").partition("\n\n")[0] if command is not None else ""
            rows[name] = " ".join(first.split())
        across = max(map(len, rows), default=0)
        grouped = {
            group: [(name, rows.pop(name)) for name in names.split() if name in rows]
            for group, names in COMMAND_GROUPS.items()
            if ctx.parent is None
        } | {"Commands": list(rows.items())}
        for group, some in grouped.items():
            if some:
                with formatter.section(group):
                    formatter.write_dl([(name.ljust(across), text) for name, text in some])


def example_lines(command: str, room: int) -> list[str]:
    r"""Lines of an example as a shell takes them, broken before options.

    >>> example_lines("roofline analyze llama-3.1-8b --gpus 2", 33)
    ['  roofline analyze llama-3.1-8b \\', '    --gpus 2']
    """
    lines = ["  " + command.rstrip()]
    while len(lines[-1]) > room and (at := lines[-1].rfind(" --", 4, room + 1)) > 0:
        lines[-1:] = [lines[-1][:at] + " \\", "    " + lines[-1][at + 1 :]]
    return lines


def _record(parameter: Any, ctx: Any) -> tuple[str, str] | None:
    """Name and meaning of a parameter; types in plain words, many values in its text."""
    if (record := parameter.get_help_record(ctx)) is None:
        return None
    names, text = record
    names = re.sub(r"<list\[([^]]*)\]>", lambda found: f"<{found[1].lower()}>", names)
    names = names.replace("<int range>", "<int>").replace("<float range>", "<float>")
    found = re.search(r"<([^<>]*\|[^<>]*)>", names)
    if found and len(found[0]) > WIDE:
        names = names.replace(found[0], "<word>")
        said, gap, rest = text.partition("  [")
        text = f"{said} One of {found[1].replace('|', ', ')}.{gap}{rest}"
    text = re.sub(r"\[default: \((.*?)\)\]", r"[default: \1]", text)
    return names, text


def width() -> int:
    """Characters of a line of help: those of the terminal, or of a page where there is none. [1]"""
    return min(get_terminal_size().columns, WIDEST)
