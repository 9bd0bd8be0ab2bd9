"""Instances that prefill beside instances that decode: rates, and how many of each.

A prefill instance takes prompts in a steady stream, a decode instance keeps its batch full: as one
answer ends, the next prompt's cache takes its place. Waiting in queues is left out.

Clients get the first token with the first step of the decode instance, so TTFT has the transfer in
it. Source: SGLang hands out the first two tokens there (issue 8210 of sgl-project/sglang), and
TensorRT-LLM counts so (issue 9212 of NVIDIA/TensorRT-LLM); the decode instances of vLLM make the
first one anew, from the last token of the prompt (issue 930 of inference-sim/inference-sim).
"""

import math

import numpy as np
from msgspec import Struct

from roofline.cost.textbook.parallelism import prefill_servers
from roofline.errors import LayoutError
from roofline.units import counted


class PoolTimes(Struct, frozen=True):
    """Times of a prefill and a decode instance, at one bound of the roofline."""

    output: int
    """Tokens of an answer. [token]"""
    prefill_s: float
    """Start of the prefill to its end. [s]"""
    transfer_s: float
    """Wait of decode for the cache. [s]"""
    step_s: float
    """A decode step, mean over the answer. [s]"""
    prompt_s: float
    answer_s: float
    """Time of a prefill instance for each prompt of a steady stream, of a decode instance for each
    answer; the transfer apart. [s]"""
    send_s: float
    receive_s: float
    """Time of their links for each cache. [s]"""

    @property
    def ttft_s(self) -> float:
        """Start of the prefill to the first token: prefill, transfer and a decode step. [s]"""
        return self.prefill_s + self.transfer_s + self.step_s

    @property
    def latency_s(self) -> float:
        """Start of the prefill to the last token. [s]"""
        return self.prefill_s + self.transfer_s + self.step_s * (self.output - 1)

    @property
    def tpot_s(self) -> float:
        """(latency − TTFT) / (tokens − 1), where the first two come together. [s]"""
        return self.step_s * (self.output - 2) / (self.output - 1)

    @property
    def prompts_per_s(self) -> float:
        """Prompts of a prefill instance, as far as its links carry the caches away. [1/s]"""
        return 1.0 / max(self.prompt_s, self.send_s)

    @property
    def answers_per_s(self) -> float:
        """Answers of a decode instance, as far as its links bring the caches. [1/s]"""
        return 1.0 / max(self.answer_s, self.receive_s)

    @property
    def ratio(self) -> float:
        """Prefill instances that keep one decode instance full. [1]"""
        return float(prefill_servers(1.0 / self.prompts_per_s, self.answers_per_s))


class PoolSplit(Struct, frozen=True):
    """Instances of each kind. [1]"""

    prefill: int
    decode: int

    def demand(self, phases: PoolTimes) -> float:
        """Requests that the instances would serve if wires were no limit. [1/s]"""
        return min(self.prefill / phases.prompt_s, self.decode / phases.answer_s)

    def requests_per_s(self, phases: PoolTimes) -> float:
        """Requests that they serve: the least of prefill, decode and both ends' wires. [1/s]"""
        return min(self.prefill * phases.prompts_per_s, self.decode * phases.answers_per_s)

    def utilisation(self, phases: PoolTimes) -> float:
        """Share of their time that the busier wires would need; above 1 they bind. [1]"""
        return self.demand(phases) * max(
            phases.send_s / self.prefill, phases.receive_s / self.decode
        )

    def idle(self, phases: PoolTimes) -> tuple[float, float]:
        """Share of their time that prefill and decode instances wait for others. [1]"""
        served = self.requests_per_s(phases)
        return (
            1.0 - served * phases.prompt_s / self.prefill,
            1.0 - served * phases.answer_s / self.decode,
        )


def divide(phases: PoolTimes, prefill_gpus: int, decode_gpus: int, gpus: int | None) -> PoolSplit:
    """Instances of each kind that serve most requests, the fewest that do.

    Every number of prefill instances is tried, the other devices decode. Source: of two stages in a
    row, the slower sets the pace.

    Args:
        phases: Times of an instance of each kind.
        prefill_gpus, decode_gpus: Devices of an instance of each kind. [1]
        gpus: Devices in all. None for a single instance of the kind of which fewer are needed, and
            as many of the other kind as serve most for each device. [1]

    Raises:
        LayoutError: They do not hold one instance of each kind.
    """
    if gpus is None:
        return _near(phases, prefill_gpus, decode_gpus)
    if gpus < prefill_gpus + decode_gpus:
        raise LayoutError(
            f"{counted(gpus, 'GPU')} {'does' if gpus == 1 else 'do'} not hold a prefill instance "
            f"of {prefill_gpus} and a decode instance of {decode_gpus}",
            hint=f"give `gpus={prefill_gpus + decode_gpus}` or more, or smaller layouts",
        )
    prefill = np.arange(1, (gpus - decode_gpus) // prefill_gpus + 1)
    decode = (gpus - prefill * prefill_gpus) // decode_gpus
    served = np.minimum(prefill * phases.prompts_per_s, decode * phases.answers_per_s)
    best = int(np.argmax(served))
    most = float(served[best])
    # A rounding error is no further instance.
    enough = max(math.ceil(most / phases.answers_per_s * (1.0 - 2.0**-40)), 1)
    return PoolSplit(int(prefill[best]), min(int(decode[best]), enough))  # the first of equals


def _near(phases: PoolTimes, prefill_gpus: int, decode_gpus: int) -> PoolSplit:
    """The fewest instances whose numbers are next to the ratio that balances."""
    ratio = phases.ratio
    more = ratio if ratio >= 1.0 else 1.0 / ratio
    near = {math.floor(more), math.ceil(more)}
    splits = [PoolSplit(n, 1) if ratio >= 1.0 else PoolSplit(1, n) for n in sorted(near)]
    return max(
        splits,
        key=lambda split: (
            split.requests_per_s(phases)
            / (split.prefill * prefill_gpus + split.decode * decode_gpus)
        ),
    )
