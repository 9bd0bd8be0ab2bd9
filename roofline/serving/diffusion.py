"""Diffusion language models: an answer is filled in by denoising steps, not token by token.

Symbols: B sequences, P prompt tokens, O answer tokens in O/b blocks of b, n steps for all of them;
t(T, S) is the time of a step of T new tokens of each sequence that see S tokens, all of them both
ways. A step computes logits of all its tokens: any of them may be the one to be filled in.
"""

from dataclasses import dataclass, field
from math import exp
from typing import Any

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.measured import GROUNDS
from roofline.cost.memory import MemoryBudget, budget
from roofline.cost.roof import StepTime
from roofline.cost.step import SequenceGroup, prefill
from roofline.cost.work import Array, Number
from roofline.errors import InputError
from roofline.records import replace
from roofline.serving.explain.parts import derived, given
from roofline.serving.quadrature import mean
from roofline.serving.rounds import verifying
from roofline.serving.stages import price_step
from roofline.serving.static import CENTRAL, check_context, static_batch
from roofline.serving.workload import Workload
from roofline.table import BASES, Result, table
from roofline.units import show, show_binary


@dataclass(frozen=True, slots=True)
class Denoising:
    """A batch of answers filled in by steps, beside the same network used token by token."""

    deployment: Deployment = field(repr=False)
    """Deployment whose network sees both ways."""
    batch: int
    prompt: int
    output: int
    steps: int
    block: int
    cached: bool
    """Arguments of `denoise`."""
    memory: MemoryBudget = field(repr=False)
    """Budget of one device."""
    prefill_s: float
    """Computing keys and values of the prompt, front end included; 0 at datasheet rates without a
    cache. [s]"""
    step_s: float
    """Mean denoising step. [s]"""
    first_block_s: float
    """Arrival to the end of the first block, whose tokens are there all at once. [s]"""
    latency_s: float
    """Arrival to the end of the last block. [s]"""
    token_s: float
    """Mean decode step of the autoregressive equivalent. [s]"""
    autoregressive_s: float
    """Its latency as a static batch: prefill, and a decode step for every further token. [s]"""
    log_sd: float
    autoregressive_log_sd: float
    """Log standard deviation of both latencies; 0 at datasheet rates. [1]"""
    basis: str
    """Basis of the time of a step, one of `roofline.table.BASES`."""
    causal: bool = False
    """Whether the network is made to see one way only."""

    @property
    def blocks(self) -> int:
        """Blocks of the answer. [1]"""
        return self.output // self.block

    @property
    def throughput_tok_s(self) -> float:
        """Output tokens of the batch over its latency. [token/s]"""
        return self.batch * self.output / self.latency_s

    @property
    def speed_up(self) -> float:
        """Latency of the autoregressive equivalent over that of denoising. [1]"""
        return self.autoregressive_s / self.latency_s

    @property
    def tokens_per_step(self) -> float:
        """Tokens of an answer that a step fills in, on average. [token]"""
        return self.output / self.steps

    @property
    def break_even_tokens_per_step(self) -> float:
        """Tokens that a step has to fill in to be as fast as decoding them one by one. [token]"""
        return self.step_s / self.token_s


def denoise(
    deployment: Deployment,
    *,
    batch: int,
    prompt: int,
    output: int,
    steps: int,
    block: int | None = None,
    cached: bool = False,
    utilization: float | None = None,
) -> Denoising:
    """Price the parallel denoising of answers.

    Each denoising step is a step of the engine, which adds what it adds to a decode step of as many
    sequences. Without a cache every step computes prompt and answer, finished or not:
    n·t(P + O, P + O).

    With one, the prompt is computed once and a step computes the tokens of one block, which see
    all before them and each other: t(P, P) + n·b/O · Σᵢ t(b, P + i·b) over blocks i. What a
    finished block keeps has to be computed from its final tokens; they go with the first step of
    the next block, which reads the weights for both (and computes logits of both, though those of
    finished tokens are of no use). Left out: choosing tokens from the logits, and refreshing the
    whole cache at the start of a block.

    Source: LLaDA, Nie et al. 2025 (arXiv 2502.09992), section 2.4, for denoising without a cache;
    Block Diffusion, Arriola et al. 2025 (arXiv 2503.09573), section 3, for blocks with one;
    Fast-dLLM, Wu et al. 2025 (arXiv 2505.22618), section 3, for a cache beside a network that was
    trained without, which is where it is an approximation.

    Args:
        deployment: Network, node, formats, layout. A causal network is priced as if it saw both
            ways.
        batch: Sequences B. [1]
        prompt, output: Tokens of each prompt, P, and of each answer, O. [token]
        steps: Denoising steps for the whole answer, n. [1]
        block: Tokens b that are denoised together, block after block; None for the whole answer.
            [token]
        cached: Whether keys and values of prompt and finished blocks are kept.
        utilization: Share of device memory the engine takes; None for its default. [1]

    Raises:
        InputError: The answer is not whole blocks, steps are not the same for each of them or more
            than there are tokens, the network cannot see both ways, or the context is longer than
            it is made for.
    """
    workload = Workload(batch, prompt, output)
    check_context(deployment, workload)
    size = output if block is None else block
    _check(deployment, output, steps, size)
    silent = seeing_both_ways(deployment)
    both_ways = verifying(silent)
    longest, costs = float(prompt + output), deployment.engine_costs
    software = float(costs.step_s + costs.sequence_s * batch)
    if cached:
        first, kernels, typical = _with_cache(both_ways, batch, prompt, output // size, size, steps)
        prompts = float(_parts(silent, prefill(float(batch), float(prompt))).seconds(silent))
        start = costs.arrival_s + float(costs.prefill_step(prompts))
        # The first step of a block carries the one that is finished.
        rows = batch * float(size) * min(2, output // size)
        tokens = max(batch * float(prompt), rows)
    else:
        start, tokens, rows = costs.arrival_s, batch * longest, batch * longest
        typical = _parts(both_ways, prefill(float(batch), longest))
        kernels = float(typical.seconds(both_ways))
        first = kernels * (steps * size / output)
    each = costs.decode_gain * kernels + software
    first = costs.decode_gain * first + software * (steps * size / output)
    alone = static_batch(deployment, workload, operators=False)
    share = 1.0 - software / each
    return Denoising(
        deployment=both_ways,
        batch=batch,
        prompt=prompt,
        output=output,
        steps=steps,
        block=size,
        cached=cached,
        memory=budget(
            both_ways,
            batch=float(batch),
            context=longest,
            step_tokens=tokens,
            step_rows=rows,
            utilization=utilization,
            cached=cached,
        ),
        prefill_s=start,
        step_s=each,
        first_block_s=start + first,
        latency_s=start + each * steps,
        token_s=alone.tpot_s,
        autoregressive_s=alone.latency_s,
        log_sd=float(costs.log_sd(typical.log_sd, share)),
        autoregressive_log_sd=alone.latency_log_sd,
        basis=BASES[int(np.max(typical.basis))],
        causal=deployment.architecture.causal,
    )


def seeing_both_ways(deployment: Deployment) -> Deployment:
    """The deployment of a network whose tokens see each other, before and after them."""
    return replace(deployment, architecture=replace(deployment.architecture, causal=False))


def denoising_step(
    batch: Number, block: Number, before: Number, finished: Number = 0.0
) -> list[SequenceGroup]:
    """Groups of one denoising step with a cache.

    Source: T = block and S = before + block, the conventions of `SequenceGroup`; finished tokens
    see themselves and all before them.

    Args:
        batch: Sequences. [1]
        block: Tokens that are denoised. [token]
        before: Tokens of the prompt and of finished blocks. [token]
        finished: Those of them whose keys and values are not cached yet. [token]

    Examples:
        A block of 32 after 100 tokens, of which the last 32 have just been finished:

        >>> [(group.new, group.context) for group in denoising_step(1, 32, 100, finished=32)]
        [(32, 132), (32, 100)]
    """
    groups = [SequenceGroup(batch, block, before + block, "block")]
    if isinstance(finished, np.ndarray) or finished:
        groups.append(SequenceGroup(batch, finished, before, "finished"))
    return groups


def _with_cache(
    deployment: Deployment, batch: int, prompt: int, blocks: int, block: int, steps: int
) -> tuple[float, float, StepTime]:
    """Kernels of the first block and of a mean step [s]; parts of a step of the middle block."""

    def parts(before: Number, finished: Number = 0.0) -> StepTime:
        return _parts(deployment, denoising_step(float(batch), float(block), before, finished))

    def priced(before: Number, finished: Number = 0.0) -> Number:
        return parts(before, finished).seconds(deployment)

    def more(number: Array) -> Number:
        before = prompt + (number - 1.0) * block
        return priced(before, float(block)) - priced(before)

    total = mean(lambda number: priced(prompt + (number - 1.0) * block), 1, blocks) * steps
    if blocks > 1:
        total += mean(more, 2, blocks) * (blocks - 1)
    middle = parts(float(prompt + blocks // 2 * block))
    return float(priced(float(prompt))) * (steps // blocks), total / steps, middle


def _parts(deployment: Deployment, groups: SequenceGroup | list[SequenceGroup]) -> StepTime:
    """Parts of the time of a step's kernels; layouts with a pipeline are refused before."""
    (stage,) = price_step(deployment, groups)
    return stage.parts


def _check(deployment: Deployment, output: int, steps: int, block: int) -> None:
    """Refuse what cannot be denoised."""
    if not 1 <= block <= output or output % block:
        raise InputError(
            f"an answer of {output} tokens is not whole blocks of {block:g}",
            hint=f"give a block that divides {output}",
        )
    blocks = output // block
    if not 1 <= steps <= output or steps % blocks:
        raise InputError(
            f"{steps:g} denoising steps for {output} tokens in blocks of {block}: {blocks}",
            hint=f"give a multiple of {blocks} steps, {output} at most: every block takes as many, "
            "and every step fills in a token",
        )
    network = deployment.architecture
    if network.keeps_state:
        raise InputError(
            f"{network.name} has layers with a recurrent state, which see one way only",
            hint="denoise a network of attention layers",
        )


def result_of(made: Denoising) -> Result:
    """Headline, memory and derivation of a batch that is denoised."""
    deployment, measured = made.deployment, made.deployment.calibration is not None
    source = "LLaDA (arXiv 2502.09992); Block Diffusion (arXiv 2503.09573)"
    figures = (
        ("latency_s", "s", "arrival to the last block"),
        ("first_block_s", "s", "arrival to the first block, whole"),
        ("prefill_s", "s", "keys and values of the prompt"),
        ("step_s", "s", "mean denoising step"),
        ("throughput_tok_s", "token/s", "output tokens of the batch"),
        ("tokens_per_step", "token", "filled in by a step, mean"),
        ("autoregressive_s", "s", "the same network, token by token"),
        ("speed_up", "", "token by token over denoising"),
        ("break_even_tokens_per_step", "token", "a step must fill in to be as fast as decoding"),
    )
    faster = f"{made.speed_up:.2f} × as fast as" if made.speed_up >= 1 else "slower than"
    blocks = "1 block" if made.blocks == 1 else f"{made.blocks} blocks"
    held = "kept" if made.cached else "not kept: every step computes the whole sequence"
    fits = made.memory.fits
    summary = (
        f"{'Fits' if fits else 'Does not fit'} on each device: "
        f"{show_binary(abs(made.memory.free))} {'to spare' if fits else 'too much'}.",
        f"{made.steps} steps over {blocks} of {made.block} tokens are {faster} "
        f"decoding token by token ({show(made.latency_s, 's')} against "
        f"{show(made.autoregressive_s, 's')}).",
    )
    spreads = {"tokens_per_step": 0.0, "speed_up": 0.0, "break_even_tokens_per_step": 0.0}
    spreads["autoregressive_s"] = made.autoregressive_log_sd

    def row(metric: str, unit: str, meaning: str) -> dict[str, Any]:
        value = float(getattr(made, metric))
        wide = exp(CENTRAL * spreads.get(metric, made.log_sd))
        ends = {"low": value / wide, "high": value * wide} if measured else {}
        told = {"metric": metric, "value": value, **ends, "unit": unit}
        return {**told, "basis": made.basis, "meaning": meaning}

    rows = [row(*figure) for figure in figures]
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
        basis=made.basis,
    )
    times = (
        f"Steps are priced by {GROUNDS[deployment.basis]}, and by what the engine adds to a "
        "decode step of as many sequences; intervals are the central 80 %. No denoising was "
        "measured."
        if measured
        else "Times are the datasheet roofline: the least the hardware allows, not a forecast."
    )
    return Result(
        kind="analyze",
        tables={"headline": table(rows, {})},
        derivations={"latency": latency},
        notes=(
            times,
            f"Keys and values of prompt and finished blocks are {held}. How many tokens a step may "
            "fill in without loss is a question of quality, which is out of scope.",
            *(["The network is causal, and priced as if it saw both ways."] if made.causal else []),
            *deployment.precision.notes,
            *deployment.architecture.notes,
        ),
        metadata={
            **deployment.metadata,
            "tp": int(deployment.tp),
            "batch": made.batch,
            "prompt": made.prompt,
            "output": made.output,
            "denoising_steps": made.steps,
            "block": made.block,
            "convention": "engine",
            "basis": "calibrated" if measured else "datasheet",
            "fits": fits,
            "summary": summary,
        },
    )
