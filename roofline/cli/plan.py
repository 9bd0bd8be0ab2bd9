"""``roofline plan``: the cheapest deployments that keep an SLO under traffic."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from roofline.cli import completing, options
from roofline.cli.page import write_page
from roofline.cli.render import Format, print_json


def plan(
    context: typer.Context,
    model: options.Model = "llama-3.1-8b",
    gpu: Annotated[
        list[str] | None,
        typer.Option(
            help="GPU by name, or a YAML file; several times to choose among them.",
            show_default="h100-sxm",
            autocompletion=completing.gpus,
        ),
    ] = None,
    gpus: Annotated[int, typer.Option(help="Most devices.")] = 8,
    workload: options.Workload = "",
    trace: options.Trace = "",
    rate: Annotated[float | None, typer.Option(help="Requests a second.")] = None,
    cv: options.Cv = None,
    prompt: options.Prompts = None,
    output: options.Answers = None,
    requests: Annotated[
        int | None, typer.Option(help="Requests that a plan is confirmed with.")
    ] = None,
    warmup: options.Warmup = None,
    slo: options.Promises = None,
    headroom: Annotated[
        str,
        typer.Option(help="Share by which traffic may grow: 30%; or replicas to spare: n+1."),
    ] = "0%",
    confidence: Annotated[
        str, typer.Option(help="Least probability that all limits hold; 0% for what is expected.")
    ] = "90%",
    seed: options.Seed = 0,
    node: options.Node = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(help="Number format of the weights; several times to choose among them."),
    ] = None,
    kv: Annotated[
        list[str] | None,
        typer.Option(help="Number format of the KV cache; several times to choose among them."),
    ] = None,
    engine: options.Engine = "vllm",
    calibration: options.Calibrated = "auto",
    disaggregated: Annotated[
        bool,
        typer.Option(
            "--disaggregated/--aggregated",
            help="Let prefill and decode have GPUs of their own, or not.",
        ),
    ] = True,
    draft: options.Draft = "",
    acceptance: options.Acceptance = "",
    draft_length: options.DraftLength = 0,
    mla: options.MlaOf = options.Mla.AUTO,
    routing_skew: options.RoutingSkew = 0.0,
    expert_loads: options.ExpertLoads = None,
    overlap: options.Overlap = 0.0,
    cuda_graphs: options.CudaGraphs = True,
    memory_utilization: options.MemoryUtilization = None,
    price: Annotated[
        list[float] | None,
        typer.Option(help="Dollars for a device and hour; one, or one for each --gpu."),
    ] = None,
    training_tokens: Annotated[
        str | None, typer.Option(help="Tokens it was trained on, like 15T, to compare with.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(help="Derive gpus, price, cost, capacity, headroom.")
    ] = None,
    report: options.Report = None,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Find the cheapest deployment that carries traffic and keeps an SLO.

    Exits with 1 if nothing fits, and says which relaxations would help.
    """
    import time

    from roofline import api
    from roofline.cli.answer import print_derivation
    from roofline.cli.inputs import asked, tokens
    from roofline.cli.planned import print_plan, to_json
    from roofline.study.plan.explain import check
    from roofline.units import counted

    if explain is not None:
        check(explain)
    began = time.monotonic()
    result = api.plan(
        **asked(context, "kv", "training_tokens"),
        kv=kv or "auto",
        training_tokens=tokens("--training-tokens", training_tokens),
        progress=_progress(),
    )
    meta = result.metadata
    typer.echo(
        f"{counted(meta['layouts'], 'layout')} bounded, {meta['curves']:,} curves, "
        f"{meta['tabulated']:,} tabulated, "
        f"{counted(meta['simulated'], 'run')} simulated in {time.monotonic() - began:.1f} s",
        err=True,
    )
    derivation = api.explain(result, explain) if explain else None
    write_page(context, result, report)
    if format_ is Format.JSON:
        print_json("plan", to_json(result, derivation), result.notes)
    elif derivation is not None:
        print_derivation(derivation)
    else:
        print_plan(result, format_)
    if not result.metadata["fits"]:
        raise typer.Exit(1)


def _progress() -> Callable[[str], None]:
    """Tell on stderr what is being done; on a terminal in one line."""
    from roofline.cli.render import WIDTH, clean

    terminal = sys.stderr.isatty()

    def tell(what: str) -> None:
        if terminal:
            sys.stderr.write(f"\r{clean(what)[: WIDTH - 1]:<{WIDTH - 1}}\r")
            sys.stderr.flush()

    typer.echo("planning (the first run on a machine compiles the simulator)", err=True)
    return tell
