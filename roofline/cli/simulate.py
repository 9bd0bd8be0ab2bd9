"""``roofline simulate``: what users of a deployment feel when requests come as they do."""

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from roofline.cli import options
from roofline.cli.page import write_page
from roofline.cli.render import Format, clean, print_json
from roofline.cli.simulated import print_run, to_json


class Policy(StrEnum):
    """How steps are filled."""

    STATIC = "static"
    PACKED = "packed"
    DYNAMIC = "dynamic"
    CONTINUOUS = "continuous"
    CHUNKED = "chunked"


class First(StrEnum):
    """What fills a step first."""

    DECODE = "decode"
    PREFILL = "prefill"


class Preemption(StrEnum):
    """What happens to a sequence for which there is no memory."""

    RECOMPUTE = "recompute"
    SWAP = "swap"


def simulate(
    context: typer.Context,
    model: options.Model = "llama-3.1-8b",
    gpu: options.Gpu = None,
    workload: options.Workload = "",
    trace: options.Trace = "",
    rate: Annotated[float | None, typer.Option(help="Requests a second, in an open loop.")] = None,
    cv: options.Cv = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Clients that ask again when answered, in place of a rate.")
    ] = None,
    prompt: options.Prompts = None,
    output: options.Answers = None,
    requests: Annotated[int | None, typer.Option(help="Requests to send.")] = None,
    warmup: options.Warmup = None,
    length_spread: Annotated[
        float | None,
        typer.Option(help="Share that lengths vary by to either side: 0.1; 0 for equal ones."),
    ] = None,
    ramp_up: Annotated[
        float | None, typer.Option(help="Seconds over which clients start; 0 for all at once.")
    ] = None,
    prompt_pool: Annotated[
        int | None, typer.Option(help="Different prompts that are sent in turn, so prefixes hit.")
    ] = None,
    slo: options.Promises = None,
    seed: options.Seed = 0,
    policy: Annotated[
        Policy | None, typer.Option(help="How steps are filled; else as the engine does.")
    ] = None,
    first: Annotated[
        First | None, typer.Option(help="What fills a step first; else as the engine does.")
    ] = None,
    max_sequences: Annotated[int | None, typer.Option(help="Sequences that run at once.")] = None,
    token_budget: Annotated[
        int | None, typer.Option(help="New tokens of a step; 0 for no limit.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a dynamic batch waits for others.")
    ] = 0.0,
    preemption: Annotated[
        Preemption, typer.Option(help="What becomes of a sequence without memory.")
    ] = Preemption.RECOMPUTE,
    recv_interval: Annotated[
        int, typer.Option(help="Decode steps between looks at new requests, as SGLang counts them.")
    ] = 1,
    stream_interval: Annotated[
        int, typer.Option(help="Tokens of an answer that the server sends together.")
    ] = 1,
    cold: Annotated[
        bool, typer.Option("--cold", help="The server has just started: its first prompts wait.")
    ] = False,
    contiguous: Annotated[
        bool, typer.Option("--contiguous", help="A region for the longest request each, no pages.")
    ] = False,
    prefix_caching: Annotated[
        bool | None,
        typer.Option("--prefix-caching/--no-prefix-caching", help="Keep equal prefixes once."),
    ] = None,
    host_cache: Annotated[
        str, typer.Option(help="Host memory of a replica for prefixes that leave the GPU: 256GB.")
    ] = "0 B",
    draft: options.Draft = "",
    acceptance: options.Acceptance = "",
    draft_length: options.DraftLength = 0,
    node: options.Node = None,
    gpus: options.Gpus = None,
    layout: options.LayoutOf = "",
    tp: options.Tp = None,
    pp: options.Pp = None,
    ep: options.Ep = None,
    dp: options.Dp = None,
    cp: options.Cp = None,
    weights: options.Weights = None,
    kv: options.Kv = "auto",
    engine: options.Engine = "vllm",
    calibration: options.Calibrated = "auto",
    profile: Annotated[
        Path | None,
        typer.Option(help="Constants of the engine, as calibrate --from learns them."),
    ] = None,
    mla: options.MlaOf = options.Mla.AUTO,
    routing_skew: options.RoutingSkew = 0.0,
    expert_loads: options.ExpertLoads = None,
    overlap: options.Overlap = 0.0,
    cuda_graphs: options.CudaGraphs = True,
    memory_utilization: options.MemoryUtilization = None,
    price: options.Price = None,
    intervals: Annotated[
        bool,
        typer.Option("--intervals/--no-intervals", help="Say how sure it is: seven runs in all."),
    ] = True,
    out: Annotated[
        Path | None, typer.Option(help="Write every request here: .parquet or .csv.")
    ] = None,
    timeline: Annotated[
        Path | None, typer.Option(help="Write a trace for Perfetto or chrome://tracing here.")
    ] = None,
    report: options.Report = None,
    format_: options.FormatOf = Format.TABLE,
) -> None:
    """Simulate traffic: TTFT, TPOT and latency by percentile, promises, queue, cache, price.

    Exits with 1 if it is overloaded, or if a promise given with --slo is broken.
    """
    from roofline import api
    from roofline.cli import requests_out
    from roofline.cli.inputs import asked

    if out is not None:
        requests_out.check(out)
    if timeline is not None:
        requests_out.check_folder(timeline)
    result = api.simulate(
        **asked(context, "profile", "intervals", "out", "timeline"),
        profile=profile or "",
        with_intervals=intervals,
        with_requests=out is not None or timeline is not None,
        progress=_progress(),
    )
    if out is not None:
        requests_out.write_requests(result.tables["requests"], out)
        typer.echo(f"wrote {clean(str(out))}", err=True)
    if timeline is not None:
        requests_out.write_timeline(result.tables["requests"], timeline)
        typer.echo(f"wrote {clean(str(timeline))}", err=True)
    write_page(context, result, report)
    if format_ is Format.JSON:
        print_json("simulate", to_json(result), result.notes)
    else:
        print_run(result, format_)
    broken = slo is not None and result.metadata["met"] is False
    if result.metadata["stable"] is False or broken:
        raise typer.Exit(1)


def _progress() -> Callable[[int, int], None]:
    """Tell on stderr how far a run is; on a terminal in one line."""
    from roofline.units import counted

    terminal = sys.stderr.isatty()
    typer.echo(
        "simulating (the first run on a machine compiles the simulator, about a minute)", err=True
    )

    def tell(done: int, whole: int) -> None:
        if terminal:
            sys.stderr.write(f"\r{done:,} of {whole:,} requests" + ("\n" if done >= whole else ""))
        elif done >= whole:
            typer.echo(f"{counted(done, 'request')} served", err=True)

    return tell
