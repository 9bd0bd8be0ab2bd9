"""``roofline analyze``: what a deployment costs, what binds it, and why."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from roofline.cli.answer import print_derivation, print_result, to_json
from roofline.cli.render import Format, clean, print_json


class Convention(StrEnum):
    """What is counted."""

    ENGINE = "engine"
    TEXTBOOK = "textbook"


class Attention(StrEnum):
    """How attention is run."""

    FLASH = "flash"
    NAIVE = "naive"


class Mask(StrEnum):
    """Pairs of query and key that count as work."""

    CAUSAL = "causal"
    SQUARE = "square"


class Mla(StrEnum):
    """Form of multi-head latent attention."""

    AUTO = "auto"
    EXPANDED = "expanded"
    ABSORBED = "absorbed"


class Calibration(StrEnum):
    """Where rates come from."""

    NONE = "none"


def analyze(
    model: Annotated[
        str, typer.Argument(help="Catalog name, hub id, config.json or its folder; - for stdin.")
    ] = "llama-3.1-8b",
    gpu: Annotated[str, typer.Option(help="GPU by name, or a YAML file.")] = "h100-sxm",
    gpus: Annotated[int | None, typer.Option(help="Devices in all; replicas beyond --tp.")] = None,
    tp: Annotated[int | None, typer.Option(help="Devices that share every layer.")] = None,
    batch: Annotated[int, typer.Option(help="Sequences decoded together.")] = 16,
    prefill_batch: Annotated[
        int, typer.Option(help="Prompts prefilled in one step; 0 for the whole batch.")
    ] = 0,
    prompt: Annotated[int, typer.Option(help="Tokens of each prompt.")] = 2048,
    prefix_hit: Annotated[
        float, typer.Option(help="Share of the prompt that is cached already, 0 to 1.")
    ] = 0.0,
    output: Annotated[int, typer.Option(help="Tokens of each answer.")] = 256,
    weights: Annotated[
        str | None,
        typer.Option(
            help="fp32, bf16, fp16, fp8, int8, int4, mxfp4, nvfp4; else the checkpoint's."
        ),
    ] = None,
    kv: Annotated[
        str, typer.Option(help="Number format of the KV cache: bf16, fp8, int8…; else as computed.")
    ] = "auto",
    engine: Annotated[str, typer.Option(help="vllm, trtllm, sglang, ideal.")] = "vllm",
    convention: Annotated[
        Convention, typer.Option(help="What an engine does, or published closed forms.")
    ] = Convention.ENGINE,
    calibration: Annotated[
        Calibration, typer.Option(help="Rates to use: none is the datasheet's.")
    ] = Calibration.NONE,
    kv_cache: Annotated[
        bool, typer.Option("--kv-cache/--no-kv-cache", help="Keep keys and values, or recompute.")
    ] = True,
    attention: Annotated[
        Attention, typer.Option(help="Fused, or with scores in device memory.")
    ] = Attention.FLASH,
    mask: Annotated[
        Mask, typer.Option(help="Pairs that count: what a causal kernel does, or the square.")
    ] = Mask.CAUSAL,
    mla: Annotated[
        Mla, typer.Option(help="Form of latent attention; auto takes the faster one.")
    ] = Mla.AUTO,
    routing_skew: Annotated[
        float, typer.Option(help="Power law of how tokens spread over experts; 0 is uniform.")
    ] = 0.0,
    expert_loads: Annotated[
        Path | None, typer.Option(help="YAML or JSON file with loads: [share of each expert].")
    ] = None,
    denoising_steps: Annotated[
        int, typer.Option(help="Steps of a diffusion language model; 0 decodes token by token.")
    ] = 0,
    block: Annotated[
        int, typer.Option(help="Tokens denoised together, with a cache; 0 for the whole answer.")
    ] = 0,
    memory_utilization: Annotated[
        float | None, typer.Option(help="Share of memory the engine takes; else its default.")
    ] = None,
    price: Annotated[
        float | None, typer.Option(help="Dollars for a device and hour; else the assumed one.")
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            help="Derive ttft, tpot, latency, throughput, memory, weights, kv, cost, energy, ridge."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report here.")] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Say what a static batch costs: memory, TTFT, TPOT, throughput, price, and what binds it."""
    del calibration  # the datasheet's rates are the only ones there are
    from roofline import api
    from roofline.cli.inputs import network, routing

    result = api.analyze(
        network(model),
        gpu,
        gpus=gpus,
        tp=tp,
        batch=batch,
        prefill_batch=prefill_batch,
        prompt=prompt,
        prefix_hit=prefix_hit,
        output=output,
        weights=weights,
        kv=kv,
        engine=engine,
        convention=convention.value,
        kv_cache=kv_cache,
        attention=attention.value,
        mask=mask.value,
        mla=mla.value,
        routing=routing(routing_skew, expert_loads),
        denoising_steps=denoising_steps,
        block=block,
        memory_utilization=memory_utilization,
        usd_per_hour=price,
    )
    derivation = api.explain(result, explain) if explain else None
    if report is not None:
        from roofline import report as page

        page.write(result, report)
        typer.echo(f"wrote {clean(str(report))}", err=True)
    if format_ is Format.JSON:
        print_json("analyze", to_json(result, derivation), result.notes)
    elif derivation is not None:
        print_derivation(derivation)
    else:
        print_result(result, format_)
    if not result.metadata["fits"]:
        raise typer.Exit(1)
