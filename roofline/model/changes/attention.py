"""Changes of attention: key/value heads, windows, caches shared by layers, latents, states.

States of constant size are those of S4, H3, BASED and RetNet.
"""

from collections.abc import Callable
from typing import Final

from roofline.errors import InputError
from roofline.model.architecture import Architecture, Attention, Block, Mla
from roofline.model.changes.values import attends, in_attention, in_layers, pair, whole
from roofline.model.recurrent import Recurrent, based, h3, retention, s4
from roofline.records import replace

ROPE_DIM: Final = 64
"""Width of the rotated key beside a latent. DeepSeek-V2 (arXiv 2405.04434), section 3.1.2."""


def with_heads(part: Attention, heads: int, kv_heads: int) -> Attention:
    """Attention with other numbers of heads; biases, norms and sinks follow.

    Args:
        part: Attention as it is.
        heads, kv_heads: N and K to have. [1]
    """
    queries = min(part.qkv_biased, part.query_width)
    beside = part.qkv_biased - queries
    norms = part.norm_parameters
    if norms == part.query_width + part.kv_heads * part.head_dim != 2 * part.head_dim:
        norms = (heads + kv_heads) * part.head_dim  # over all heads together, not each
    return replace(
        part,
        heads=heads,
        kv_heads=kv_heads,
        qkv_biased=queries * heads // part.heads + beside * kv_heads // part.kv_heads,
        norm_parameters=norms,
        sink_parameters=part.sink_parameters * heads // part.heads,
    )


def gqa(network: Architecture, value: str) -> Architecture:
    """K key/value heads in every layer of attention.

    Raises:
        InputError: K does not divide the query heads.
    """
    kv_heads = whole(value, "gqa")
    for part in attends(network, "gqa"):
        if part.heads % kv_heads:
            fits = [str(n) for n in range(1, part.heads + 1) if part.heads % n == 0]
            raise InputError(
                f"{part.heads} query heads cannot share {kv_heads} key/value heads evenly",
                hint=f"key/value heads that divide {part.heads}: {', '.join(fits)}",
            )
    return in_attention(network, lambda part: with_heads(part, part.heads, kv_heads))


def mqa(network: Architecture, _: str) -> Architecture:
    """One key/value head."""
    return gqa(network, "1")


def mha(network: Architecture, _: str) -> Architecture:
    """One key/value head for each query head."""
    attends(network, "mha")
    return in_attention(network, lambda part: with_heads(part, part.heads, part.heads))


def gqa_reason(before: Architecture, after: Architecture, _: str) -> str:
    """Cached heads after and before."""
    old, new = (attends(network, "gqa")[0].kv_heads for network in (before, after))
    heads = f"key/value head{'s' * (max(old, new) > 1)}"
    return f"{new} of {old} {heads}" if new < old else f"{new} {heads} instead of {old}"


def window(network: Architecture, value: str) -> Architecture:
    """Every layer of attention sees the last W tokens."""
    size = whole(value, "window")
    attends(network, "window")

    def change(part: Attention) -> Attention | None:
        return None if part.index is not None else replace(part, window=size, chunk=None)

    return in_attention(network, change)


def global_every(network: Architecture, value: str) -> Architecture:
    """Every n-th layer of attention sees the whole context.

    Raises:
        InputError: No layer has a window that it could be an exception to.
    """
    every = whole(value, "global-every")
    parts = attends(network, "global-every")
    if not any(part.window or part.chunk for part in parts):
        raise InputError(
            f"global-every={every} but no layer has a window",
            hint=f"give the window of the others: `changes` window=1024,global-every={every}",
        )
    seen = 0

    def change(part: Attention) -> Attention | None:
        nonlocal seen
        seen += 1
        return None if seen % every else replace(part, window=None, chunk=None)

    return in_attention(network, change)


def local(network: Architecture, value: str) -> Architecture:
    """Windows of W tokens in all layers but every n-th: ``"1024/6"``."""
    size, every = pair(value, "local", "1024/6")
    return global_every(window(network, str(size)), str(every))


def window_reason(_: Architecture, network: Architecture, _value: str) -> str:
    """Layers with a window, and its length."""
    parts = attends(network, "window")
    windows = [part.window for part in parts if part.window]
    number = "all" if len(windows) == len(parts) else f"{len(windows)} of {len(parts)}"
    if not windows:
        return "all layers cache and read the whole context"
    return f"{number} layers cache and read the last {max(windows):,} tokens"


def cla(network: Architecture, value: str) -> Architecture:
    """Each n layers that see equally far share the cache of the first of them.

    The others keep their queries and project no keys and values of their own; they still read the
    whole cache. Source: Brandon et al. 2024 (arXiv 2405.12981).

    Raises:
        InputError: Layers share already, or n is more than there are.
    """
    parts = attends(network, "cla")
    size = whole(value, "cla", len(parts))
    if any(part.reuses_kv for part in parts):
        raise InputError(
            f"layers of {network.name} share caches already",
            hint="start from a network whose layers keep their own",
        )
    seen: dict[Attention, int] = {}

    def change(part: Attention) -> Attention | None:
        seen[part] = seen.get(part, 0) + 1
        if (seen[part] - 1) % size == 0:
            return None
        queries = min(part.qkv_biased, part.query_width)
        norms = part.norm_parameters
        if norms == 2 * part.head_dim:
            norms = part.head_dim
        elif norms == part.query_width + part.kv_heads * part.head_dim:
            norms = part.query_width
        return replace(part, reuses_kv=True, qkv_biased=queries, norm_parameters=norms)

    return in_attention(network, change)


def cla_reason(_: Architecture, _after: Architecture, value: str) -> str:
    """Layers that share a cache."""
    return f"each {value} layers share one cache, which all of them still read"


def mla(network: Architecture, value: str) -> Architecture:
    """A latent of C values and one rotated key of 64 instead of keys and values.

    Query heads stay, projected directly; the parts of queries and keys without rotation and the
    values are as wide as the heads were; a norm on the latent. Layers with a window stay as they
    are. Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1.

    Raises:
        InputError: No layer sees the whole context with keys and values of its own.
    """
    latent = whole(value, "mla")
    parts = attends(network, "mla")

    def fits(part: Attention) -> bool:
        partial = (part.window, part.chunk, part.index)
        return partial == (None, None, None) and part.cached and not part.reuses_kv

    if not any(map(fits, parts)):
        raise InputError(
            f"no layer of {network.name} sees the whole context with a cache of its own",
            hint="a latent replaces the cache of full layers; leave some (global-every=6)",
        )

    def change(block: Block) -> Block | None:
        part = block.mixer
        if not isinstance(part, Attention) or not fits(part):
            return None
        made = Mla(
            heads=part.heads,
            query_rank=0,
            latent=latent,
            nope_dim=part.head_dim,
            rope_dim=ROPE_DIM,
            value_dim=part.value_width,
            norm_parameters=latent,
            out_bias=part.out_bias,
            gate=part.gate,
        )
        formats = tuple((role, name) for role, name in block.formats if role != "qkv")
        return replace(block, mixer=made, formats=formats)

    return in_layers(network, change)


def mla_reason(_: Architecture, network: Architecture, _value: str) -> str:
    """Sizes of the latent and of the rotated key."""
    part = next(block.mixer for block in network.layers if isinstance(block.mixer, Mla))
    return (
        f"a latent of {part.latent} and a rotated key of {part.rope_dim} instead of keys and values"
    )


PROJECTIONS: Final = ("qkv", "attn-out")
"""Matrices whose formats a state-space layer does not take over."""
Make = Callable[[Attention], Recurrent | None]


def _with_mixers(network: Architecture, what: str, make: Make) -> Architecture:
    """The network with other mixers in place of its attention; None leaves a layer as it is."""
    attends(network, what)

    def change(block: Block) -> Block | None:
        made = make(block.mixer) if isinstance(block.mixer, Attention) else None
        if made is None:
            return None
        formats = tuple(each for each in block.formats if each[0] not in PROJECTIONS)
        return replace(block, mixer=made, formats=formats)

    return in_layers(network, change)


def to_s4(network: Architecture, value: str) -> Architecture:
    """S4 in place of attention, with so many numbers of state for each channel: ``"64"``."""
    states = whole(value, "s4", 2**16)
    return _with_mixers(network, "s4", lambda _: s4(network.d_model, states))


def to_h3(network: Architecture, value: str) -> Architecture:
    """H3 in place of attention, with so many numbers in each of its two states: ``"64"``."""
    states = whole(value, "h3", 2**16)
    return _with_mixers(network, "h3", lambda _: h3(network.d_model, states))


def to_retnet(network: Architecture, _: str) -> Architecture:
    """Retention in place of attention, with its heads."""
    return _with_mixers(
        network, "retnet", lambda part: retention(network.d_model, part.heads, part.head_dim)
    )


def to_based(network: Architecture, value: str) -> Architecture:
    """Linear attention in every other layer, windows in the rest: ``"16/64"``, features/tokens."""
    features, size = pair(value, "based", "16/64")
    linear = False

    def make(part: Attention) -> Recurrent | None:
        nonlocal linear
        linear = not linear
        return based(network.d_model, part.heads, features, part.head_dim) if linear else None

    mixed = _with_mixers(network, "based", make)

    def windowed(block: Block) -> Block | None:
        part = block.mixer
        if not isinstance(part, Attention):
            return None
        return replace(block, mixer=replace(part, window=size, chunk=None))

    return in_layers(mixed, windowed)


def state_reason(before: Architecture, after: Architecture, _: str) -> str:
    """Layers that keep a state, and its size for a sequence."""
    made = [
        new.mixer.state_elements
        for old, new in zip(before.layers, after.layers, strict=True)
        if isinstance(old.mixer, Attention) and isinstance(new.mixer, Recurrent)
    ]
    number = "all" if len(made) == len(after.layers) else f"{len(made)} of {len(after.layers)}"
    return f"{number} layers keep {sum(made):,} numbers a sequence, however long it is"
