"""Structured pruning (depth, width, heads), its opposite, copies of the feed-forward part; zeros.

Source: Muralidharan et al. 2024 (arXiv 2407.14679, Minitron) for the axes. What is cut does not
matter for the cost, only how much.
"""

from roofline.errors import InputError
from roofline.model.architecture import UNQUANTISED, Architecture, Attention, Block, Mla
from roofline.model.changes.attention import with_heads
from roofline.model.changes.values import in_layers, pair, whole
from roofline.model.precision import named
from roofline.model.precision.naming import suffix
from roofline.records import replace


def layers(network: Architecture, value: str) -> Architecture:
    """The first so many layers stay."""
    number = whole(value, "layers", len(network.layers))
    return replace(network, layers=network.layers[:number])


def layers_reason(before: Architecture, after: Architecture, _: str) -> str:
    """Layers after and before."""
    return f"{len(after.layers)} of {len(before.layers)} layers"


def ffn(network: Architecture, value: str) -> Architecture:
    """Inner width F of every dense feed-forward part; of every routed expert.

    Raises:
        InputError: No layer has such a part.
    """
    width = whole(value, "ffn")

    def change(block: Block) -> Block | None:
        part = block.feedforward
        return None if part is None else replace(block, feedforward=part.with_width(width))

    if all(block.feedforward is None for block in network.layers):
        raise InputError(
            f"{network.name} has no feed-forward parts", hint="prune its layers instead"
        )
    return in_layers(network, change)


def ffn_reason(before: Architecture, after: Architecture, _: str) -> str:
    """Width of the feed-forward parts after and before."""
    old, new = (
        max(block.feedforward.width for block in network.layers if block.feedforward is not None)
        for network in (before, after)
    )
    what = "experts" if before.mixtures else "feed-forward parts"
    return f"{what} {new:,} wide instead of {old:,}"


def heads(network: Architecture, value: str) -> Architecture:
    """N query heads in every layer of attention; key/value heads in proportion.

    Raises:
        InputError: There would not be a whole number of key/value heads.
    """
    number = whole(value, "heads")

    def change(block: Block) -> Block | None:
        part = block.mixer
        if isinstance(part, Mla):
            return replace(block, mixer=replace(part, heads=number))
        if not isinstance(part, Attention):
            return None
        if number * part.kv_heads % part.heads:
            group = part.heads // part.kv_heads
            raise InputError(
                f"{number} query heads are not whole groups of {group}",
                hint=f"{group} query heads share a key/value head: give a multiple of {group}",
            )
        return replace(block, mixer=with_heads(part, number, number * part.kv_heads // part.heads))

    if not any(isinstance(block.mixer, Attention | Mla) for block in network.layers):
        raise InputError(f"{network.name} has no attention heads to prune", hint="prune its layers")
    return in_layers(network, change)


def heads_reason(before: Architecture, after: Architecture, _: str) -> str:
    """Query heads after and before."""
    old, new = (
        next(b.mixer.heads for b in network.layers if isinstance(b.mixer, Attention | Mla))
        for network in (before, after)
    )
    return f"{new} query heads, keys and values in proportion, instead of {old}"


def d_model(network: Architecture, value: str) -> Architecture:
    """Model width D; the widths of heads and feed-forward parts stay.

    Raises:
        InputError: The network has layers whose matrices do not follow the model width alone.
    """
    width, old = whole(value, "d_model"), network.d_model
    for block in network.kinds:
        part = block.mixer
        bound = part is not None and (part.fixed_width or part.index is not None)
        if bound or block.extra or block.extra_parameters:
            raise InputError(
                f"{network.name} has layers whose width is not that of the model alone",
                hint="prune layers, heads or the feed-forward width instead",
            )

    def change(block: Block) -> Block:
        return replace(block, norm_parameters=block.norm_parameters * width // old)

    return replace(
        in_layers(network, change),
        d_model=width,
        embedding_width=width if network.embedding_width == old else network.embedding_width,
        embedding_norm_parameters=network.embedding_norm_parameters * width // old,
        final_norm_parameters=network.final_norm_parameters * width // old,
    )


def d_model_reason(before: Architecture, after: Architecture, _: str) -> str:
    """Model width after and before."""
    return f"a model {after.d_model:,} wide instead of {before.d_model:,}"


def experts(network: Architecture, value: str) -> Architecture:
    """E experts, each a copy of the dense part, k of them for a token: ``"8/2"``.

    A network that has experts gets another number of them. Source: Komatsuzaki et al. 2022
    (arXiv 2212.05055, sparse upcycling).

    Raises:
        InputError: More experts for a token than there are.
    """
    number, active = pair(value, "experts", "8/2")
    if active > number:
        raise InputError(
            f"{active} experts for a token, of {number}", hint="write experts=8/2: all/for a token"
        )
    if number > 2**16:
        raise InputError(f"{number:,} experts", hint="give at most 65,536")

    def change(block: Block) -> Block | None:
        part = block.feedforward
        if part is None or (network.mixtures and not part.experts):
            return None
        return replace(block, feedforward=part.with_experts(number, active))

    return in_layers(network, change)


def experts_reason(_: Architecture, _after: Architecture, value: str) -> str:
    """Experts in all, and for each token."""
    number, active = value.split("/")
    return f"{number} experts, {active} of them for each token"


def sparsity(network: Architecture, value: str) -> Architecture:
    """Matrices of all layers with zeros left out; embeddings, LM head and routers stay dense.

    Args:
        network: In the formats its values are to have.
        value: ``"2:4"`` or the share of zeros.

    Raises:
        InputError: No such pattern, zeros are left out already, or the result would be larger.
    """
    more = suffix(value)

    def thinner(name: str) -> str:
        if named(name).dense:
            raise InputError(
                f"{name} weights leave out zeros already", hint="start from dense weights"
            )
        return named(f"{named(name).name}{more}").name

    def change(block: Block) -> Block:
        said = dict(block.formats)
        for role in dict.fromkeys(block.roles(network.d_model)):
            if role in UNQUANTISED:
                said.setdefault(role, network.plain_format)
            elif role in said:
                said[role] = thinner(said[role])
        return replace(block, formats=tuple(said.items()))

    changed = in_layers(network, change)
    mix = f"{network.mix}{more}" if network.mix else ""
    return replace(changed, weight_format=thinner(network.weight_format), mix=mix)


def sparsity_reason(_: Architecture, network: Architecture, value: str) -> str:
    """Zeros, bits of a weight and rate of arithmetic."""
    stored = named(network.weight_format)
    what = (
        "two of every four weights are" if value == "2:4" else f"{float(value):.0%} of weights are"
    )
    how = "at twice the arithmetic rate" if value == "2:4" else "multiplied as dense ones"
    return f"{what} zero ({stored.name}: {stored.expression} bits), {how}"
