"""Constants of serving engines: what each adds to its kernels, in one fitted file.

A step that decodes B sequences and prefills prompts takes

    g_dec·decode(B) + [prompts]·(g_pre·prefill + c_pre) + c_step + c_seq·B

A request passes the front end before it is scheduled, one after the other. Tokens pass it too, each
in its time: where that is more than the steps take they reach the client late.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from roofline.hardware.engine import ROCM
from roofline.hardware.serving_engine import UNKNOWN

FOLDER: Final = "calibrations/engines"
SHARED: Final = "kernels"
"""File of what all engines share."""


class EngineConstant(Struct, frozen=True):
    """A fitted constant and what was believed before."""

    prior: float
    log_sd: float
    """Value before any row was seen, and the standard deviation of its logarithm."""
    unit: str
    """``"s"`` or ``"1"``."""
    meaning: str
    """One phrase."""


CONSTANTS: Final[Mapping[str, EngineConstant]] = {
    "step_s": EngineConstant(1.0e-3, 0.12, "s", "of every step: scheduling, sampling, launches"),
    "sequence_s": EngineConstant(1.2e-5, 0.3, "s", "of every sequence that decodes, in a step"),
    "prefill_s": EngineConstant(2.0e-3, 0.4, "s", "of a step that prefills, beside its kernels"),
    "request_s": EngineConstant(
        2.5e-2, 0.3, "s", "from arrival to the scheduler, and back with a token"
    ),
    "serial_s": EngineConstant(
        4.0e-3, 0.5, "s", "of a request in the front end, one after the other"
    ),
    "front_end_s": EngineConstant(
        2.0e-5, 0.4, "s", "of a token in the front end, one after the other"
    ),
    "cold_s": EngineConstant(
        0.7, 0.5, "s", "of the first prompts of a mixture on a server just started"
    ),
    "launch_s": EngineConstant(
        1.0e-3, 0.6, "s", "of a layer of experts in a step that prefills, at least"
    ),
    "mixture_s": EngineConstant(
        1.0e-6, 0.3, "s", "of a layer of experts in every step, around kernels"
    ),
    "decode_gain": EngineConstant(1.0, 0.02, "1", "on the kernels of decoding"),
    "prefill_gain": EngineConstant(1.05, 0.05, "1", "on the kernels of prompts"),
    "passes": EngineConstant(
        1.0, 0.05, "1", "on passes over activations, as far as they are fused"
    ),
    "experts": EngineConstant(1.0, 0.08, "1", "on routed experts"),
}
"""Constants of an engine. Priors after ``c_step`` 1 ms, ``c_seq`` 10 µs and ``c_pre`` 2 ms, which
hold for every modern engine; gains are those of kernels that were measured alone."""
KERNELS: Final[Mapping[str, EngineConstant]] = {
    "start": EngineConstant(0.85, 0.05, "1", "on the start of a product, inside a CUDA graph"),
    "start_low": EngineConstant(0.22, 0.2, "1", "the same in fp8 or nvfp4 whose inputs are fused"),
    "start_pass": EngineConstant(
        0.8, 0.3, "1", "on the start of a pass over activations, part fused"
    ),
    "experts_start": EngineConstant(
        0.4, 0.4, "1", "on what is around the products of routed experts"
    ),
    "experts_all": EngineConstant(1.0, 0.1, "1", "on routed experts of every engine"),
    "experts_apart": EngineConstant(
        1.0, 0.3, "1", "on routed experts spread over groups of devices"
    ),
    "experts_prompts": EngineConstant(
        1.0, 0.3, "1", "on prompts of mixtures, whose experts are uneven"
    ),
    "interconnect": EngineConstant(1.0, 0.1, "1", "on collectives"),
}
"""Constants of the kernels that all engines run. ``start_low`` is the start of a product in 16 bits
over the one of such a product that was measured with the conversion of its inputs, at 0.85: 2.7 of
12.3 µs in fp8 on an H100, 2.1 of 6.3 in nvfp4 on a B200 (TensorRT-LLM's tables)."""


_OLD: Final = {
    "request_s": (1.0e-3, 0.5),
    "prefill_s": (5.0e-4, 0.6),
    "decode_gain": (1.0, 0.1),
    "prefill_gain": (1.0, 0.1),
}
_VLLM: Final = {"launch_s": (2e-4, 0.6), "cold_s": (0.1, 0.7)}
"""Prompts run in piecewise CUDA graphs, and a step of as many tokens as one may have runs before
the first request (docs.vllm.ai, design: CUDA graphs; memory profiling)."""
_TRTLLM: Final = {  # its overlap scheduler hides the host, norms are fused (nvidia.github.io)
    "step_s": (4e-4, 0.4),
    "passes": (0.8, 0.3),
    "decode_gain": (0.97, 0.03),
    "serial_s": (1.2e-2, 0.5),
    "request_s": (1.5e-2, 0.4),
}
_VLLM_SYNC: Final = _VLLM | {"step_s": (2.2e-3, 0.4), "sequence_s": (3.7e-5, 0.4)}
"""Schedules between steps: 2.4 ms a step more than ahead, with 48 clients of Qwen3-32B (44.2 and
41.7 to 41.9 ms, vllm-ascend pull request 2783; another device and host). How much of that is of
each sequence is not said: half is assumed."""
PRIORS: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "vllm": _VLLM,
    "vllm-sync": _VLLM_SYNC,
    "trtllm": _TRTLLM,
    "trtllm-1.1": _TRTLLM | {"mixture_s": (2e-5, 0.6)},
    "trtllm-1.0": _TRTLLM | {"front_end_s": (1e-4, 0.5)},
    "sglang": {"front_end_s": (5e-5, 0.5)},
    ROCM: {
        "mixture_s": (1e-4, 1.0),
        "decode_gain": (1.1, 0.2),
        "prefill_gain": (1.1, 0.3),
        "front_end_s": (5e-5, 0.5),
    },
    "vllm-2024": _OLD | {"sequence_s": (7.5e-5, 0.4), "prefill_s": (5e-3, 0.5)},
    "trtllm-2024": _OLD,
    "trtllm-2023": _OLD,
    "fastertransformer": _OLD | {"step_s": (4.9e-3, 0.4)},
    "megatron": _OLD
    | {"step_s": (5e-2, 0.6), "decode_gain": (1.3, 0.3), "prefill_gain": (1.3, 0.3)},
    "deepspeed-mii": _OLD | {"step_s": (6.5e-3, 0.4)},
    "llama.cpp": _OLD | {"decode_gain": (1.1, 0.2), "prefill_gain": (2.0, 0.4)},
    "lmdeploy": {},
    "splitwise": _OLD | {"step_s": (1e-2, 0.6), "sequence_s": (7.5e-5, 0.6)},
    "gpt-fast": _OLD,
    UNKNOWN: {"decode_gain": (1.1, 0.2), "prefill_gain": (1.1, 0.2)},
}
"""By profile, priors that are not those of `CONSTANTS`: value and log standard deviation. Those of
engines that were measured in 2023 and 2024 are assumed; constants are fitted."""
PROFILES: Final = tuple(PRIORS)
"""Names of profiles, in the order of the fit."""


def prior(profile: str, constant: str) -> tuple[float, float]:
    """Value of a constant of a profile before any row, and its log standard deviation."""
    known = CONSTANTS[constant]
    return PRIORS[profile].get(constant, (known.prior, known.log_sd))
