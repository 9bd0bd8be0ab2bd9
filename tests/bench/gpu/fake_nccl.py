"""NCCL, made up: what every rank of a group asked for reaches the clock of a GPU as one call."""

from types import ModuleType
from typing import Any

import numpy as np


def fake_nccl(gpu: Any) -> ModuleType:
    """Collectives count as one call when their group ends; every rank must have joined."""

    class Communicator:
        def __init__(self, rank: int, ranks: int) -> None:
            self.rank, self.ranks = rank, ranks

        @staticmethod
        def initAll(devices: list[int]) -> list["Communicator"]:
            assert devices == list(range(len(devices)))
            assert len(devices) <= gpu.devices
            return [Communicator(rank, len(devices)) for rank in devices]

        def put(self, *part: Any) -> None:
            assert gpu.group is not None, "outside a group, one process would wait for itself"
            gpu.group.append((self.rank, self.ranks, *part))

        def allReduce(self, sent: int, got: int, count: int, kind: int, op: int, s: int) -> None:
            assert (kind, op) == (6, 0)
            self.put("allReduce", 2 * count, s)

        def allGather(self, sent: int, got: int, count: int, kind: int, s: int) -> None:
            self.put("allGather", 2 * count * self.ranks, s)

        def reduceScatter(
            self, sent: int, got: int, count: int, kind: int, op: int, s: int
        ) -> None:
            self.put("reduceScatter", 2 * count * self.ranks, s)

        def send(self, sent: int, count: int, kind: int, peer: int, s: int) -> None:
            assert peer == 1
            self.put("sendRecv", 2 * count, s)

        def recv(self, got: int, count: int, kind: int, peer: int, s: int) -> None:
            assert peer == 0
            self.put("sendRecv", 2 * count, s)

    def start() -> None:
        gpu.group = []

    def end() -> None:
        assert gpu.group is not None
        parts, gpu.group = gpu.group, None
        ranks, name, payload = parts[0][1:4]
        assert sorted(part[0] for part in parts) == list(range(ranks))
        assert {part[2:4] for part in parts} == {(name, payload)}
        assert len({part[4] for part in parts}) == ranks, "each rank has a stream of its own"
        arguments = (np.int64(ranks), np.int64(payload))
        gpu.call(name, [], constants={}, grid=(), arguments=arguments)

    module = ModuleType("cupy.cuda.nccl")
    vars(module).update(
        available=True,
        NcclCommunicator=Communicator,
        groupStart=start,
        groupEnd=end,
        NCCL_FLOAT16=6,
        NCCL_SUM=0,
    )
    return module
