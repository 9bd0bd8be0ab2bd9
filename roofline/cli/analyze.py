"""``roofline analyze``: what a deployment costs, what binds it, and why."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.render import Format, clean, echo, print_json, print_rows, wrap

if TYPE_CHECKING:
    from roofline.table import Derivation, Result, Table


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
        memory_utilization=memory_utilization,
        usd_per_hour=price,
    )
    derivation = api.explain(result, explain) if explain else None
    if report is not None:
        from roofline import report as page

        page.write(result, report)
        typer.echo(f"wrote {clean(str(report))}", err=True)
    if format_ is Format.JSON:
        print_json("analyze", _json(result, derivation), result.notes)
    elif derivation is not None:
        _print_derivation(derivation)
    else:
        _print(result, format_)
    if not result.metadata["fits"]:
        raise typer.Exit(1)


def _json(result: "Result", derivation: "Derivation | None") -> dict[str, Any]:
    metrics = {
        row["metric"]: {key: value for key, value in row.items() if key != "metric"}
        for row in result.tables["headline"].rows()
    }
    out: dict[str, Any] = {**result.metadata, "metrics": metrics}
    for name, entry in result.tables.items():
        if name != "headline":
            out[name] = list(entry.rows())
    if derivation is not None:
        out["derivation"] = derivation.to_json()
    return out


LABELS = {
    "ttft_s": "TTFT",
    "ttft_mean_s": "TTFT, mean",
    "tpot_s": "TPOT",
    "latency_s": "latency",
    "throughput_tok_s": "throughput",
    "throughput_tok_s_per_gpu": "throughput per GPU",
    "user_tok_s": "speed per user",
    "joule_per_mtok": "energy",
    "usd_per_mtok": "cost",
    "kv_bytes_per_token": "KV cache per token",
    "kv_bytes": "KV cache",
    "weight_bytes": "weights",
    "memory_bytes": "memory",
}


def _print(result: "Result", style: Format) -> None:
    meta, tables = result.metadata, result.tables
    if style is Format.TABLE:
        lengths = f"{meta['prompt']}" + (f" → {meta['output']}" if "output" in meta else "")
        echo(wrap(f"{meta['model']} on {meta['gpus']} × {meta['gpu_title']}"))
        echo(
            wrap(
                f"{meta['weights']} weights, {meta['kv']} KV cache, batch {meta['batch']}, "
                f"{lengths} tokens, {meta['convention']} convention"
            )
        )
        echo("")
        for sentence in meta["summary"]:
            echo(wrap(sentence))
        if meta["summary"]:
            echo("")
    _print_headline(tables["headline"], style)
    if style is Format.CSV:
        return
    if "memory" in tables:
        _print_memory(tables["memory"], tables["capacity"], style)
    if "ops" in tables:
        for phase in ("prefill", "decode"):
            _print_ops(tables["ops"], phase, style)
    for note in result.notes:
        echo(wrap(note, "note: ") if style is Format.TABLE else f"- {clean(note)}")


def _print_headline(headline: "Table", style: Format) -> None:
    from roofline.units import show

    if style is Format.CSV:
        rows = [[str(value) for value in row.values()] for row in headline.rows()]
        print_rows(rows, list(headline.columns), style)
        return
    bounded = "serial" in headline.columns
    rows = []
    for row in headline.rows():
        cells = [
            LABELS.get(row["metric"], row["metric"]),
            _quantity(row["value"], row["unit"], show),
        ]
        if bounded:
            cells.append(_quantity(row["serial"], row["unit"], show))
        rows.append([*cells, row["basis"], row["meaning"]])
    header = ["", "overlap", "no overlap"] if bounded else ["", "value"]
    print_rows(rows, [*header, "basis", "what it is"], style, "What users feel" if bounded else "")


def _quantity(value: float, unit: str, show: Any) -> str:
    if unit == "$":
        return f"{value:,.3f} $"
    if unit == "token/s":
        return f"{value:,.0f} tok/s" if value >= 100 else f"{value:.3g} tok/s"
    if unit in ("parameter", "token"):
        return f"{value:,.0f} {unit}{'' if value == 1 else 's'}"
    return str(show(value, unit))


def _print_memory(memory: "Table", capacity: "Table", style: Format) -> None:
    from roofline.units import show_binary

    rows = [
        [row["part"], show_binary(row["bytes"]), f"{row['share']:.1%}", row["known"]]
        for row in memory.rows()
        if row["bytes"]
    ]
    print_rows(rows, ["", "each device", "share", "known"], style, "Memory")
    rows = [
        [row["limit"], f"{row['value']:,}", row["unit"], row["at"], row["set by"]]
        for row in capacity.rows()
    ]
    print_rows(rows, ["", "most", "of", "at", "set by"], style, "Room")


def _print_ops(ops: "Table", phase: str, style: Format) -> None:
    from roofline.units import show, significant

    rows = [
        [
            row["op"],
            str(row["repeat"]),
            show(row["seconds"], "s"),
            f"{row['share']:.1%}",
            row["bound"],
            show(row["flops"], "FLOP") if row["flops"] else "",
            show(row["hbm_bytes"], "B") if row["hbm_bytes"] else "",
            significant(row["intensity"]) if row["intensity"] else "",
        ]
        for row in ops.rows()
        if row["phase"] == phase
    ]
    if rows:
        header = ["", "times", "time", "share", "bound", "FLOPs", "memory traffic", "FLOP/B"]
        title = "Prefill step" if phase == "prefill" else "Decode step, mean over the answer"
        print_rows(rows, header, style, f"{title}, each device")


def _print_derivation(derivation: "Derivation", depth: int = 0) -> None:
    from roofline.units import show, show_binary

    pad = "  " * depth
    value = (
        show_binary(derivation.value)
        if derivation.unit == "B" and depth == 0
        else _quantity(derivation.value, derivation.unit, show)
        if derivation.unit
        else f"{derivation.value:,.10g}"
    )
    line = f"{derivation.name} = {value}"
    if derivation.basis and not derivation.formula:
        line += f"  [{derivation.basis}]"
    echo(clean(pad + line))
    for mark, text in (
        ("=", derivation.formula),
        ("=", derivation.substituted),
        ("from", derivation.source),
        ("note:", derivation.note),
    ):
        if text:
            echo(wrap(text, f"{pad}    {mark} "))
    for entry in derivation.inputs:
        _print_derivation(entry, depth + 1)
