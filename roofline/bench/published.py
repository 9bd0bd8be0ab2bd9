"""Published rates of where probes run: what a plan expects, and what fits are compared with."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from roofline.bench import processor
from roofline.cost.kernels.form import Machine
from roofline.cost.kernels.form import machine as machine_of
from roofline.errors import DocumentError, RooflineError
from roofline.hardware.catalog import default_node, gpu
from roofline.hardware.machine import Gpu

USUAL: Final = ("bf16", "fp16", "fp32")
"""Arithmetic that stands for a device where a probe has none, the first one that it has."""


@dataclass(frozen=True, slots=True)
class Published:
    """Published rates."""

    source: str
    """Whose: a name or path that `roofline.hardware.catalog.gpu` finds."""
    machine: Machine
    """At the usual arithmetic of the device."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """By arithmetic type; empty where all are that of `machine`. [FLOP/s]"""
    link_bytes_per_s: float = 0.0
    """Of a device, to others, in one direction; 0 where there are no others. [B/s]"""
    in_switch: bool = False
    """Whether the switch between them adds numbers itself."""

    def of(self, arithmetic: str) -> Machine:
        """The machine as it computes in that type; its usual one where there is none."""
        rate = self.rates.get(arithmetic, self.machine.flops_per_s)
        return replace(self.machine, flops_per_s=rate)


def of_processor(here: processor.Processor, threads: int) -> Published:
    """Rates that stand in for those of a processor."""
    return Published(processor.GENERIC, processor.machine(here, threads))


def of_gpu(found: Gpu, source: str, link: str = "", devices: int = 1) -> Published:
    """Rates of a GPU, in a machine with so many, joined by a link of that kind.

    Args:
        found: Of the catalog.
        source: Name or path that finds it there.
        link: Key of its ``links``; empty for a GPU that is alone.
        devices: In the machine. [1]
    """
    usual = next(
        (name for name in USUAL if name in found.flops_per_s), next(iter(found.flops_per_s))
    )
    wires = found.links.get(link)
    if wires and devices > 1:
        inside = default_node(found, devices).link
        wires = inside if inside and inside.kind == link else wires
    return Published(
        source,
        machine_of(found, usual),
        dict(found.flops_per_s),
        wires.bytes_per_s if wires else 0.0,
        bool(wires and wires.reduces),
    )


def of_run(about: Mapping[str, str]) -> Published:
    """Rates of the machine of a run, wherever it is read, from its environment.

    Raises:
        DocumentError: Its environment does not say what machine it was, or that is not to be found
            here.
    """
    try:
        if "datasheet" in about:
            source, devices = about["datasheet"], int(about.get("devices", "1"))
            return of_gpu(gpu(source), source, about.get("link", ""), devices)
        here = processor.Processor(
            about["processor"], int(about["cores"]), float(about["cache"]), float(about["memory"])
        )
        return of_processor(here, int(about["threads"]))
    except (KeyError, ValueError) as error:
        raise DocumentError(
            f"the environment of the run is incomplete: {error}", hint="measure again"
        ) from None
    except RooflineError as error:
        raise DocumentError(
            f"the published rates of the run are not here: {error}", hint=error.hint
        ) from None
