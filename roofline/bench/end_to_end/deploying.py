"""Deployment of a case: its network as it is stored, on the node that holds its layout."""

from collections.abc import Callable
from functools import cache

from roofline.bench.calibrations import calibration_of, joined
from roofline.bench.end_to_end.cases import NARROW, Case
from roofline.bench.end_to_end.naming import alike
from roofline.cost.deployment import Deployment
from roofline.cost.measured import AUTO, USUAL
from roofline.hardware.catalog import default_node
from roofline.hardware.catalog import gpu as gpu_named
from roofline.hardware.engine import engine_on
from roofline.model import catalog, mixes, precision
from roofline.model.architecture import Architecture, Block
from roofline.records import replace


@cache
def deployment(case: Case) -> Deployment:
    """Deployment of a case, priced by measured kernels, else by what such kernels usually take.

    Raises:
        RooflineError: The layout does not fit the network or the machine, or a format has no
            arithmetic there.
    """
    network = _stored(catalog.architecture(case.network), case)
    device = gpu_named(case.gpu)
    node = default_node(device, int(case.layout.devices))
    switched, engine = joined(node), engine_on(case.engine, device.architecture)
    known = calibration_of(AUTO, device, case.engine, switched=switched)
    return Deployment(
        architecture=network,
        node=node,
        precision=precision.resolve(
            "bf16" if network.weight_format == "fp32" else network.weight_format,
            case.kv,
            device,
            also=network.formats,
            integers=engine.integers,
        ),
        engine=engine,
        layout=case.layout,
        calibration=known or calibration_of(USUAL, device, case.engine, switched=switched),
    )


def _stored(network: Architecture, case: Case) -> Architecture:
    """The network in the formats of the row; its own checkpoint where they are alike.

    Quantisers to 4 bits leave the mixers of mixtures of experts in 16; llama.cpp's mixes do not.
    """
    if case.weights in mixes.FILES:
        return mixes.mixed(network, case.weights)
    whole = case.weights == "checkpoint"
    weights = network.weight_format if whole else case.weights
    apart = bool(case.experts) and not alike(case.experts, weights)
    if not whole:
        # Blocks of fp8 that only the column of the experts tells are those of all matrices.
        network = network.stored_as(weights if apart or not case.experts else case.experts)
    if not whole and network.mixtures and precision.named(weights).element_bits < NARROW:
        network = _changed(network, _mixer_in_sixteen)
    if apart:
        network = _changed(network, lambda block, width: _routed(block, width, case.experts))
    return network


def _changed(network: Architecture, change: Callable[[Block, int], Block]) -> Architecture:
    blocks = {block: change(block, network.d_model) for block in network.kinds}
    return replace(network, layers=tuple(blocks[block] for block in network.layers))


def _mixer_in_sixteen(block: Block, d_model: int) -> Block:
    matrices = block.mixer.linears(d_model) if block.mixer else ()
    formats = {matrix.name: "bf16" for matrix in matrices} | dict(block.formats)
    return replace(block, formats=tuple(formats.items()))


def _routed(block: Block, d_model: int, stored: str) -> Block:
    """Routed experts in a format of their own."""
    experts = {matrix.name: stored for matrix in block.expert_linears(d_model)}
    formats = dict(block.formats) | experts
    return replace(block, formats=tuple(formats.items()))
