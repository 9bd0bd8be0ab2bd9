"""Collectives between GPUs: one probe for each operation of NCCL, all of the same sizes."""

from collections.abc import Sequence
from typing import Final

from roofline.bench.gpu.calls import Collective, Operation
from roofline.bench.gpu.device import Sku
from roofline.bench.probe import Maker, Probe, Shape
from roofline.cost.kernels.collective import moved
from roofline.cost.work import Work
from roofline.units import PREFIX

SIZES: Final = tuple(
    sorted(
        int(PREFIX["Ki"]) * factor * 2**power for factor in (1, 3) for power in range(21 - factor)
    )
)
"""From 1 KiB to 1 GiB, two for each octave. [B]"""
RANKS: Final = (2, 4, 8)


def collective(name: str, operation: Operation, way: str, ranks: Sequence[int] = RANKS) -> Probe:
    """Probe of an operation of NCCL on the first GPUs of a machine, in half precision.

    Args:
        name: As its file is called.
        operation, way: Keys of `roofline.cost.kernels.collective.PATHS`; the way says what the
            wires are counted to carry.
        ranks: GPUs that take part. [1]
    """

    def arguments(make: Maker, at: Shape) -> dict[str, object]:
        return {"payload": at["payload"], "ranks": at["ranks"]}

    def kernels(gpu: Sku, payload: int, ranks: int) -> Sequence[Collective]:
        return (Collective(operation, payload, ranks),)

    def work(at: Shape) -> Work:
        messages, share = moved(operation, way, float(at["ranks"]))
        return Work(wire_bytes=float(share) * at["payload"], messages=float(messages))

    return Probe(
        name=name,
        version=1,
        kind="collective",
        axes={"ranks": ranks, "payload": SIZES},
        arguments=arguments,
        work=work,
        backends=("cupy",),
        kernels=kernels,
        devices=lambda at: at["ranks"],
        form=f"collective-{name}",
    )
