"""Matrices that tokens are multiplied with."""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

Split: TypeAlias = Literal["column", "row", "none"]
ROUTER: Final = "router"
"""Role of the matrix that chooses a token's experts."""
Group: TypeAlias = Literal["layer", "shared", "expert"]


class Linear(Struct, frozen=True):
    """A matrix that every token is multiplied with: ``y[n] = W[n, k] · x[k] (+ b[n])``."""

    name: str
    """Role: ``"qkv"``, ``"attn-out"``, ``"gate-up"``, ``"down"``."""
    n: int
    k: int
    """Output and input width. [1]"""
    biased: int = 0
    """Outputs that have a bias: 0, n, or only some of them. [1]"""
    split: Split = "column"
    """Division by tensor parallelism: by outputs (column), by inputs (row), or none."""
    group: Group = "layer"
    """Devices that divide it, as `roofline.cost.layout.Layout.sharing` counts them: those of the
    layer, of what tokens meet beside routed experts, or of one expert."""

    @property
    def parameters(self) -> int:
        """Weights and biases. [parameter]"""
        return self.n * self.k + self.biased
