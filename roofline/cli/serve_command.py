"""``roofline serve-command``: a deployment as a command of a serving engine."""

from enum import StrEnum
from typing import Annotated

import typer

from roofline import api
from roofline.api.parameters import ServeCommandQuestion
from roofline.cli import options
from roofline.cli.render import OutputFormat, echo, print_json, print_rows, say
from roofline.table import Result


class Target(StrEnum):
    """Engine or platform that the command is for."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    LLAMACPP = "llamacpp"
    K8S = "k8s"
    RAY_SERVE = "ray-serve"
    DYNAMO = "dynamo"
    LLM_D = "llm-d"
    AUTO = "auto"


@options.takes(ServeCommandQuestion, pages=False)
def serve_command(
    context: typer.Context,
    target: Annotated[
        list[Target] | None,
        typer.Option(
            "--for",
            help="What to write; more than one may be given. By default the --engine, or vllm.",
        ),
    ] = None,
) -> None:
    """Write a deployment as a command of a serving engine, with the benchmark that measures it.

    What an engine cannot be told is said on stderr. Exits with 1 if no cache fits.
    """
    from roofline.cli.inputs import asked

    question, format_ = asked(context, ServeCommandQuestion), context.params["format_"]
    targets = [each.value for each in target or ()] or [""]
    results = [api.serve_command(**question | {"target": each}) for each in targets]
    if format_ is OutputFormat.JSON:
        commands = [{**result.metadata, "notes": list(result.notes)} for result in results]
        print_json("serve-command", {"commands": commands})
        return
    if format_ is OutputFormat.CSV:
        rows = [row for result in results for row in _rows(result)]
        print_rows(rows, ["target", "part", "text"], format_)
    else:
        echo("\n\n".join(_text(result, format_) for result in results))
    for result in results:
        which = f"{result.metadata['target']}: " if len(results) > 1 else ""
        for note in result.notes:
            say(f"note: {which}{note}")


def _rows(result: Result) -> list[list[str]]:
    meta = result.metadata
    files = [[meta["target"], name, text] for name, text in meta["files"].items()]
    return [
        *files,
        [meta["target"], "script", meta["script"]],
        [meta["target"], "benchmark", meta["benchmark"]],
    ]


def _text(result: Result, style: OutputFormat) -> str:
    """The script and its benchmark; of a manifest the file, and the rest as comments."""
    from roofline.interop.commands.command import commented

    meta = result.metadata
    what = f"{meta['model']} on {meta['gpus']} × {meta['gpu_title']}"
    head = commented(f"{meta['title']}: {what}")
    if meta["target"] in (Target.K8S, Target.RAY_SERVE, Target.DYNAMO, Target.LLM_D):
        (text,) = meta["files"].values()
        after = commented(f"{' '.join(meta['command'])}\n\nbenchmark:\n{meta['benchmark']}")
        body, kind = f"{head}\n{text.rstrip()}\n{after}", "yaml"
    else:
        body, kind = f"{head}\n{meta['script']}\n\n# benchmark\n{meta['benchmark']}", "bash"
    if style is not OutputFormat.MD:
        return body
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}{kind}\n{body}\n{fence}"
