"""Changes to a network: key/value heads, latents, windows, states, pruning, sparse weights.

Each is a pure function of a network and the text of a value. What a change does to everything else
of a deployment is in `roofline.model.changes.settings`; a new change is one entry in `NETWORK`.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct

from roofline.errors import InputError
from roofline.model.architecture import Architecture
from roofline.model.changes import attention, pruning
from roofline.records import replace

__all__ = ["ALIASES", "NETWORK", "NetworkChange", "canonical", "changed"]

Cost = Literal["", "retrain", "distil", "zeros", "quantise"]


class NetworkChange(Struct, frozen=True):
    """One kind of change."""

    apply: Callable[[Architecture, str], Architecture]
    """The network with the value, as text, put into effect. Unchanged input is not an error."""
    reason: Callable[[Architecture, Architecture, str], str]
    """Why figures move, of the network before and after: ``"8 of 40 key/value heads"``."""
    example: str
    """Value to show in help."""
    fields: tuple[str, ...] = ()
    """Provenance that no longer holds."""
    training: Cost = "retrain"
    """Way to a usable network: training again, or distilling from the unchanged one."""
    textbook: bool = False
    """True if published closed forms see it."""


NETWORK: Final[Mapping[str, NetworkChange]] = {
    "layers": NetworkChange(
        pruning.layers, pruning.layers_reason, "30", ("layers",), "distil", textbook=True
    ),
    "ffn": NetworkChange(
        pruning.ffn, pruning.ffn_reason, "9216", ("d_ff", "width"), "distil", textbook=True
    ),
    "heads": NetworkChange(
        pruning.heads, pruning.heads_reason, "20", ("heads", "kv_heads"), "distil", textbook=True
    ),
    "d_model": NetworkChange(
        pruning.d_model, pruning.d_model_reason, "4096", ("d_model",), "distil", textbook=True
    ),
    "experts": NetworkChange(pruning.experts, pruning.experts_reason, "8/2"),
    "mha": NetworkChange(attention.mha, attention.gqa_reason, "", ("kv_heads",), textbook=True),
    "mqa": NetworkChange(attention.mqa, attention.gqa_reason, "", ("kv_heads",), textbook=True),
    "gqa": NetworkChange(attention.gqa, attention.gqa_reason, "8", ("kv_heads",), textbook=True),
    "window": NetworkChange(attention.window, attention.window_reason, "1024", ("window",)),
    "local": NetworkChange(attention.local, attention.window_reason, "1024/6", ("window",)),
    "global_every": NetworkChange(
        attention.global_every, attention.window_reason, "6", ("window",)
    ),
    "cla": NetworkChange(attention.cla, attention.cla_reason, "2"),
    "mla": NetworkChange(
        attention.mla, attention.mla_reason, "512", ("kv_heads", "latent", "rope_dim")
    ),
    "s4": NetworkChange(attention.to_s4, attention.state_reason, "64", ("kv_heads",)),
    "h3": NetworkChange(attention.to_h3, attention.state_reason, "64", ("kv_heads",)),
    "retnet": NetworkChange(attention.to_retnet, attention.state_reason, "", ("kv_heads",)),
    "based": NetworkChange(attention.to_based, attention.state_reason, "16/64", ("kv_heads",)),
    "sparsity": NetworkChange(pruning.sparsity, pruning.sparsity_reason, "2:4", (), "zeros"),
}
"""Changes by name, in the order in which several of them take effect."""


ALIASES: Final = {"depth": "layers"}
"""Other names."""


def canonical(name: str) -> str:
    """Name of a change as registries have it.

    >>> canonical("Global-Every"), canonical("depth")
    ('global_every', 'layers')
    """
    plain = name.strip().lower().replace("-", "_")
    return ALIASES.get(plain, plain)


def changed(network: Architecture, name: str, value: str, told: str = "") -> Architecture:
    """Apply one change to a network.

    Args:
        network: What it is applied to.
        name, value: Entry of `NETWORK`, and the value as text; empty for a change that takes none.
        told: Where the change was asked for, for provenance.

    Raises:
        InputError: The value has no meaning for this network.
    """
    change = NETWORK[name]
    if bool(value) != bool(change.example):
        wanted = f"write {name}={change.example}" if change.example else f"write {name} alone"
        raise InputError(f"{name} {'takes no value' if value else 'needs a value'}", hint=wanted)
    out = change.apply(network, value)
    where = told or "asked for"
    said = {key: f"{name} {value}".rstrip() + f", {where}" for key in change.fields}
    kept = {key: text for key, text in network.provenance.items() if key not in said}
    return replace(out, provenance={**kept, **said} if said else network.provenance)
