"""FLOPs and bytes of an operator, with the formulas of the functions that counted them."""

from collections.abc import Iterator
from typing import Final

from roofline.cost.work import Part
from roofline.serving.explain.parts import derived, given, mentions, parted
from roofline.serving.static import OpTime
from roofline.table import Derivation

SHOWN: Final = {
    "flops": ("F", "FLOP"),
    "weight_bytes": ("weights moved", "B"),
    "activation_bytes": ("activations moved", "B"),
    "kv_bytes": ("KV cache moved", "B"),
    "wire_bytes": ("sent", "B"),
    "network_bytes": ("sent out", "B"),
    "messages": ("rounds", ""),
    "network_messages": ("rounds out", ""),
    "host_bytes": ("loaded", "B"),
}
"""Names and units of what an operator computes and moves, by field of its work."""


def counts(entry: OpTime) -> Iterator[Derivation]:
    """What one execution of an operator computes and moves."""
    work, symbols = entry.op.work, entry.symbols()
    told: dict[str, Derivation] = {}
    for made in work.formulas:
        for name, source in made.formula.meanings:
            told[name] = given(name, symbols.get(name, 0.0), "", source)
        parts = (part for part in made.known().values() if isinstance(part, Part))
        told |= {part.name: parted(part, "B") for part in parts}
    for field, (name, unit) in SHOWN.items():
        if value := float(getattr(work, field)):
            text = work.says(field)
            inputs = [told[symbol] for symbol in told if mentions(text, symbol)]
            yield derived(name, value, unit, text, inputs, symbols, source=entry.op.algorithm)
