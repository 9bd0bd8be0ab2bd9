"""A matrix that every token is multiplied with."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["column", "row", "none"]


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix that every token is multiplied with: ``y[n] = W[n, k] · x[k] (+ b[n])``.

    Attributes
    ----------
    name
        Role: ``"qkv"``, ``"attn-out"``, ``"gate-up"``, ``"down"``.
    n, k
        Output and input width. [1]
    biased
        Outputs that have a bias: 0, n, or only some of them. [1]
    split
        How tensor parallelism divides it: by outputs (column), by inputs (row), or not at all.
    """

    name: str
    n: int
    k: int
    biased: int = 0
    split: Split = "column"

    @property
    def parameters(self) -> int:
        """Weights and biases. [parameter]"""
        return self.n * self.k + self.biased
