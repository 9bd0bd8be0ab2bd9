"""Arithmetic of making a smaller network of a large one, as published.

Symbols: N parameters (the active ones of a mixture of experts), D tokens. Attention and the work
of the optimiser are left out.
"""

from typing import Final

from roofline.cost.textbook.intensity import matmul_flops
from roofline.cost.textbook.training import training_flops
from roofline.cost.work import Number

CALIBRATION_TOKENS: Final = 128.0 * 2048.0
"""Tokens that post-training quantisation and one-shot pruning look at: 128 segments of 2048.
Frantar et al. 2022 (arXiv 2210.17323), section 4; Frantar and Alistarh 2023 (arXiv 2301.00774)."""


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


def qat_flops(parameters: Number, tokens: Number) -> Number:
    """Quantisation-aware training, or training on after a change of shape: 6·N·D. [FLOP]

    Rounding in the forward pass costs nothing here.

    Source: Liu et al. 2023 (arXiv 2305.17888, LLM-QAT) and Ainslie et al. 2023 (arXiv 2305.13245,
    uptraining to GQA) for what is trained; 6 FLOP per parameter and token.

    Args:
        parameters: N. [parameter]
        tokens: D trained on. [token]

    Examples:
        >>> qat_flops(7e9, tokens=1000)
        42000000000000.0
    """
    return training_flops(parameters, tokens)


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
