"""NCCL, made up: what every rank of a group asked for reaches the clock of a GPU as one call."""

from types import ModuleType
from typing import Any

import numpy as np


def paired(parts: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """One call for each rank, where each message is received by whom it is sent to.

    Messages between all ranks, each from a place of its own, are an all-to-all; one is a send.
    """
    ways = {(rank, peer) for rank, _, how, *_, peer, _ in parts if how == "send"}
    assert ways == {(peer, rank) for rank, _, how, *_, peer, _ in parts if how == "recv"}
    ranks, size = parts[0][1], parts[0][3]
    assert {part[3] for part in parts} == {size}
    if len(ways) == 1:
        return [(rank, ranks, "sendRecv", size, stream) for rank, *_, stream, _, _ in parts]
    assert ways == {(rank, peer) for rank in range(ranks) for peer in range(ranks)}
    for rank in range(ranks):
        for how in ("send", "recv"):
            at = sorted(place for r, _, h, *_, place in parts if (r, h) == (rank, how))
            assert [place - at[0] for place in at] == [size * n for n in range(ranks)]
    streams = {rank: stream for rank, *_, stream, _, _ in parts}
    return [(rank, ranks, "allToAll", size * ranks, stream) for rank, stream in streams.items()]


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
            self.put("send", 2 * count, s, peer, sent)

        def recv(self, got: int, count: int, kind: int, peer: int, s: int) -> None:
            self.put("recv", 2 * count, s, peer, got)

    def start() -> None:
        gpu.group = []

    def end() -> None:
        assert gpu.group is not None
        parts, gpu.group = gpu.group, None
        if parts[0][2] == "send":
            parts = paired(parts)
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
