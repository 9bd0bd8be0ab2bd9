"""Encoders of pictures, whose outputs stand among the tokens of a prompt."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InputError
from roofline.model.architecture import Attention, Block, Linear, Mlp

Number: TypeAlias = float | NDArray[np.float64]

MOST_IMAGES: Final = 10_000
MOST_PIXELS: Final = 16_384


@dataclass(frozen=True, slots=True)
class Pictures:
    """Pictures in each prompt, all alike and square."""

    images: int = 0
    """Pictures. [1]"""
    image_size: int = 1024
    """Pixels of a side. [1]"""
    after: int = 0
    """Tokens of a prompt before the first of them, which others may share. [token]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for name, value, least, most in (
            ("images", self.images, 0, MOST_IMAGES),
            ("image_size", self.image_size, 1, MOST_PIXELS),
        ):
            if not least <= value <= most:
                raise InputError(
                    f"`{name}` is {value}", hint=f"give a number from {least} to {most:,}"
                )


NO_PICTURES: Final = Pictures()
"""Text alone."""


@dataclass(frozen=True, slots=True)
class Tower:
    """A vision transformer, and the matrices that turn its outputs into tokens of the decoder."""

    width: int
    """Width of its layers. [1]"""
    layers: tuple[Block, ...]
    """One for each layer; the first one has the matrix of the patches, too."""
    projector: tuple[Linear, ...]
    """Matrices that each token of the decoder is made with."""
    patch: int
    """Pixels of a side of a patch. [1]"""
    merge: int = 1
    """Patches of a side that become one token. [1]"""
    side: int = 0
    """Pixels of a side that each picture, or tile, is scaled to; 0 where patches are as many as
    there are in the picture. [1]"""
    tiles: int = 1
    """Tiles that a larger picture is cut into at most; the whole, scaled down, comes beside
    them. [1]"""
    extra: int = 0
    """Patches beside those of the picture: a class. [1]"""
    heads: int = 1
    """Heads that devices divide between them. [1]"""
    squares: int = 0
    """Patches of a square that see only each other; 0 where all see all. [1]"""
    whole: int = 0
    """Layers in which all see each other all the same. [1]"""

    def cut(self, pixels: int) -> int:
        """Tiles of a picture, with the whole one where there are several. [1]"""
        if not self.side or self.tiles == 1:
            return 1
        each = ceil(pixels / self.side)
        while each > 1 and each * each > self.tiles:
            each -= 1
        return 1 if each == 1 else each * each + 1

    def across(self, pixels: int) -> int:
        """Patches of a side, a multiple of those that are merged. [1]"""
        step = self.patch * self.merge
        return max(round((self.side or pixels) / step), 1) * self.merge

    def patches(self, pixels: int) -> int:
        """Patches of one tile that the tower sees. [1]"""
        return self.across(pixels) ** 2 + self.extra

    def devices(self, tp: Number) -> Number:
        """Devices that share it, of those that share every layer. [1]

        One where its heads do not divide over them, so that each has it whole.

        Source: ``intern_vit.py`` of vLLM, which then divides no attention of its tower; that its
        other matrices are whole too is assumed.
        """
        return np.where(self.heads % np.asarray(tp) == 0, tp, 1)[()]

    def share(self, seen: Pictures, new: Number, before: Number) -> Number:
        """Share of the pictures of a prompt among some of its tokens. [1]

        Source: tokens that two intervals have in common.

        Args:
            seen: Pictures of the prompt, one after the other.
            new, before: Tokens, and those of the prompt before them. [token]

        Examples:
            Half of the 256 tokens of a picture that begins after 100 others:

            >>> tower = Tower(1152, (), (), patch=14, merge=4, side=896)
            >>> float(tower.share(Pictures(images=1, after=100), 228, 0))
            0.5
        """
        tokens = seen.images * self.tokens(seen.image_size)
        first, last = (np.clip(end - seen.after, 0, tokens) for end in (before, before + new))
        found: Number = (last - first) / tokens
        return found

    def tokens(self, pixels: int) -> int:
        """Tokens of the decoder that a picture becomes. [token]

        Examples:
            Patches of 14 pixels, four of which are a token:

            >>> Tower(1280, (), (), patch=14, merge=2).tokens(1024)
            1369
        """
        return self.cut(pixels) * (self.across(pixels) // self.merge) ** 2


def transformer(
    *,
    width: int,
    layers: int,
    heads: int,
    inner: int,
    pixels: int,
    gated: bool = False,
    bias: bool = True,
    kv_heads: int = 0,
    head_dim: int = 0,
) -> tuple[Block, ...]:
    """Layers of a vision transformer, norms before both parts.

    Source: Dosovitskiy et al. 2020 (arXiv 2010.11929).

    Args:
        width, layers, heads, inner: Of a layer. [1]
        pixels: Numbers in a patch: channels times its area, times the pictures it takes in. [1]
        gated, bias: Whether there is a gate, and whether matrices have biases.
        kv_heads, head_dim: Key/value heads and their width; 0 for heads, and for D / N. [1]
    """
    keys, wide = kv_heads or heads, head_dim or width // heads
    biased = (heads + 2 * keys) * wide if bias else 0
    mixer = Attention(
        heads, keys, wide, qkv_biased=biased, out_bias=bias, rotary=False, cached=False
    )
    plain = Block(mixer, Mlp(inner, gated, bias, bias, "gelu"), 2, 2 * width)
    first = replace(plain, extra=(Linear("patches", width, pixels, split="none"),))
    return (first, *[plain] * (layers - 1))
