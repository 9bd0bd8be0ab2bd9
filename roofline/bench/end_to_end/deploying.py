"""The deployment of a case: its network as it is stored, on the node that holds its layout."""

from dataclasses import replace
from functools import cache

from roofline.bench.end_to_end.cases import NARROW, Case
from roofline.bench.end_to_end.naming import alike
from roofline.cost.deployment import Deployment
from roofline.hardware.catalog import default_node
from roofline.hardware.catalog import gpu as gpu_named
from roofline.hardware.engine import engine as engine_named
from roofline.model import catalog, parameters, precision
from roofline.model.architecture import Architecture, Block, Moe


@cache
def deployment(case: Case) -> Deployment:
    """The deployment of a case, at datasheet rates.

    Raises
    ------
    RooflineError
        The layout does not fit the network or the machine, or a format has no arithmetic there.
    """
    network = _stored(catalog.architecture(case.network), case)
    device = gpu_named(case.gpu)
    return Deployment(
        architecture=network,
        node=default_node(device, int(case.layout.devices)),
        precision=precision.resolve(
            "bf16" if network.weight_format == "fp32" else network.weight_format,
            case.kv,
            device,
            also=parameters.formats(network),
        ),
        engine=engine_named(case.engine),
        layout=case.layout,
    )


def _stored(network: Architecture, case: Case) -> Architecture:
    """The network in the formats of the row; its own checkpoint where they are alike.

    Quantisers to 4 bits leave the mixers of mixtures of experts in 16.
    """
    whole = case.weights == "checkpoint"
    weights = network.weight_format if whole else case.weights
    if case.experts and (whole or alike(case.experts, weights)):
        if whole and alike(case.experts, weights):
            return network
        weights = case.experts
    elif whole:
        return network
    plain = network.stored_as(weights)
    mixture = any(isinstance(block.feedforward, Moe) for block in network.kinds)
    if not mixture or precision.named(weights).element_bits >= NARROW:
        return plain
    blocks = {block: _mixer_in_sixteen(block, network.d_model) for block in plain.kinds}
    return replace(plain, layers=tuple(blocks[block] for block in plain.layers))


def _mixer_in_sixteen(block: Block, d_model: int) -> Block:
    matrices = block.mixer.linears(d_model) if block.mixer else ()
    formats = {matrix.name: "bf16" for matrix in matrices} | dict(block.formats)
    return replace(block, formats=tuple(formats.items()))
