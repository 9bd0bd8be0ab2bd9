"""How well the prices of a run's steps are known: errors that all its steps have in common."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, sqrt

import numpy as np

from roofline.cost.deployment import Deployment
from roofline.cost.step import Group
from roofline.serving.phases import turns
from roofline.serving.simulate.prices import StepPrices
from roofline.serving.stages import Priced, slowest, through


@dataclass(frozen=True, slots=True)
class Doubt:
    """Errors of step prices, lognormal."""

    decode_sd: float
    prefill_sd: float
    """Log standard deviation of what decode takes, and of what prompts add. [1]"""
    correlation: float
    """Of the two. [1]"""
    misses: Mapping[str, float]
    """Log standard deviation of measured from predicted, by metric (``"ttft_s"``): of the engine
    end to end, on what its profile never saw. [1]"""

    def scaled(self, prices: StepPrices, first: float, second: float) -> StepPrices:
        """Prices that are off by as much.

        Args:
            prices: As predicted.
            first, second: Independent, in standard deviations: of decode; of prompts beside what
                they share. [1]
        """
        rest = sqrt(1.0 - self.correlation**2)
        decode = exp(self.decode_sd * first)
        prefill = exp(self.prefill_sd * (self.correlation * first + rest * second))
        costs = prices.engine
        return replace(
            prices,
            engine=replace(
                costs,
                step_s=costs.step_s * decode,
                sequence_s=costs.sequence_s * decode,
                front_end_s=costs.front_end_s * decode,
                prefill_s=costs.prefill_s * prefill,
                launch_s=costs.launch_s * prefill,
                decode_gain=costs.decode_gain * decode,
                prefill_gain=costs.prefill_gain * prefill,
            ),
        )


def doubt_of(
    deployment: Deployment,
    *,
    batch: float,
    context: float,
    prompt: float,
    misses: Mapping[str, float],
) -> Doubt:
    """Errors of the steps of a deployment, with what is in them on average.

    Errors of kernels of one kind go together, those of two kinds do not. What an engine is off by
    end to end contains those of its kernels: where it is more, the rest is common to all steps.
    Source: variances and covariance of two sums, by the delta method.

    Args:
        deployment: With measured kernels.
        batch, context: Sequences that decode in a step, and what each sees. [1] [token]
        prompt: Tokens that a prompt has in a step. [token]
        misses: As of `Doubt`; may be empty.
    """
    number, size = turns(np.array(max(batch, 1.0)), deployment.layout)
    del number
    decode = _spreads(slowest(through(deployment, Group(size, 1.0, max(context, 1.0)))))
    groups = float(deployment.layout.dp)
    tokens = max(prompt / groups, 1.0)
    prefill = _spreads(slowest(through(deployment, Group(groups, tokens, tokens))))
    own, other = (sum(each**2 for each in some.values()) for some in (decode, prefill))
    both = sum(spread * prefill.get(kind, 0.0) for kind, spread in decode.items())
    common = max(misses.get("tpot_s", 0.0) ** 2 - own, 0.0)
    own, other, both = own + common, other + common, both + common
    correlation = both / sqrt(own * other) if own and other else 0.0
    return Doubt(sqrt(own), sqrt(other), min(correlation, 1.0), misses)


def _spreads(stage: Priced) -> dict[str, float]:
    """By kind of operator, log standard deviation of the step for that of the kind alone. [1]"""
    whole = float(np.mean(stage.seconds()))
    return {kind: float(np.mean(each)) / whole for kind, each in stage.parts.spreads.items()}
