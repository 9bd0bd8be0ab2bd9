"""Networks whose kinds of layer are not understood yet. This list can only get shorter."""

from typing import Final

WAITING: Final[frozenset[str]] = frozenset()
"""Model types: mixtures of experts, latent and sparse attention, recurrent layers."""
