"""Block diffusion of traffic: denoising steps in place of decode steps.

An answer is filled in block by block, each of b tokens in s steps. A step computes the block of
every sequence, which sees all before it and itself; keys and values of a block that is finished are
computed with the first step of the next. The loop serves requests of as many steps as their blocks
take, at the price of a denoising step; steps of different sequences need not be in one block.

Each sequence has room in the cache, and in the token budget, for its block. What that leaves out:
contexts and pages grow by a token a step in the loop. Steps are priced, and the cache is cut, for
how much longer sequences are on average. Prompts that are cut see what is before them and
themselves. Source: Arriola et al. 2025 (arXiv 2503.09573), section 3, for blocks with a cache;
`roofline.serving.diffusion` for a batch alone.
"""

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.work import Array
from roofline.errors import InfeasibleError, InputError
from roofline.records import replace
from roofline.serving.diffusion import denoising_step
from roofline.serving.drafts import check_layout
from roofline.serving.requests import Integers, Requests
from roofline.serving.rounds import verifying
from roofline.serving.simulate.compiled.state import PacedDrafts
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.simulate.run import UNPACED
from roofline.serving.simulate.served import ServedRequests
from roofline.serving.simulate.server import UNLIMITED, Server
from roofline.serving.stages import price_step


class BlockDiffusion(Struct, frozen=True):
    """Blocks of answers, and the steps that fill one in."""

    block: int
    """Tokens that are denoised together. [token]"""
    steps: int
    """Denoising steps of a block. [1]"""

    def __post_init__(self) -> None:
        """Refuse steps that have nothing to fill in."""
        if not 1 <= self.steps <= self.block:
            raise InputError(
                f"{self.steps} denoising steps for each block of {self.block} tokens",
                hint="every step fills in a token: give as many steps as the answer has blocks, up "
                "to as many as it has tokens",
            )

    @property
    def lengths(self) -> None:
        """None: the length of a block does not follow the batch."""
        return None

    def blocks(self, output: Integers) -> Integers:
        """Blocks of answers of some length [token]; the last one may be cut. [1]"""
        found: Integers = -(-output // self.block)
        return found

    def paced(self, given: Requests) -> PacedDrafts:
        """No drafts that follow the batch: the steps of a request are known before it runs."""
        return UNPACED

    def in_rounds(self, given: Requests) -> Requests:
        """Requests whose answers are counted in denoising steps, which begin after the prefill."""
        return replace(given, output=1 + self.blocks(given.output) * self.steps)

    def in_tokens(self, served: ServedRequests, given: Requests) -> ServedRequests:
        """Served requests counted in tokens again, from those counted in steps.

        Tokens of a block appear together: the first of them when all steps of the first block ran.
        """
        output = given.output[served.number]
        first = (served.finish - served.first_token) / self.blocks(output)
        totals = replace(served.totals, decoded_tokens=int(output.sum()))
        first_token = served.first_token + first
        return replace(served, first_token=first_token, output=output, totals=totals)

    def later(self, given: Requests) -> float:
        """Tokens that a sequence has before its block beyond one for each step, on average. [token]

        Of n blocks of s steps, (n − 1)·b/2 less the (n·s − 1)/2 that the loop counts. Source:
        arithmetic.
        """
        blocks = self.blocks(given.output).astype(np.float64)
        number = blocks * self.steps
        each = ((blocks - 1.0) * self.block - (number - 1.0)) / 2.0
        return float((each * number).sum() / number.sum())


class DenoisingSteps(Struct, frozen=True):
    """A deployment that denoises, whatever limits its server has."""

    drafting: BlockDiffusion
    """Blocks and steps."""
    prices: StepPrices
    """Prices with denoising steps in place of decode steps."""
    requests: Requests
    """Requests, whose lengths say how long contexts are."""

    def server(self, plain: Server) -> Server:
        """Server with room for the block of each sequence, in its steps and in its cache.

        InfeasibleError where no step, or no cache, has room for a block.
        """
        rule, given = self.drafting, self.requests
        sequences = min(plain.max_sequences, (plain.token_budget or UNLIMITED) // rule.block)
        if sequences < 1:
            raise InfeasibleError(
                f"a step of {plain.token_budget} tokens does not hold a block of {rule.block}",
                hint="denoise smaller blocks, or raise `token_budget`",
            )
        drafted = rule.block - 1
        server = replace(plain, drafted=drafted, max_sequences=sequences)
        if plain.kv_tokens >= UNLIMITED:
            return server
        steps = rule.blocks(given.output) * rule.steps
        context = float(given.prompt.mean() + steps.mean() / 2.0) + drafted
        room = int(plain.kv_tokens * context / (context + rule.later(given)))
        if room < plain.page:
            raise InfeasibleError(
                "blocks leave no room for a cache",
                hint="denoise smaller blocks, or give more devices",
            )
        return replace(server, kv_tokens=room)


def denoising_steps(
    rule: BlockDiffusion, deployment: Deployment, prices: StepPrices, given: Requests
) -> DenoisingSteps:
    """Denoising of requests on a deployment.

    Args:
        rule: Blocks and steps.
        deployment: Network that sees both ways; denoising computes logits of all its tokens.
        prices: Prices of its steps with prompts.
        given: Requests, whose lengths say how long contexts are.

    Raises:
        InputError: The layout has stages or shares contexts.
    """
    check_layout(deployment.layout)
    shape = len(prices.batches), len(prices.contexts)
    batch = np.repeat(prices.batches, shape[1])
    before = np.tile(np.maximum(prices.contexts - 2.0 + rule.later(given), 1.0), shape[0])
    block = float(rule.block)

    def seconds(finished: Array | float) -> Array:
        groups = denoising_step(batch, block, before, finished)
        (stage,) = price_step(verifying(deployment), groups)
        return np.broadcast_to(stage.seconds(), batch.shape).reshape(shape)

    blocks = rule.blocks(given.output)
    carried = float((blocks - 1).sum()) / float(blocks.sum() * rule.steps)
    decode = seconds(0.0)
    if carried:
        decode = decode + carried * (seconds(np.full(len(batch), block)) - decode)
    steps = replace(
        prices,
        decode_s=np.array(decode),
        window=0,
        windows=np.ones(1),
        window_s=np.zeros((shape[0], 1)),
    )
    return DenoisingSteps(rule, steps, given)
