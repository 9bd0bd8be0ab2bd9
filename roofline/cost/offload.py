"""What is kept outside device memory: weights and cache on the host or its storage."""

from dataclasses import dataclass
from typing import Final, Literal

from roofline.errors import InputError


@dataclass(frozen=True, slots=True)
class Offload:
    """Shares that are kept outside device memory and loaded when they are needed."""

    weights: float = 0.0
    """Share of the weights of every layer; embedding and LM head stay. [1]"""
    kv: float = 0.0
    """Share of the cache. [1]"""
    to: Literal["cpu", "nvme"] = "cpu"
    """``"cpu"``: the host's memory. ``"nvme"``: its storage, through that memory."""
    prefetch: bool = True
    """Whether the next layer is loaded while one computes."""
    least: bool = False
    """Whether the share of the weights is the least with which they fit, and follows changes."""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for name, share in (("weights", self.weights), ("kv", self.kv)):
            if not 0 <= share <= 1:
                raise InputError(
                    f"offloaded share of {name} is {share:g}", hint="give a share from 0 to 1"
                )
        if self.to not in ("cpu", "nvme"):
            raise InputError(f"offload to {self.to!r:.20}", hint="it is cpu or nvme")

    @property
    def any(self) -> bool:
        """Whether anything is kept outside."""
        return self.weights > 0 or self.kv > 0

    @property
    def ahead(self) -> bool:
        """Whether something is loaded ahead."""
        return self.any and self.prefetch


KEPT: Final = Offload()
"""Everything in device memory."""
