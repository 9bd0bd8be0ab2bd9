"""What serving engines add to their kernels, and how they fill a step: one fitted file for each.

A step that decodes B sequences and prefills prompts takes

    max(front·tokens, g_dec·decode(B) + [prompts]·(g_pre·prefill + c_pre) + c_step + c_seq·B)

and a request waits for the front end before it is scheduled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Policy = Literal["decode-first", "whole-prompts", "prefill-first"]
FOLDER: Final = "calibrations/engines"
SHARED: Final = "kernels"
"""File of what all engines share."""
UNKNOWN: Final = "unknown"
"""Profile of an engine that no row was measured of: priors of a modern one."""


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
    "step_s": Constant(1.0e-3, 0.12, "s", "of every step: scheduling, sampling, launches"),
    "sequence_s": Constant(1.2e-5, 0.3, "s", "of every sequence that decodes, in a step"),
    "prefill_s": Constant(2.0e-3, 0.4, "s", "of a step that prefills, beside its kernels"),
    "request_s": Constant(2.5e-2, 0.3, "s", "from arrival to the scheduler, and back with a token"),
    "serial_s": Constant(4.0e-3, 0.5, "s", "of a request in the front end, one after the other"),
    "front_end_s": Constant(2.0e-5, 0.4, "s", "of a token in the front end, one after the other"),
    "mixture_s": Constant(1.0e-1, 0.5, "s", "added to the first token by mixtures of experts"),
    "decode_gain": Constant(1.0, 0.02, "1", "on the kernels of decoding"),
    "prefill_gain": Constant(1.05, 0.05, "1", "on the kernels of prompts"),
    "experts": Constant(1.0, 0.08, "1", "on routed experts"),
}
"""Of an engine. Priors after ``c_step`` 1 ms, ``c_seq`` 10 µs and ``c_pre`` 2 ms, which hold for
every modern engine; gains are those of kernels that were measured alone."""
KERNELS: Final[Mapping[str, Constant]] = {
    "start": Constant(0.85, 0.05, "1", "on the start of a product, inside a CUDA graph"),
    "start_low": Constant(0.55, 0.12, "1", "the same in 8 bits or fewer, whose inputs are fused"),
    "start_pass": Constant(0.4, 0.15, "1", "on the start of a pass over activations, fused in part"),
    "experts_start": Constant(1.0, 0.15, "1", "on the start of a mixture of experts"),
    "experts_all": Constant(0.9, 0.1, "1", "on routed experts of every engine"),
    "experts_prompts": Constant(1.0, 0.3, "1", "on prompts of mixtures, whose experts are uneven"),
    "interconnect": Constant(1.0, 0.1, "1", "on collectives"),
    "blackwell_dense": Constant(1.0, 0.08, "1", "on kernels carried to Blackwell, dense ones"),
    "blackwell_experts": Constant(1.0, 0.2, "1", "on routed experts carried to Blackwell"),
    "blackwell_attention": Constant(1.0, 0.15, "1", "on attention carried to Blackwell"),
}
"""Of the kernels that all engines run."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How an engine fills a step, and what it is known by.

    Attributes
    ----------
    name
        Of its profile.
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
    "request_s": (1.0e-3, 0.5),
    "prefill_s": (5.0e-4, 0.6),
    "decode_gain": (1.0, 0.1),
    "prefill_gain": (1.0, 0.1),
}
ENGINES: Final = (
    Engine(
        "vllm", "decode-first", 8192, 1024, 0.7, ("vllm",), {"sequence_s": (2e-5, 0.3)}, modern=True
    ),
    Engine(
        "trtllm",
        "whole-prompts",
        8192,
        2048,
        1.0,
        ("trtllm",),
        {"decode_gain": (0.94, 0.06), "serial_s": (1.2e-2, 0.5), "request_s": (1.5e-2, 0.4)},
        modern=True,
    ),
    Engine(
        "sglang",
        "prefill-first",
        8192,
        1024,
        0.7,
        ("sglang",),
        {"front_end_s": (5e-5, 0.5), "mixture_s": (1.5e-1, 0.4)},
        modern=True,
    ),
    Engine(
        "vllm-2024",
        "prefill-first",
        8192,
        256,
        0.7,
        ("vLLM",),
        _OLD | {"sequence_s": (7.5e-5, 0.4), "prefill_s": (5e-3, 0.5)},
    ),
    Engine("trtllm-2024", "whole-prompts", 8192, 2048, 1.0, (), _OLD),
    Engine("trtllm-2023", "whole-prompts", WHOLE, 4096, 1.0, ("TensorRT-LLM",), _OLD),
    Engine(
        "fastertransformer",
        "whole-prompts",
        WHOLE,
        4096,
        1.0,
        ("fastertransformer",),
        _OLD | {"step_s": (4.9e-3, 0.4)},
    ),
    Engine(
        "megatron",
        "whole-prompts",
        WHOLE,
        4096,
        1.0,
        ("megatron",),
        _OLD | {"step_s": (5e-2, 0.6), "decode_gain": (1.3, 0.3), "prefill_gain": (1.3, 0.3)},
    ),
    Engine(
        "deepspeed-mii",
        "decode-first",
        2048,
        512,
        0.7,
        ("Deepspeed-MII", "deepspeed"),
        _OLD | {"step_s": (6.5e-3, 0.4)},
    ),
    Engine(
        "llama.cpp",
        "decode-first",
        512,
        1,
        1.0,
        ("llama.cpp",),
        _OLD | {"decode_gain": (1.1, 0.2), "prefill_gain": (2.0, 0.4)},
        reach=1.4e12,
    ),
    Engine("lmdeploy", "whole-prompts", 8192, 256, 0.5, ("lmdeploy-turbomind",), {}),
    Engine(
        "splitwise",
        "whole-prompts",
        WHOLE,
        512,
        1.0,
        ("splitwise-profile(engine unstated in repo)",),
        _OLD | {"step_s": (1e-2, 0.6), "sequence_s": (7.5e-5, 0.6)},
    ),
    Engine("gpt-fast", "decode-first", WHOLE, 8, 1.0, ("gpt-fast",), _OLD),
    Engine(
        UNKNOWN,
        "decode-first",
        8192,
        512,
        0.7,
        (),
        {"decode_gain": (1.1, 0.2), "prefill_gain": (1.1, 0.2)},
    ),
)
"""Profiles. Policies, budgets and priors of those that were measured in 2023 and 2024 are facts of
their documentation or assumed; constants are fitted. llama.cpp decodes at the rate of the memory of
A40 and L40S, and hardly faster on devices with two to four times as much."""
_BY_NAME: Final = {engine.name: engine for engine in ENGINES}
_CALLED: Final = {name: engine for engine in ENGINES for name in engine.names}
OLD_VERSIONS: Final = {
    "trtllm": (((1, 0), "trtllm"), ((0, 10), "trtllm-2024"), ((0, 0), "trtllm-2023")),
    "vllm": (((0, 6), "vllm"), ((0, 0), "vllm-2024")),
}
"""First version of each profile, latest first: TensorRT-LLM 0.10 brought the executor that batches
in flight to its benchmarks, 1.0 the PyTorch workflow; vLLM 0.6 multi-step scheduling."""


def engine_of(name: str, version: str) -> Engine:
    """Profile for the engine of a row, that of an unknown one where no row was measured of it.

    A version decides; without one the spelling does, for sources of 2024 write "vLLM".

    >>> engine_of("vLLM", "0.15.1").name, engine_of("vLLM", "").name, engine_of("mlc", "").name
    ('vllm', 'vllm-2024', 'unknown')
    """
    plain = name.lower().replace("-", "").replace("tensorrtllm", "trtllm")
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdigit())
    if plain in OLD_VERSIONS and len(numbers) == 2:
        return _BY_NAME[next(name for first, name in OLD_VERSIONS[plain] if numbers >= first)]
    return _CALLED.get(name) or _CALLED.get(plain) or _BY_NAME[UNKNOWN]


def prior(engine: Engine, constant: str) -> tuple[float, float]:
    """Value of a constant of an engine before any row, and its log standard deviation."""
    known = CONSTANTS[constant]
    return engine.priors.get(constant, (known.prior, known.log_sd))
