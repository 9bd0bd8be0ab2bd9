"""Attention to a window, and to entries that stand for several older tokens each."""

from typing import ClassVar

from roofline.model.linear import Linear
from roofline.model.mixer import Indexer, TokenMixer, cache
from roofline.part import Number, Part


class CompressedAttention(TokenMixer, frozen=True):
    """One key/value head, whose older tokens are kept as one entry for every few of them.

    A query sees the last tokens as they are, and entries of all completed groups before: all of
    them, or the few that an index chooses. The key is also the value, and is cached once. Tokens
    of a group that is not complete yet are a few rows per sequence, and left out of the cache.

    References:
        DeepSeek-AI (2026), "DeepSeek-V4", section 2.3.
    """

    keeps_positions: ClassVar[bool] = False
    fixed_width: ClassVar[bool] = True
    heads: int
    head_dim: int
    """Query heads N and the width H of all heads. [1]"""
    query_rank: int
    """Width of the latent that queries are expanded from. [1]"""
    window: int
    """Tokens that are seen as they are, the query's own included. [token]"""
    out_groups: int
    out_rank: int
    """Groups of heads that are projected apart before the output projection, and the width of
    each. [1]"""
    ratio: int = 0
    """Tokens per entry; 0 without entries. [token]"""
    series: int = 1
    """Entries that a token contributes to: 2 where groups overlap. [1]"""
    index: Indexer | None = None
    """Chooses entries; its keys are entries of their own, made from the same groups."""

    @property
    def query_width(self) -> int:
        """N·H. [1]"""
        return self.heads * self.head_dim

    @property
    def entry_elements(self) -> int:
        """Elements of entries per token: what the cache grows by beyond the window. [1]"""
        return self.head_dim // self.ratio if self.ratio else 0

    @property
    def kv_elements(self) -> int:
        """Elements cached per token inside the window: the token itself, and its entry. [1]"""
        return self.head_dim + self.entry_elements

    @property
    def other_parameters(self) -> int:
        """Norms, sinks, and the place of a token in its group. [parameter]"""
        own = self.query_rank + self.head_dim + self.heads
        entries = self._entry_parameters(self.head_dim)
        return own + entries + (self._entry_parameters(self.index.head_dim) if self.index else 0)

    def _entry_parameters(self, width: int) -> int:
        return (self.ratio * self.series + 1) * width if self.ratio else 0

    def linears(self, d_model: int) -> tuple[Linear, ...]:
        """Latent and key, queries, entries and their weights, index, output in two steps."""
        groups = self.out_groups * self.out_rank
        out = [
            Linear("latent-down", self.query_rank + self.head_dim, d_model, split="none"),
            Linear("q-up", self.query_width, self.query_rank),
        ]
        if self.ratio:
            width = 2 * self.series * self.head_dim
            out.append(Linear("compress-kv", width, d_model, split="none"))
        if self.index:
            index = self.index
            width = 2 * self.series * index.head_dim
            out += [
                Linear("index-q", index.heads * index.head_dim, self.query_rank, split="none"),
                Linear("index-k", width, d_model, split="none"),
                Linear("index-weights", index.heads, d_model, split="none"),
            ]
        # Each of the groups' outputs reads the heads of its own group only.
        out.append(Linear("attn-out-down", groups, self.query_width // self.out_groups))
        out.append(Linear("attn-out-up", d_model, groups, split="row"))
        return tuple(out)

    @property
    def label(self) -> str:
        """Compressed attention."""
        return "compressed attention"

    @property
    def most_keys(self) -> int:
        """No one number: the window and entries are both read. [token]"""
        return 0

    @property
    def context_bound(self) -> str:
        """Summaries, with or without an index."""
        return "an index or summaries"

    @property
    def lasting_elements(self) -> int:
        """Entries. [1]"""
        return self.entry_elements

    def kept(
        self, context: Number, *, tp: Number, kv: float, width: float, whole: bool = False
    ) -> Part:
        """Tokens of the window and entries of all tokens, whole on every device. [B]"""
        entries = self.entry_elements
        return cache(
            "compressed attention layers",
            "(H · {S}[ + entries · S]) · bytes",
            {"S": context, "bytes": kv, "H": self.head_dim, "entries": entries},
            context,
            token_bytes=(self.kv_elements - entries) * kv,
            growing=entries * kv,
            span=self.window,
            index=self.index,
        )

    def activation_width(self, tp: Number) -> Number:
        """Queries, outputs, and what is cached. [1]"""
        return 2 * self.query_width / tp + self.kv_elements

    def other_share(self, tp: Number) -> Number:
        """All of them. [parameter]"""
        return self.other_parameters
