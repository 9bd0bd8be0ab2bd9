"""Training as published: 6·N·D arithmetic, days, MFU, and Megatron's activation memory.

Making a smaller network of a large one is training too: attention and the work of the optimiser are
left out there.

Symbols: P or N parameters (the active ones of a mixture of experts); D tokens; s sequence,
b micro-batch, h model width, a heads, t tensor-parallel ranks.
"""

from typing import Final

from roofline.cost.textbook.bounds import math_time
from roofline.cost.textbook.intensity import matmul_flops
from roofline.cost.work import Number

CALIBRATION_TOKENS: Final = 128.0 * 2048.0
"""Tokens that post-training quantisation and one-shot pruning look at: 128 segments of 2048.
Frantar et al. 2022 (arXiv 2210.17323), section 4; Frantar and Alistarh 2023 (arXiv 2301.00774)."""


def training_flops(parameters: Number, tokens: Number) -> Number:
    """Forward and backward pass: 6·P·tokens. [FLOP]

    Quantisation-aware training and training on after a change of shape are the same; rounding in
    the forward pass costs nothing here. Source: Stanford CS336 (2025) lecture 2, motivating
    questions; Liu et al. 2023 (arXiv 2305.17888, LLM-QAT) and Ainslie et al. 2023 (arXiv
    2305.13245, uptraining to GQA) for what is trained.

    Args:
        parameters: P; the active ones of a mixture of experts. [parameter]
        tokens: Trained on. [token]

    Examples:
        >>> training_flops(1e9, 20e9)
        1.2e+20
    """
    return 6.0 * parameters * tokens


def training_time(
    parameters: Number, tokens: Number, flops_per_s: Number, chips: Number, mfu: Number
) -> Number:
    """6·P·tokens / (chips·peak·MFU). [s]

    Source: Stanford CS336 (2025) lecture 2, motivating questions.

    Args:
        parameters: P. [parameter]
        tokens: Trained on. [token]
        flops_per_s: Peak of one chip. [FLOP/s]
        chips: Chips in use. [1]
        mfu: Part of the peak that is reached. [1]

    Examples:
        >>> training_time(1e9, tokens=1e9, flops_per_s=1e15, chips=6, mfu=0.5)
        2000.0
    """
    return math_time(training_flops(parameters, tokens), flops_per_s, chips, mfu)


def training_mfu(
    parameters: Number, tokens: Number, chip_seconds: Number, flops_per_s: Number
) -> Number:
    """6·P·tokens / (chip-seconds·peak). [1]

    Source: How to Scale Your Model (2025), "Transformers", question 7.

    Args:
        parameters: P; the active ones of a mixture of experts. [parameter]
        tokens: Trained on. [token]
        chip_seconds: Chips times time. [s]
        flops_per_s: Peak of one chip. [FLOP/s]

    Examples:
        >>> training_mfu(1e9, tokens=1e9, chip_seconds=12e3, flops_per_s=1e15)
        0.5
    """
    return math_time(training_flops(parameters, tokens), flops_per_s) / chip_seconds


def attention_activation_factor(heads: Number, sequence: Number, d_model: Number) -> Number:
    """Share of the S×S tensors in what a layer stores, beside 34: 5·a·s/h. [1]

    Source: Korthikanti et al. 2022 (arXiv 2205.05198), equation 1 and section 5.

    Args:
        heads: a. [1]
        sequence: s. [token]
        d_model: h. [1]

    Examples:
        >>> attention_activation_factor(96, sequence=2048, d_model=12288)
        80.0
    """
    return 5.0 * heads * sequence / d_model


def activation_bytes(
    sequence: Number,
    batch: Number,
    d_model: Number,
    heads: Number,
    ranks: Number = 1.0,
    *,
    sequence_parallel: bool = False,
) -> Number:
    """Activations that the backward pass of one layer needs, per device. [B]

    s·b·h·(10 + 24/t + 5·a·s/(h·t)) with tensor parallelism; s·b·h/t·(34 + 5·a·s/h) where the
    norms and dropouts are split along the sequence too.

    16-bit activations, one-byte dropout masks. Source: Korthikanti et al. 2022
    (arXiv 2205.05198), equations 1, 2 and 4.

    Args:
        sequence: s. [token]
        batch: Micro-batch b. [1]
        d_model: h. [1]
        heads: a. [1]
        ranks: Tensor-parallel ranks t. [1]
        sequence_parallel: Whether Megatron's sequence parallelism is on.

    Examples:
        >>> activation_bytes(1, 1, d_model=5, heads=1)
        175.0
    """
    attention = attention_activation_factor(heads, sequence, d_model)
    tokens = sequence * batch * d_model
    if sequence_parallel:
        return tokens / ranks * (34.0 + attention)
    return tokens * (10.0 + 24.0 / ranks + attention / ranks)


def calibration_flops(parameters: Number, tokens: Number = CALIBRATION_TOKENS) -> Number:
    """Post-training quantisation: forward passes over calibration data, 2·N·D. [FLOP]

    Solving for the rounding of each layer is left out.

    Source: Frantar et al. 2022 (arXiv 2210.17323), section 4, for what is computed; 2 FLOP per
    parameter and token.

    Args:
        parameters: N. [parameter]
        tokens: D of the calibration set. [token]

    Examples:
        >>> calibration_flops(7e9, tokens=1000)
        14000000000000.0
    """
    return matmul_flops(tokens, parameters, 1.0)


def distillation_flops(student: Number, teacher: Number, tokens: Number) -> Number:
    """Pruning and distillation: the student is trained, the teacher computes forward only. [FLOP]

    6·N·D of the student and 2·N·D of the teacher.

    Source: Muralidharan et al. 2024 (arXiv 2407.14679, Minitron), section 3, retraining on the
    logits of the unpruned network.

    Args:
        student, teacher: N of each. [parameter]
        tokens: D trained on. [token]

    Examples:
        A student half as large costs 5/6 of training the teacher on as many tokens:

        >>> distillation_flops(1.0, 2.0, tokens=6.0) / training_flops(2.0, 6.0)
        0.8333333333333334
    """
    return training_flops(student, tokens) + calibration_flops(teacher, tokens)
