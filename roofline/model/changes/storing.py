"""How weights are stored: zeros left out."""

from dataclasses import replace

from roofline.errors import InputError
from roofline.model.architecture import UNQUANTISED, Architecture, Block
from roofline.model.changes.values import in_layers
from roofline.model.precision import named
from roofline.model.precision.sparse import suffix


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
    return replace(changed, weight_format=thinner(network.weight_format))


def sparsity_reason(_: Architecture, network: Architecture, value: str) -> str:
    """What a weight takes."""
    stored = named(network.weight_format)
    what = (
        "two of every four weights are" if value == "2:4" else f"{float(value):.0%} of weights are"
    )
    how = "at twice the arithmetic rate" if value == "2:4" else "multiplied as dense ones"
    return f"{what} zero ({stored.name}: {stored.expression} bits), {how}"
