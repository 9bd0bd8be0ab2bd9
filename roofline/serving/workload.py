"""Workload of a static batch: sequences and their lengths."""

import math
from decimal import Decimal
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.cost.step import SequenceGroup, prefill
from roofline.cost.work import Number
from roofline.errors import InputError
from roofline.model.architecture import Architecture

MOST_TOKENS: Final = 2**31
MOST_SEQUENCES: Final = 2**24
MOST_SAMPLES: Final = 2**16


class Workload(Struct, frozen=True):
    """Batch, lengths and prefix hits of a static batch."""

    batch: int = 16
    """Sequences decoded together. [1]"""
    prompt: int = 2048
    output: int = 256
    """Tokens of each prompt and of each answer. [token]"""
    prefill_batch: int = 0
    """Prompts prefilled in one step; 0 for the whole batch. [1]"""
    prefix_hit: float = 0.0
    """Share of the prompt that is cached already. [1]"""
    kv_cache: bool = True
    """False to compute the whole context again for every token."""
    samples: int = 1
    """Answers to each prompt, which share its prefill and its pages. [1]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for name, value, most in (
            ("batch", self.batch, MOST_SEQUENCES),
            ("prompt", self.prompt, MOST_TOKENS),
            ("output", self.output, MOST_TOKENS),
            ("samples", self.samples, MOST_SAMPLES),
        ):
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{name} is {value!r:.40}", hint="give a whole number")
            if not 1 <= value <= most:
                raise InputError(f"{name} is {value:g}", hint=f"give a number from 1 to {most:,}")
        if not 0 <= self.prefill_batch <= self.batch:
            raise InputError(
                f"prefill batch is {self.prefill_batch:g}, batch is {self.batch}",
                hint="prefill between 1 prompt and the whole batch in a step",
            )
        if not 0 <= self.prefix_hit < 1:
            raise InputError(
                f"prefix hit is {self.prefix_hit:g}",
                hint="give the cached share of the prompt, from 0 up to but not including 1",
            )

    @property
    def cached(self) -> int:
        """Tokens of the prompt that are cached; at least one is left to compute. [token]"""
        # In decimal, so that 29 % of 100 is 29 and not what binary fractions make of it.
        share = Decimal(repr(self.prefix_hit)) * self.prompt
        return min(math.floor(share), self.prompt - 1)

    @property
    def together(self) -> int:
        """Prompts in one prefill step. [1]"""
        return self.prefill_batch or self.batch

    @property
    def longest(self) -> int:
        """Context of the last step that is computed. [token]"""
        return self.prompt + self.output - 1

    @property
    def full_steps(self) -> int:
        """Prefill steps with all the prompts that go together. [1]"""
        return self.batch // self.together

    @property
    def left_over(self) -> int:
        """Prompts of the last prefill step where it is not a full one. [1]"""
        return self.batch % self.together

    def prefill(self, prompts: Number) -> SequenceGroup:
        """Prefill step of that many prompts."""
        return prefill(prompts, float(self.prompt), float(self.cached))

    def decode(self, context: Number, sequences: Number) -> SequenceGroup:
        """Decode step that ends at a context: one new token, or all of them without a cache."""
        new = 1.0 if self.kv_cache else context
        return SequenceGroup(sequences, new, context)

    def turns(self, deployment: Deployment) -> tuple[int, int]:
        """Micro-batches that take turns in a pipeline, and sequences of each. [1]"""
        number, size = turns_of(float(self.batch), deployment)
        return int(number), int(size)


def check_decodes(network: Architecture, *, denoised: bool = False) -> None:
    """Refuse a network that does not answer token by token, or block by block where it denoises."""
    if network.is_encoder or not (network.causal or denoised):
        raise InputError(
            f"{network.name} does not decode token by token",
            hint="give a network that decodes; roofline analyze prices a batch of this one",
        )
    if network.encoder:
        raise InputError(
            f"{network.name} reads its prompts with an encoder, and is priced in batches alone",
            hint="roofline analyze prices a batch of it",
        )


def branches(deployment: Deployment, workload: Workload) -> int:
    """Sequences that decode for each prompt: its answers, or the beams of its one answer. [1]"""
    beams = deployment.options.sampling.beams
    if workload.samples > 1 < beams:
        raise InputError(
            f"{workload.samples} samples of {beams} beams",
            hint="beams are one answer: give samples or beams",
        )
    return workload.samples * beams


def turns_of(batch: Number, deployment: Deployment) -> tuple[Number, Number]:
    """The same on a deployment, whose engine may say how large micro-batches are. [1]"""
    most = float(deployment.engine.micro_batch_tokens)
    if not deployment.to_and_fro:
        return turns(batch, deployment.layout, most)
    number = deployment.turns
    return turns(batch, Layout(pp=number, microbatches=number), most)


def turns(batch: Number, layout: Layout, most: float = 0.0) -> tuple[Number, Number]:
    """Micro-batches that take turns in a pipeline, and sequences of each; one without it. [1]

    Args:
        batch: Sequences. [1]
        layout: Stages, and micro-batches if they were asked for.
        most: Most sequences, or tokens, of a micro-batch, which then is as large as they allow; 0
            for one in each stage. [1]

    Examples:
        >>> number, size = turns(10.0, Layout(pp=4))
        >>> float(number), float(size)
        (4.0, 3.0)
        >>> number, size = turns(1200.0, Layout(pp=4), most=512.0)
        >>> float(number), float(size)
        (3.0, 400.0)
    """
    if most and not layout.microbatches:
        size = np.ceil(batch / np.ceil(batch / most))
        return np.ceil(batch / size), size
    if layout.pp == 1:
        return 1.0, batch
    size = np.ceil(batch / np.minimum(float(layout.microbatches or layout.pp), batch))
    return np.ceil(batch / size), size
