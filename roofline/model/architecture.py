"""Parts of a network, as far as its cost goes.

A layer is a mixer (which mixes tokens) and a feed-forward part. Each kind says which linear layers
it has and how many other parameters; the cost algebra prices them, `roofline.model.parameters`
counts them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from roofline.model.compressed import CompressedAttention
from roofline.model.crossing import CrossAttention
from roofline.model.feedforward import FeedForward, Mlp, Moe
from roofline.model.latent import Mla
from roofline.model.linear import Linear
from roofline.model.mixer import Attention, Indexer, Mixer
from roofline.model.recurrent import Recurrent
from roofline.records import replace

if TYPE_CHECKING:
    from roofline.model.tower import Media, Tower

__all__ = [
    "STREAMS",
    "UNQUANTISED",
    "Architecture",
    "Attention",
    "Block",
    "CompressedAttention",
    "CrossAttention",
    "FeedForward",
    "Indexer",
    "Linear",
    "Mixer",
    "Mla",
    "Mlp",
    "Moe",
    "Recurrent",
]

UNQUANTISED: Final = frozenset({"router", "shared-gate", "index-weights", "compress-kv"})
"""Roles of small matrices that quantisers leave alone unless told otherwise."""
TOWERS: Final = ("vision tower", "audio tower", "projector", "line end", "encoder")
"""Names of other parameters that engines load with the decoder: what it reads passes them."""
STREAMS: Final = "streams"
"""Role of the matrix that makes the coefficients of hyper-connections."""


class Block(Struct, frozen=True):
    """One layer: a mixer, a feed-forward part and the norms around them."""

    mixer: Mixer | None
    feedforward: FeedForward | None
    """None where the layer has only the other one."""
    norms: int
    """Norms over the model width in the layer. [1]"""
    norm_parameters: int
    """Their weights and biases together. [parameter]"""
    parallel: bool = False
    """True if both parts read the same normed input and are added at once (GPT-J, Falcon): one
    all-reduce instead of two under tensor parallelism."""
    extra: tuple[Linear, ...] = ()
    """Matrices beside those of the parts, such as those that mix residual streams."""
    extra_parameters: int = 0
    """Parameters beside those of the parts. [parameter]"""
    streams: int = 1
    """Copies of the residual stream that are kept and moved. [1]"""
    formats: tuple[tuple[str, str], ...] = ()
    """Number formats of matrices that are not in the network's ``weight_format``, by role."""

    owners: int = 0
    """Earlier layers like it whose weights it uses in turn (Zamba); 0 with weights of its own."""

    def stored(self, role: str, default: str) -> str:
        """Number format of the matrix of that role; the default where it has none of its own."""
        return next((name for key, name in self.formats if key == role), default)

    def roles(self, d_model: int) -> tuple[str, ...]:
        """Roles of all matrices, those of routed experts last."""
        matrices = (*self.linears(d_model), *self.expert_linears(d_model))
        return tuple(linear.name for linear in matrices)

    @property
    def experts(self) -> int:
        """Experts that its tokens are routed to; 0 without. [1]"""
        return 0 if self.feedforward is None else self.feedforward.experts

    @property
    def hyper_connected(self) -> bool:
        """True if hyper-connections mix the residual streams around each part."""
        return any(linear.name == STREAMS for linear in self.extra)

    @property
    def parts(self) -> tuple[Mixer | FeedForward, ...]:
        """Mixer and feed-forward part, those that are there."""
        return tuple(part for part in (self.mixer, self.feedforward) if part is not None)

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Matrices that every token is multiplied with; routed experts are not among them."""
        inner = (linear for part in self.parts for linear in part.linears(d_model))
        return (*inner, *self.extra)

    def expert_linears(self, d_model: int) -> tuple[Linear, ...]:
        """Matrices of one routed expert; none without experts."""
        return () if self.feedforward is None else self.feedforward.expert_linears(d_model)

    def expert_parameters(self, d_model: int) -> int:
        """All routed experts together. [parameter]"""
        return self.experts * sum(each.parameters for each in self.expert_linears(d_model))


def counted(layers: Sequence[Block]) -> dict[Block, int]:
    """Distinct blocks with the number of each, in order of first appearance."""
    # Equal blocks are nearly always one object: few of a hundred layers are compared by value.
    blocks = {id(block): block for block in layers}
    out: dict[Block, int] = {}
    for key, number in Counter(map(id, layers)).items():
        out[blocks[key]] = out.get(blocks[key], 0) + number
    return out


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder, with what it reads from."""

    name: str
    model_type: str
    """Catalog or hub name; ``model_type`` of the config."""
    d_model: int
    vocab: int
    """Model width D; rows of the embedding, padding included. [1]"""
    layers: tuple[Block, ...]
    """One block per layer, in order; equal blocks are equal objects."""
    tied_embeddings: bool
    """True if the LM head is the embedding transposed."""
    embedding_width: int
    """Width of the token embedding where it differs from D (projected in and out). [1]"""
    position_rows: int = 0
    """Rows of a learned position embedding; 0 without one. [1]"""
    embedding_norm_parameters: int = 0
    final_norm_parameters: int = 0
    head_bias: bool = False
    """Parameters outside the layers. [parameter]"""
    max_context: int | None = None
    """Longest context the network is made for; None if it has no limit. [token]"""
    weight_format: str = "bf16"
    """Number format of the checkpoint's linear layers: ``"bf16"``."""
    mix: str = ""
    """Name of the mix of formats that llama.cpp made of it, ``"q4-k-m"``; or empty."""
    causal: bool = True
    """False for a network whose tokens see each other both ways."""
    other_parameters: Mapping[str, int] = field(default_factory=dict)
    """Parts that are not the text decoder (vision tower, MTP) by name. [parameter]"""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Config key and place that each field was read from: ``"hidden_size = 4096,
    config.json:12:3"``."""
    notes: tuple[str, ...] = ()
    """Conventions worth a sentence."""
    plain_format: str = "bf16"
    """Number format of what quantisers leave alone: embeddings, LM head, norms, biases."""
    head_format: str = ""
    """Number format of an LM head that is quantised; empty where it is plain."""
    kv_format: str = ""
    """Number format of the cache that the checkpoint has scales for; empty where it has none."""
    encoder: tuple[Block, ...] = ()
    """Layers that the prompt passes, which those of the decoder then attend to; none in a decoder
    that reads its prompt itself."""
    encoder_projector: tuple[Linear, ...] = ()
    """Matrices that make keys and values of the encoder's outputs, for each layer."""
    towers: "tuple[Tower, ...]" = ()
    """Encoders of pictures and of sound, those whose shape is known."""
    kinds: Mapping[Block, int] = field(init=False, repr=False, compare=False)
    """Distinct blocks with the number of layers of each, in order of first appearance."""

    def __post_init__(self) -> None:
        """Count the layers once: every step asks for them."""
        object.__setattr__(self, "kinds", counted(self.layers))

    @property
    def seen_parameters(self) -> int:
        """Parameters of what the decoder's input passes before it. [parameter]"""
        return sum(self.other_parameters.get(name, 0) for name in TOWERS)

    @property
    def is_encoder(self) -> bool:
        """True if nothing is cached and no state kept: tokens are computed once, all together."""
        parts = [block.mixer for block in self.kinds if block.mixer is not None]
        return all(part.encodes for part in parts)

    @property
    def latent_forms(self) -> bool:
        """True if keys and values of some layers are expanded from a latent."""
        return any(block.mixer is not None and block.mixer.latent_forms for block in self.kinds)

    @property
    def keeps_state(self) -> bool:
        """True if some layers keep a recurrent state."""
        return any(block.mixer is not None and block.mixer.keeps_state for block in self.kinds)

    @property
    def mixtures(self) -> tuple[FeedForward, ...]:
        """Feed-forward parts of which each token meets some experts, of each kind of layer."""
        parts = (block.feedforward for block in self.kinds)
        return tuple(part for part in parts if part is not None and part.experts)

    def towers_of(self, media: "Media") -> "tuple[Tower, ...]":
        """Towers that something of a prompt passes."""
        return tuple(tower for tower in self.towers if tower.passes(media))

    def media_tokens(self, media: "Media") -> int:
        """Tokens of a prompt that its pictures and recordings become. [token]"""
        return sum(tower.tokens(media) for tower in self.towers_of(media))

    @property
    def projections(self) -> tuple[Linear, ...]:
        """Matrices between the embedding's width and D, where the two differ (OPT-350M)."""
        if self.embedding_width == self.d_model:
            return ()
        return (
            Linear("project-in", self.d_model, self.embedding_width),
            Linear("project-out", self.embedding_width, self.d_model),
        )

    @property
    def owned(self) -> tuple[tuple[Block, int], ...]:
        """Kinds of layers that have weights of their own, with the number of each."""
        return tuple((block, number) for block, number in self.kinds.items() if not block.owners)

    def stored_matrices(self) -> Iterator[tuple[str, Linear, int]]:
        """Format, matrix and number of each matrix inside the layers and around them."""
        d, default = self.d_model, self.weight_format
        for linear in self.projections:
            yield default, linear, 1
        for block, layers in self.owned:
            for linear in block.linears(d):
                yield block.stored(linear.name, default), linear, layers
            for linear in block.expert_linears(d):
                yield block.stored(linear.name, default), linear, layers * block.experts

    @property
    def formats(self) -> dict[str, int]:
        """Matrix elements by number format, of an LM head that is quantised too. [parameter]"""
        out: Counter[str] = Counter()
        for name, linear, count in self.stored_matrices():
            out[name] += count * linear.n * linear.k
        if self.head_format:
            out[self.head_format] += self.vocab * self.embedding_width
        return dict(out)

    def stored_as(self, weight_format: str) -> "Architecture":
        """The same network with its matrices in one format, `UNQUANTISED` ones left plain."""
        blocks = {
            block: replace(
                block,
                formats=tuple(
                    (role, self.plain_format)
                    for role in dict.fromkeys(block.roles(self.d_model))
                    if role in UNQUANTISED and weight_format != self.plain_format
                ),
            )
            for block in self.kinds
        }
        layers = tuple(blocks[block] for block in self.layers)
        return replace(
            self, layers=layers, weight_format=weight_format, head_format="", kv_format="", mix=""
        )
