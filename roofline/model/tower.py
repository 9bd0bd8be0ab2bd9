"""Encoders of pictures and of sound, beside a decoder that reads what they make."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.errors import InputError
from roofline.model.architecture import Architecture, Attention, Block, Linear, Mlp
from roofline.records import replace
from roofline.units import counted

Number: TypeAlias = float | NDArray[np.float64]

MOST_INPUTS: Final = 10_000
MOST_PIXELS: Final = 16_384
MOST_SECONDS: Final = 86_400.0


class Media(Struct, frozen=True):
    """Pictures and recordings in each prompt, all of a kind alike."""

    images: int = 0
    """Pictures, square. [1]"""
    image_size: int = 1024
    """Pixels of a side. [1]"""
    recordings: int = 0
    """Recordings of sound. [1]"""
    recording_s: float = 30.0
    """Length of each. [s]"""
    after: int = 0
    """Tokens of a prompt before the first of them, which others may share. [token]"""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for name, value, least, most in (
            ("images", self.images, 0, MOST_INPUTS),
            ("image_size", self.image_size, 1, MOST_PIXELS),
            ("recordings", self.recordings, 0, MOST_INPUTS),
            ("recording_s", self.recording_s, 0.1, MOST_SECONDS),
        ):
            if not least <= value <= most:
                raise InputError(
                    f"`{name}` is {value}", hint=f"give a number from {least} to {most:,}"
                )


TEXT_ALONE: Final = Media()
"""No pictures and no sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower(ABC):
    """An encoder, and the matrices that turn its outputs into what the decoder reads."""

    medium: ClassVar[str] = ""
    """Name of its operators and of its parameters: ``"vision"``."""
    width: int
    """Width of its layers. [1]"""
    layers: tuple[Block, ...]
    """One for each layer; the first one has the matrices before it, too."""
    projector: tuple[Linear, ...]
    """Matrices that each output is made with."""
    heads: int = 1
    """Heads that devices divide between them. [1]"""
    squares: int = 0
    """Neighbours that see only each other; 0 where all see all. [1]"""
    whole: int = 0
    """Layers in which all see each other all the same. [1]"""

    @abstractmethod
    def passes(self, media: Media) -> int:
        """Sequences of a prompt that pass it. [1]"""

    @abstractmethod
    def positions(self, media: Media) -> int:
        """Length of each. [1]"""

    @abstractmethod
    def outputs(self, media: Media) -> int:
        """Outputs of the projector for a prompt. [1]"""

    def tokens(self, media: Media) -> int:
        """Outputs that stand among the tokens of the prompt. [token]"""
        return self.outputs(media)

    @abstractmethod
    def said(self, media: Media) -> str:
        """Sentence on what passes it and what becomes of that."""

    def devices(self, tp: Number) -> Number:
        """Devices that share it, of those that share every layer. [1]

        One where its heads do not divide over them, so that each has it whole.

        Source: ``intern_vit.py`` of vLLM, which then divides no attention of its tower; that its
        other matrices are whole too is assumed.
        """
        return np.where(self.heads % np.asarray(tp) == 0, tp, 1)[()]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionTower(Tower):
    """A vision transformer over the patches of pictures."""

    medium: ClassVar[str] = "vision"
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

    def each(self, pixels: int) -> int:
        """Tokens of the decoder that a picture becomes. [token]

        Examples:
            Patches of 14 pixels, four of which are a token:

            >>> tower = VisionTower(width=1280, layers=(), projector=(), patch=14, merge=2)
            >>> tower.each(1024)
            1369
        """
        return self.cut(pixels) * (self.across(pixels) // self.merge) ** 2

    def passes(self, media: Media) -> int:
        """Tiles of all pictures. [1]"""
        return media.images * self.cut(media.image_size)

    def positions(self, media: Media) -> int:
        """Patches of a tile. [1]"""
        return self.across(media.image_size) ** 2 + self.extra

    def outputs(self, media: Media) -> int:
        """Tokens of all pictures. [token]"""
        return media.images * self.each(media.image_size)

    def said(self, media: Media) -> str:
        """Sentence on the patches and tokens of a picture."""
        side, seen = media.image_size, f"{self.positions(media):,}"
        cut = self.cut(side)
        return (
            f"Each prompt has {counted(media.images, 'picture')} of {side:,} × {side:,} pixels "
            f"beside its text: {f'{cut} tiles of {seen}' if cut > 1 else seen} patches each, which "
            f"become {self.each(side):,} tokens of the decoder."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioTower(Tower):
    """An encoder of sound, over spectrogram frames that convolutions have joined."""

    medium: ClassVar[str] = "audio"
    per_s: int
    """Positions of a second of sound. [1/s]"""
    joined: int
    """Positions that become one output. [1]"""
    span_s: float = 0.0
    """Length that sound is filled up to, in pieces of that length; 0 where it is not. [s]"""
    longest_s: float = 0.0
    """Length beyond which a recording is cut off; 0 without. [s]"""
    silent: bool = True
    """True where the silence that fills a piece up becomes tokens as well."""
    always: int = 0
    """Tokens of a recording of any length; 0 where they follow from it. [token]"""
    crossed: bool = False
    """True where layers of the decoder attend to the outputs, which are no tokens of a prompt."""

    def heard(self, media: Media) -> int:
        """Recordings of a prompt: at least one where layers of the decoder attend to it. [1]"""
        return max(media.recordings, int(self.crossed))

    def pieces(self, media: Media) -> int:
        """Pieces of a recording that pass it one by one. [1]"""
        return ceil(media.recording_s / self.span_s) if self.span_s else 1

    def passes(self, media: Media) -> int:
        """Pieces of all recordings. [1]"""
        return self.heard(media) * self.pieces(media)

    def positions(self, media: Media) -> int:
        """Positions of a piece. [1]"""
        return ceil(self.per_s * (self.span_s or media.recording_s))

    def outputs(self, media: Media) -> int:
        """Outputs of all recordings. [1]

        Examples:
            Sound of 10 s, filled up to 30 s, four positions to a token:

            >>> tower = AudioTower(
            ...     width=1280, layers=(), projector=(), per_s=50, joined=4, span_s=30.0
            ... )
            >>> tower.outputs(Media(recordings=2, recording_s=10.0))
            750
        """
        seconds = self.pieces(media) * self.span_s if self.silent else 0.0
        positions = ceil(self.per_s * (seconds or media.recording_s))
        return self.heard(media) * (self.always or ceil(positions / self.joined))

    def tokens(self, media: Media) -> int:
        """Outputs; none where layers attend to them. [token]"""
        return 0 if self.crossed else self.outputs(media)

    def said(self, media: Media) -> str:
        """Sentence on the positions of a recording and what becomes of them."""
        number, cut, seen = self.heard(media), self.pieces(media), f"{self.positions(media):,}"
        ends = f"{self.outputs(media) // number:,} tokens of the decoder"
        if self.crossed:
            ends = "keys and values that every layer of the decoder attends to"
        return (
            f"Each prompt has {counted(number, 'recording')} of {media.recording_s:g} s beside its "
            f"text: {f'{cut} pieces of {seen}' if cut > 1 else seen} positions each, which become "
            f"{ends}."
        )


def share(network: Architecture, media: Media, new: Number, before: Number) -> Number:
    """Share of the pictures and recordings of a prompt among some of its tokens. [1]

    Every token of theirs has the same share; a recording that has no tokens comes with the first
    token of the prompt. Source: tokens that two intervals have in common.

    Args:
        network: Network, with its towers.
        media: Pictures and recordings of the prompt, one after the other.
        new, before: Tokens, and those of the prompt before them. [token]
    """
    tokens = max(network.media_tokens(media), 1)
    first, last = (np.clip(end - media.after, 0, tokens) for end in (before, before + new))
    found: Number = (last - first) / tokens
    return found


def check_media(network: Architecture, media: Media) -> None:
    """Refuse pictures and recordings that a network has no encoder for, or cuts off."""
    kinds = {tower.medium: tower for tower in network.towers}
    if media.images and "vision" not in kinds:
        raise InputError(
            f"{network.name} has no vision tower whose shape is known",
            hint="leave out `images`, or ask about a network that sees, such as "
            "qwen2.5-vl-7b-instruct",
        )
    hears = kinds.get("audio")
    if not isinstance(hears, AudioTower):
        if media.recordings:
            raise InputError(
                f"{network.name} has no audio tower whose shape is known",
                hint="leave out `recordings`, or ask about a network that hears, such as "
                "qwen2-audio-7b-instruct",
            )
        return
    if hears.crossed and media.recordings > 1:
        raise InputError(
            f"{network.name} attends to one recording, not to {media.recordings}",
            hint="make each recording a request of its own",
        )
    if hears.longest_s and hears.heard(media) and media.recording_s > hears.longest_s:
        raise InputError(
            f"{network.name} hears {hears.longest_s:g} s of a recording of {media.recording_s:g} s",
            hint="cut it into recordings of that length",
        )


def transformer(
    *,
    width: int,
    layers: int,
    heads: int,
    inner: int,
    pixels: int,
    gated: bool = False,
    bias: bool = True,
) -> tuple[Block, ...]:
    """Layers of a vision transformer, norms before both parts.

    Source: Dosovitskiy et al. 2020 (arXiv 2010.11929).

    Args:
        width, layers, heads, inner: Of a layer. [1]
        pixels: Numbers in a patch: channels times its area, times the pictures it takes in. [1]
        gated, bias: Whether there is a gate, and whether matrices have biases.
    """
    wide = width // heads
    biased = 3 * heads * wide if bias else 0
    mixer = Attention(
        heads, heads, wide, qkv_biased=biased, out_bias=bias, rotary=False, cached=False
    )
    plain = Block(mixer, Mlp(inner, gated, bias, bias, "gelu"), 2, 2 * width)
    first = replace(plain, extra=(Linear("patches", width, pixels, split="none"),))
    return (first, *[plain] * (layers - 1))
