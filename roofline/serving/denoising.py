"""A denoised batch as tables: what the command line prints and JSON carries."""

from roofline.serving.diffusion import Denoising
from roofline.serving.explain.parts import derived, given
from roofline.serving.tables import datasheet_row as _row
from roofline.table import Result, table
from roofline.units import show, show_binary


def result(made: Denoising, version: str) -> Result:
    """Headline, memory and derivation of a batch that is denoised."""
    deployment = made.deployment
    source = "LLaDA (arXiv 2502.09992); Block Diffusion (arXiv 2503.09573)"
    break_even = "a step must fill in to be as fast as decoding"
    rows = [
        _row("latency_s", made.latency_s, "s", "arrival to the last block"),
        _row("first_block_s", made.first_block_s, "s", "arrival to the first block, whole"),
        _row("prefill_s", made.prefill_s, "s", "keys and values of the prompt"),
        _row("step_s", made.step_s, "s", "mean denoising step"),
        _row("throughput_tok_s", made.throughput_tok_s, "token/s", "output tokens of the batch"),
        _row("tokens_per_step", made.tokens_per_step, "token", "filled in by a step, mean"),
        _row("autoregressive_s", made.autoregressive_s, "s", "the same network, token by token"),
        _row("speed_up", made.speed_up, "", "token by token over denoising"),
        _row("break_even_tokens_per_step", made.break_even_tokens_per_step, "token", break_even),
    ]
    faster = f"{made.speed_up:.2f} × as fast as" if made.speed_up >= 1 else "slower than"
    blocks = "1 block" if made.blocks == 1 else f"{made.blocks} blocks"
    held = "kept" if made.cached else "not kept: every step computes the whole sequence"
    fits = made.memory.fits
    seen = ("The network is causal, and priced as if it saw both ways.",) if made.causal else ()
    summary = (
        f"{'Fits' if fits else 'Does not fit'} on each device: "
        f"{show_binary(abs(made.memory.free))} {'to spare' if fits else 'too much'}.",
        f"{made.steps} steps over {blocks} of {made.block} tokens are {faster} "
        f"decoding token by token ({show(made.latency_s, 's')} against "
        f"{show(made.autoregressive_s, 's')}).",
    )
    latency = derived(
        "latency",
        made.latency_s,
        "s",
        "prefill + steps · mean step",
        [
            given("prefill", made.prefill_s, "s", source),
            given("mean step", made.step_s, "s", source),
        ],
        {"steps": made.steps},
        source=source,
        basis="datasheet",
    )
    return Result(
        kind="analyze",
        tables={"headline": table(rows, {})},
        derivations={"latency": latency},
        notes=(
            "Times are the datasheet roofline: the least the hardware allows, not a forecast.",
            f"Keys and values of prompt and finished blocks are {held}. How many tokens a step may "
            "fill in without loss is a question of quality, which is out of scope.",
            *seen,
            *deployment.precision.notes,
            *deployment.architecture.notes,
        ),
        metadata={
            "version": version,
            "model": deployment.architecture.name,
            "gpu": deployment.node.gpu.name,
            "gpu_title": deployment.node.gpu.title,
            "gpus": deployment.devices,
            "tp": int(deployment.tp),
            "weights": deployment.precision.weights.name,
            "kv": deployment.precision.kv.name,
            "batch": made.batch,
            "prompt": made.prompt,
            "output": made.output,
            "denoising_steps": made.steps,
            "block": made.block,
            "convention": "engine",
            "basis": "datasheet",
            "fits": fits,
            "summary": summary,
        },
    )
