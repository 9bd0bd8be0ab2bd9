"""LoRA adapters: their popularity, the number that a step touches, and how often one is loaded.

An adapter adds B·(A·x) to a linear layer: A of in × R, B of R × out. Every sequence has one, and
sequences choose independently, uniformly or by Zipf's law.
Source: Hu et al. 2021 (arXiv 2106.09685), section 4.1.
"""

from functools import cache
from typing import Final

import numpy as np
from msgspec import Struct

from roofline.cost.work import Array, Formula, Number, Work, by
from roofline.errors import InputError
from roofline.model.architecture import Block

SUM: Final = 4.0
"""Bytes of an element between the two products: single precision. Source: vLLM 0.11,
lora/punica_wrapper/punica_gpu.py, ``add_lora_linear``. [B]"""
MOST_ADAPTERS: Final = 100_000
MOST_RANK: Final = 4096
PLACES: Final = 2**22
"""Adapters times batches that are computed at once."""
HALVINGS: Final = 100
_MODULES: Final = {
    "qkv": 3,
    "gate-up": 2,
    "shared-gate-up": 2,
    "latent-down": 2,
    "linear-qkv": 3,
    **dict.fromkeys(("attn-out", "attn-gate", "q", "q-up", "up", "down"), 1),
    **dict.fromkeys(("shared-up", "shared-down", "linear-qkvz", "linear-ba", "linear-gate"), 1),
    **dict.fromkeys(("linear-out", "ssm-in", "ssm-out", "conv-in", "conv-out"), 1),
}
"""Layers of a checkpoint that engines join in one product, each with an adapter of its own.

Routers, indexers, routed experts and products that are absorbed into attention have none."""


class Lora(Struct, frozen=True):
    """Adapters that requests ask for."""

    adapters: int = 0
    """Different adapters; 0 for none. [1]"""
    lora_rank: int = 16
    """Rank R of each. [1]"""
    lora_targets: str = ""
    """Linear layers that have one, with commas between; empty for all. [role]"""
    max_loras: int = 0
    """Adapters that are kept on the device, and of a step at most; 0 for all. [1]"""
    adapter_skew: float = 0.0
    """Exponent s of Zipf's law of their popularity; 0 where all are alike. [1]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for name, value, least, most in (
            ("adapters", self.adapters, 0, MOST_ADAPTERS),
            ("lora rank", self.lora_rank, 1, MOST_RANK),
            ("max loras", self.max_loras, 0, MOST_ADAPTERS),
        ):
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{name} is {value!r:.40}", hint="give a whole number")
            if not least <= value <= most:
                raise InputError(
                    f"{name} is {value}", hint=f"give a number from {least} to {most:,}"
                )
        if not 0 <= self.adapter_skew <= 10:
            raise InputError(
                f"adapter skew is {self.adapter_skew:g}",
                hint="give 0 where all adapters are alike, or Zipf's exponent, up to 10",
            )
        if not self.adapters and (
            self.lora_rank != 16 or self.lora_targets or self.max_loras or self.adapter_skew
        ):
            raise InputError(
                "no adapters, but their rank, layers, number or popularity",
                hint="say how many there are: `adapters=100`",
            )

    @property
    def targets(self) -> tuple[str, ...]:
        """Roles of the linear layers that have an adapter; empty for all."""
        return tuple(each.strip() for each in self.lora_targets.split(",") if each.strip())

    @property
    def kept(self) -> int:
        """Adapters on the device at once. [1]"""
        return min(self.max_loras or self.adapters, self.adapters)

    @property
    def moves(self) -> bool:
        """True where adapters are loaded on demand, as not all are kept."""
        return self.kept < self.adapters

    def modules(self, block: Block | None, role: str) -> int:
        """Adapters of a matrix: of each layer that is part of it; 0 where it has none. [1]

        Examples:
            >>> from roofline.model.catalog import architecture
            >>> block = architecture("llama-3.1-8b").layers[0]
            >>> [Lora(8).modules(block, role) for role in ("qkv", "attn-out", "gate-up", "router")]
            [3, 1, 2, 0]
        """
        if not self.adapters or block is None or (self.targets and role not in self.targets):
            return 0
        return modules(block, role)

    def touched(self, sequences: Number) -> Number:
        """Expected number of different adapters of a step, those that fit at most. [1]"""
        return np.minimum(distinct(self.adapters, self.adapter_skew, sequences), self.kept)


NO_ADAPTERS: Final = Lora()
"""The network alone."""


def modules(block: Block, role: str) -> int:
    """Layers of a checkpoint that the matrix of a role joins; 0 where none can have an adapter.

    Source: ``packed_modules_mapping`` of vLLM's models, 0.11.
    """
    own = block.mixer.adapter_modules(role) if block.mixer is not None else None
    return _MODULES.get(role, 0) if own is None else own


@cache
def popularity(adapters: int, skew: float) -> Array:
    """Probability that a sequence asks for each adapter: i^−s / Σ j^−s.

    Source: Zipf's law; S-LoRA's traffic has a power law, too (arXiv 2311.03285, section 7.1).

    Args:
        adapters: How many there are. [1]
        skew: Exponent s. [1]

    Examples:
        >>> popularity(2, 1.0).round(3).tolist()
        [0.667, 0.333]
    """
    weights = np.arange(1.0, adapters + 1.0) ** -skew
    out: Array = weights / weights.sum()
    out.setflags(write=False)
    return out


def distinct(adapters: int, skew: float, sequences: Number) -> Number:
    """Expected number of different adapters that sequences ask for: Σ 1 − (1 − pᵢ)^B. [1]

    Source: linearity of expectation; the coupon collector with unequal probabilities.

    Args:
        adapters: How many there are. [1]
        skew: Exponent of Zipf's law. [1]
        sequences: B. [1]

    Examples:
        Two sequences that choose between two adapters ask for one half of the time:

        >>> float(distinct(2, 0.0, 2.0))
        1.5
    """
    rows = np.asarray(sequences, np.float64)
    if skew == 0:
        return (adapters * (1.0 - (1.0 - 1.0 / adapters) ** rows))[()]
    flat, absent = rows.ravel(), 1.0 - popularity(adapters, skew)
    step = max(PLACES // adapters, 1)
    found = [
        (1.0 - absent[:, None] ** flat[start : start + step]).sum(axis=0)
        for start in range(0, len(flat), step)
    ]
    return np.concatenate(found).reshape(rows.shape)[()] if found else rows


def hit_rate(adapters: int, skew: float, kept: int) -> float:
    """Share of requests whose adapter is on the device, the last ones used being kept: LRU. [1]

    An adapter is there if it was asked for within the last T requests, T so that Σ 1 − e^(−pᵢ·T) is
    as many as are kept. Source: Che, Tung and Wang 2002, Hierarchical Web caching systems; Fricker,
    Robert and Roberts 2012 (arXiv 1202.3974) for why it is close.

    Args:
        adapters: How many there are. [1]
        skew: Exponent of Zipf's law. [1]
        kept: Adapters that the device holds. [1]

    Examples:
        Where all are alike it is the share that is kept:

        >>> round(hit_rate(100, 0.0, 25), 9)
        0.25
    """
    if kept >= adapters:
        return 1.0
    chances = popularity(adapters, skew)

    def there(time: float) -> Array:
        out: Array = -np.expm1(-chances * time)
        return out

    low, high = 0.0, 1.0
    while there(high).sum() < kept:
        high *= 2.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if there(middle).sum() < kept else (low, middle)
    return float(chances @ there(low))


def shrink(
    m: Number, k: Number, *, rank: float, modules: float, touched: Number, width: float
) -> Work:
    """First product of a layer's adapters: ``S[m, modules·R] = X[m, k] · A``.

    Source: Chen et al. 2023 (Punica, arXiv 2310.18547), section 4.

    Args:
        m: Tokens. [token]
        k: Input width on this device. [1]
        rank: R. [1]
        modules: Layers that are joined, each with a matrix A of its own. [1]
        touched: Different adapters of the step. [1]
        width: Bytes per element of inputs and adapters. [B]

    Examples:
        >>> shrink(4.0, 100.0, rank=8.0, modules=1.0, touched=2.0, width=2.0).weight_bytes
        3200.0
    """
    return Work(
        flops=(2.0 * k * modules * rank) * m,
        weight_bytes=(k * modules * rank * width) * touched,
        activation_bytes=(k * width + modules * rank * SUM) * m,
        made=by(SHRINK, locals()),
    )


def expand(
    m: Number, n: Number, *, rank: float, modules: float, touched: Number, width: float
) -> Work:
    """Second product of a layer's adapters, added to its output: ``Y[m, n] += S · B``.

    Each output is of one of the joined layers: it sees R numbers. Source: as `shrink`.

    Args:
        m: Tokens. [token]
        n: Output width on this device. [1]
        rank, modules, touched: As for `shrink`. [1]
        width: As for `shrink`. [B]

    Examples:
        >>> expand(4.0, 100.0, rank=8.0, modules=1.0, touched=2.0, width=2.0).flops
        6400.0
    """
    return Work(
        flops=(2.0 * n * rank) * m,
        weight_bytes=(n * rank * width) * touched,
        activation_bytes=(2.0 * n * width + modules * rank * SUM) * m,
        made=by(EXPAND, locals()),
    )


_TOUCHED: Final = (
    (
        "touched",
        "expected different adapters of the sequences: Σ 1 − (1 − pᵢ)^B, those kept at most",
    ),
    ("modules", "layers of the checkpoint that are joined in the product"),
    ("rank", "`lora_rank`"),
)
SHRINK: Final = Formula(
    flops="2 · m · k[ · modules] · rank",
    weight_bytes="touched · k[ · modules] · rank · width",
    activation_bytes=f"m · (k · width + modules · rank · {SUM:g})",
    meanings=_TOUCHED,
)
EXPAND: Final = Formula(
    flops="2 · m · n · rank",
    weight_bytes="touched · n · rank · width",
    activation_bytes=f"m · (2 · n · width + modules · rank · {SUM:g})",
    meanings=_TOUCHED,
)
