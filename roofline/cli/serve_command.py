"""``roofline serve-command``: a deployment as a command of a serving engine."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli import options
from roofline.cli.render import Format, echo, print_json, print_rows, say

if TYPE_CHECKING:
    from roofline.table import Result


class Target(StrEnum):
    """What the command is written for."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    LLAMACPP = "llamacpp"
    K8S = "k8s"
    RAY_SERVE = "ray-serve"


class Served(StrEnum):
    """Engine inside of a manifest."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    LLAMACPP = "llamacpp"


class Draft(StrEnum):
    """What drafts tokens."""

    MTP = "mtp"
    EAGLE = "eagle"
    NGRAM = "ngram"
    MODEL = "model"


def serve_command(
    context: typer.Context,
    model: options.Model = "llama-3.1-8b",
    gpu: options.Gpu = None,
    target: Annotated[
        list[Target] | None,
        typer.Option("--for", help="What to write; more than one may be given. vllm if none is."),
    ] = None,
    engine: Annotated[
        Served | None, typer.Option(help="Engine inside of k8s; else that of --for.")
    ] = None,
    node: options.Node = None,
    gpus: options.Gpus = None,
    layout: Annotated[str, typer.Option(help="Degrees together, like tp8-pp2.")] = "",
    tp: options.Tp = None,
    pp: options.Pp = None,
    ep: options.Ep = None,
    dp: options.Dp = None,
    cp: options.Cp = None,
    stages: options.Stages = "",
    weights: options.Weights = None,
    kv: options.Kv = "auto",
    cuda_graphs: options.CudaGraphs = True,
    memory_utilization: options.MemoryUtilization = None,
    max_sequences: Annotated[
        int | None, typer.Option(help="Sequences that run at once, of a replica.")
    ] = None,
    max_context: Annotated[
        int | None, typer.Option(help="Longest sequence; else the network's, or what fits of it.")
    ] = None,
    token_budget: Annotated[
        int | None, typer.Option(help="New tokens of a step, of a replica.")
    ] = None,
    chunked_prefill: Annotated[
        bool,
        typer.Option("--chunked-prefill/--no-chunked-prefill", help="Cut prompts to fill a step."),
    ] = True,
    prefix_caching: Annotated[
        bool,
        typer.Option("--prefix-caching/--no-prefix-caching", help="Keep equal prefixes once."),
    ] = True,
    offload_weights: Annotated[
        float, typer.Option(help="Share of the layers kept on the host, 0 to 1.")
    ] = 0.0,
    draft: Annotated[Draft | None, typer.Option(help="What drafts tokens, if anything.")] = None,
    draft_tokens: Annotated[int, typer.Option(help="Tokens drafted in a row.")] = 3,
    draft_model: Annotated[
        str, typer.Option(help="Checkpoint of the draft, for eagle and model.")
    ] = "",
    prompt: options.Prompt = 2048,
    output: options.Output = 256,
    concurrency: Annotated[int, typer.Option(help="Requests at once in the benchmark.")] = 16,
    port: Annotated[int, typer.Option(help="Where the server listens.")] = 8000,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Write a deployment as a command of a serving engine, with the benchmark that measures it.

    What an engine cannot be told is said on stderr. Exits with 1 if no cache fits.
    """
    from roofline import api
    from roofline.cli.inputs import asked

    question = asked(context, "target", "draft")
    results = [
        api.serve_command(target=each.value, draft=draft.value if draft else "", **question)
        for each in target or [Target.VLLM]
    ]
    if format_ is Format.JSON:
        commands = [{**result.metadata, "notes": list(result.notes)} for result in results]
        print_json("serve-command", {"commands": commands})
        return
    if format_ is Format.CSV:
        rows = [row for result in results for row in _rows(result)]
        print_rows(rows, ["target", "part", "text"], format_)
    else:
        echo("\n\n".join(_text(result, format_) for result in results))
    for result in results:
        which = f"{result.metadata['target']}: " if len(results) > 1 else ""
        for note in result.notes:
            say(f"note: {which}{note}")


def _rows(result: "Result") -> list[list[str]]:
    meta = result.metadata
    files = [[meta["target"], name, text] for name, text in meta["files"].items()]
    return [
        *files,
        [meta["target"], "script", meta["script"]],
        [meta["target"], "benchmark", meta["benchmark"]],
    ]


def _text(result: "Result", style: Format) -> str:
    """The script and its benchmark; of a manifest the file, and the rest as comments."""
    from roofline.interop.commands.command import commented

    meta = result.metadata
    what = f"{meta['model']} on {meta['gpus']} × {meta['gpu_title']}"
    head = commented(f"{meta['title']}: {what}")
    if meta["target"] in (Target.K8S, Target.RAY_SERVE):
        (text,) = meta["files"].values()
        after = commented(f"{' '.join(meta['command'])}\n\nbenchmark:\n{meta['benchmark']}")
        body, kind = f"{head}\n{text.rstrip()}\n{after}", "yaml"
    else:
        body, kind = f"{head}\n{meta['script']}\n\n# benchmark\n{meta['benchmark']}", "bash"
    if style is not Format.MD:
        return body
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}{kind}\n{body}\n{fence}"
