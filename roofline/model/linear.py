"""A matrix that every token is multiplied with."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["column", "row", "none"]


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix that every token is multiplied with: ``y[n] = W[n, k] · x[k] (+ b[n])``."""

    name: str
    """Role: ``"qkv"``, ``"attn-out"``, ``"gate-up"``, ``"down"``."""
    n: int
    k: int
    """Output and input width. [1]"""
    biased: int = 0
    """Outputs that have a bias: 0, n, or only some of them. [1]"""
    split: Split = "column"
    """How tensor parallelism divides it: by outputs (column), by inputs (row), or not at all."""

    @property
    def parameters(self) -> int:
        """Weights and biases. [parameter]"""
        return self.n * self.k + self.biased
