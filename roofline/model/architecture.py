"""What a network is made of, as far as its cost goes.

A layer is a mixer (which mixes tokens) and a feed-forward part. Each kind says which linear layers
it has and how many other parameters; the cost algebra prices them, `roofline.model.parameters`
counts them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


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
    """

    name: str
    n: int
    k: int
    biased: int = 0

    @property
    def parameters(self) -> int:
        """Weights and biases. [parameter]"""
        return self.n * self.k + self.biased


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with a KV cache: MHA (K = N), GQA, MQA (K = 1).

    Attributes
    ----------
    heads, kv_heads
        Query heads N and key/value heads K. [1]
    head_dim
        Width H of a head. [1]
    window
        Keys a query sees, itself included; None sees all. [token]
    qkv_biased, out_bias
        Outputs of the q, k, v projections with a bias [1]; whether the output projection has one.
    norm_parameters
        Weights of norms on queries and keys (qk-norm). [parameter]
    rotary
        Whether queries and keys are rotated.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    qkv_biased: int = 0
    out_bias: bool = False
    norm_parameters: int = 0
    rotary: bool = True

    @property
    def query_width(self) -> int:
        """N·H. [1]"""
        return self.heads * self.head_dim

    @property
    def kv_elements(self) -> int:
        """Cached elements per token: keys and values, 2·K·H. [1]"""
        return 2 * self.kv_heads * self.head_dim

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Projections q, k, v (fused, as engines run them) and the output projection."""
        out = Linear("attn-out", d_model, self.query_width, d_model if self.out_bias else 0)
        qkv = Linear("qkv", self.query_width + self.kv_elements, d_model, self.qkv_biased)
        return (qkv, out)


@dataclass(frozen=True, slots=True)
class Mlp:
    """Dense feed-forward part: ``down(act(gate) · up)`` if gated, else ``down(act(up))``.

    Attributes
    ----------
    width
        Inner width F. [1]
    gated
        Whether there is a gate projection beside the up projection.
    up_bias, down_bias
        Whether those projections have biases.
    activation
        Name, as the config has it: ``"silu"``.
    """

    width: int
    gated: bool
    up_bias: bool = False
    down_bias: bool = False
    activation: str = "silu"

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Gate and up (fused, as engines run them), then down."""
        n = self.width * (2 if self.gated else 1)
        return (
            Linear("gate-up" if self.gated else "up", n, d_model, n if self.up_bias else 0),
            Linear("down", d_model, self.width, d_model if self.down_bias else 0),
        )


Mixer: TypeAlias = Attention
FeedForward: TypeAlias = Mlp


@dataclass(frozen=True, slots=True)
class Block:
    """One layer: a mixer, a feed-forward part and the norms around them.

    Attributes
    ----------
    mixer, feedforward
        None where the layer has only the other one.
    norms
        Norms over the model width in the layer. [1]
    norm_parameters
        Their weights and biases together. [parameter]
    parallel
        Whether both parts read the same normed input and are added at once (GPT-J, Falcon): one
        all-reduce instead of two under tensor parallelism.
    """

    mixer: Mixer | None
    feedforward: FeedForward | None
    norms: int
    norm_parameters: int
    parallel: bool = False

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """All matrices of the layer."""
        return tuple(
            linear
            for part in (self.mixer, self.feedforward)
            if part
            for linear in part.linears(d_model)
        )


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder-only network.

    Attributes
    ----------
    name, model_type
        Catalog or hub name; ``model_type`` of the config.
    d_model, vocab
        Model width D; rows of the embedding, padding included. [1]
    layers
        One block per layer, in order; equal blocks are equal objects.
    tied_embeddings
        Whether the LM head is the embedding transposed.
    embedding_width
        Width of the token embedding where it differs from D (projected in and out). [1]
    position_rows
        Rows of a learned position embedding; 0 without one. [1]
    embedding_norm_parameters, final_norm_parameters, head_bias
        Parameters outside the layers. [parameter]
    max_context
        Longest context the network is made for; None if it has no limit. [token]
    weight_format
        Number format of the checkpoint's linear layers: ``"bf16"``.
    causal
        False for a network whose tokens see each other both ways.
    other_parameters
        Parts that are not the text decoder (vision tower, MTP) by name. [parameter]
    provenance
        For each field, the config key it was read from and where: ``"hidden_size = 4096,
        config.json:12:3"``.
    notes
        Conventions worth a sentence.
    plain_format
        Number format of what quantisers leave alone: embeddings, LM head, norms, biases.
    """

    name: str
    model_type: str
    d_model: int
    vocab: int
    layers: tuple[Block, ...]
    tied_embeddings: bool
    embedding_width: int
    position_rows: int = 0
    embedding_norm_parameters: int = 0
    final_norm_parameters: int = 0
    head_bias: bool = False
    max_context: int | None = None
    weight_format: str = "bf16"
    causal: bool = True
    other_parameters: Mapping[str, int] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    plain_format: str = "bf16"

    @property
    def kinds(self) -> dict[Block, int]:
        """Distinct blocks with the number of layers of each, in order of first appearance."""
        return dict(Counter(self.layers))
