"""What serving engines add to their kernels, and how they fill a step: one fitted file for each.

A step that decodes B sequences and prefills prompts takes

    max(front·tokens, g_dec·decode(B) + [prompts]·(g_pre·prefill + c_pre) + c_step + c_seq·B)

and a request waits for the front end before it is scheduled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from roofline.hardware import engine as catalog

Policy = Literal["decode-first", "whole-prompts", "prefill-first"]
UNKNOWN: Final = catalog.UNKNOWN
"""Profile of an engine that no row was measured of: priors of a modern one."""
FOLDER: Final = "calibrations/engines"
SHARED: Final = "kernels"
"""File of what all engines share."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A fitted constant and what was believed before.

    Attributes
    ----------
    prior, log_sd
        Value before any row was seen, and the standard deviation of its logarithm.
    unit
        ``"s"`` or ``"1"``.
    meaning
        One phrase.
    """

    prior: float
    log_sd: float
    unit: str
    meaning: str


CONSTANTS: Final[Mapping[str, Constant]] = {
    "step": Constant(1.0e-3, 0.12, "s", "of every step: scheduling, sampling, launches"),
    "sequence": Constant(1.2e-5, 0.3, "s", "of every sequence that decodes, in a step"),
    "prefill": Constant(2.0e-3, 0.4, "s", "of a step that prefills, beside its kernels"),
    "request": Constant(2.5e-2, 0.3, "s", "from arrival to the scheduler, and back with a token"),
    "serial": Constant(4.0e-3, 0.5, "s", "of a request in the front end, one after the other"),
    "front": Constant(2.0e-5, 0.4, "s", "of a token in the front end, one after the other"),
    "mixture": Constant(1.0e-1, 0.5, "s", "added to the first token by mixtures of experts"),
    "decode_gain": Constant(1.0, 0.02, "1", "on the kernels of decoding"),
    "prefill_gain": Constant(1.05, 0.05, "1", "on the kernels of prompts"),
    "experts": Constant(1.0, 0.08, "1", "on routed experts"),
}
"""Of an engine. Priors after ``c_step`` 1 ms, ``c_seq`` 10 µs and ``c_pre`` 2 ms, which hold for
every modern engine; gains are those of kernels that were measured alone."""
KERNELS: Final[Mapping[str, Constant]] = {
    "start": Constant(0.85, 0.05, "1", "on the start of a product, inside a CUDA graph"),
    "start_low": Constant(0.55, 0.12, "1", "the same in 8 bits or fewer, whose inputs are fused"),
    "experts_start": Constant(1.0, 0.15, "1", "on the start of a mixture of experts"),
    "experts_all": Constant(0.9, 0.1, "1", "on routed experts of every engine"),
    "experts_prompts": Constant(1.0, 0.3, "1", "on prompts of mixtures, whose experts are uneven"),
    "wires": Constant(1.0, 0.1, "1", "on collectives"),
    "blackwell_dense": Constant(1.0, 0.08, "1", "on kernels carried to Blackwell, dense ones"),
    "blackwell_experts": Constant(1.0, 0.2, "1", "on routed experts carried to Blackwell"),
    "blackwell_attention": Constant(1.0, 0.15, "1", "on attention carried to Blackwell"),
}
"""Of the kernels that all engines run."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How an engine fills a step, and the names that sources give it.

    Attributes
    ----------
    name
        Name of its profile.
    policy
        ``"decode-first"``: decoding sequences, then chunks of prompts up to the budget (vLLM).
        ``"whole-prompts"``: together with whole prompts up to the budget (TensorRT-LLM).
        ``"prefill-first"``: steps of prompts only as long as there are any (SGLang).
    budget
        New tokens of a step. [token]
    most
        Sequences at once. [1]
    reserved
        Share of the answer that a request must have room for when it is admitted. [1]
    names
        Engines of rows that it stands for, as sources write them.
    priors
        Where not those of `CONSTANTS`: value and log standard deviation.
    modern
        Whether it runs the kernels that `KERNELS` is fitted to: in graphs, fused.
    reach
        Device memory rate beyond which its decoding gets no faster. [B/s]
    """

    name: str
    policy: Policy
    budget: int
    most: int
    reserved: float
    names: tuple[str, ...]
    priors: Mapping[str, tuple[float, float]]
    modern: bool = False
    reach: float = float("inf")


WHOLE: Final = 2**30
"""No limit of tokens: a static batch is prefilled at once."""
_OLD: Final = {
    "request": (1.0e-3, 0.5),
    "prefill": (5.0e-4, 0.6),
    "decode_gain": (1.0, 0.1),
    "prefill_gain": (1.0, 0.1),
}
_PRIORS: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "vllm": {"sequence": (2e-5, 0.3)},
    "trtllm": {"decode_gain": (0.94, 0.06), "serial": (1.2e-2, 0.5), "request": (1.5e-2, 0.4)},
    "sglang": {"front": (5e-5, 0.5), "mixture": (1.5e-1, 0.4)},
    "vllm-2024": _OLD | {"sequence": (7.5e-5, 0.4), "prefill": (5e-3, 0.5)},
    "trtllm-2024": _OLD,
    "trtllm-2023": _OLD,
    "fastertransformer": _OLD | {"step": (4.9e-3, 0.4)},
    "megatron": _OLD | {"step": (5e-2, 0.6), "decode_gain": (1.3, 0.3), "prefill_gain": (1.3, 0.3)},
    "deepspeed-mii": _OLD | {"step": (6.5e-3, 0.4)},
    "llama.cpp": _OLD | {"decode_gain": (1.1, 0.2), "prefill_gain": (2.0, 0.4)},
    "lmdeploy": {},
    "splitwise": _OLD | {"step": (1e-2, 0.6), "sequence": (7.5e-5, 0.6)},
    "gpt-fast": _OLD,
    UNKNOWN: {"decode_gain": (1.1, 0.2), "prefill_gain": (1.1, 0.2)},
}
"""Priors of each profile, in the order of the fit."""
_FITTED_WITH: Final[Mapping[str, Mapping[str, Any]]] = {
    "vllm": {"reserved": 0.7},
    "sglang": {"budget": 8192, "most": 1024},
}
"""Where the fit differs from the catalog: the shipped constants were fitted with these."""
_POLICIES: Final[Mapping[tuple[str, str], Policy]] = {
    ("chunked", "decode"): "decode-first",
    ("continuous", "decode"): "whole-prompts",
    ("continuous", "prefill"): "prefill-first",
}


def _profiled(name: str) -> Engine:
    """Engine of the catalog as the loop of measured rows runs it."""
    known = catalog.engine(name)
    made = Engine(
        name,
        _POLICIES[known.policy, known.first],
        int(known.step_tokens.value) or WHOLE,
        int(known.sequences.value),
        known.reservation,
        known.aliases,
        _PRIORS[name],
        known.graph_kernels,
        known.decode_reach_bytes_per_s,
    )
    return replace(made, **_FITTED_WITH.get(name, {}))


ENGINES: Final = tuple(_profiled(name) for name in _PRIORS)
"""Profiles. Policies, budgets and limits are those of the catalog of engines on large devices;
constants are fitted."""
_BY_NAME: Final = {engine.name: engine for engine in ENGINES}


def engine_of(name: str, version: str) -> Engine:
    """Profile for the engine of a row, that of an unknown one where no row was measured of it.

    >>> engine_of("vLLM", "0.15.1").name, engine_of("vLLM", "").name, engine_of("mlc", "").name
    ('vllm', 'vllm-2024', 'unknown')
    """
    return _BY_NAME[catalog.engine_of(name, version).name]


def prior(engine: Engine, constant: str) -> tuple[float, float]:
    """Value of a constant of an engine before any row, and its log standard deviation."""
    known = CONSTANTS[constant]
    return engine.priors.get(constant, (known.prior, known.log_sd))
