"""One amount of memory, four meanings."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InfeasibleError
from roofline.interop.commands.memory import converted, kept_outside
from roofline.interop.commands.served import Of, OffloadedWeights, Room, ServerMemory
from roofline.records import replace
from tests.interop.commands.serving import GIB, ROOM

MEANINGS: tuple[Of, ...] = get_args(Of)
# 100 bytes: 40 of weights, 6 of activations, 4 reserved, half a byte for a token.
SMALL = Room(100.0, 40.0, 6.0, 4.0, 40.0, 8, 0.5)
rooms = st.builds(
    lambda weights, activations, token: replace(
        ROOM, weights=weights * GIB, activations=activations * GIB, token=float(token)
    ),
    st.floats(1, 50),
    st.floats(0.1, 5),
    st.integers(1000, 10**6),
)


def test_the_bytes_of_a_share_by_hand() -> None:
    share = ServerMemory(0.9)  # 90 bytes, of which 50 are taken: 40 for the cache
    assert converted(share, "static", SMALL) == pytest.approx((40 + 40) / 100)
    assert converted(share, "free", SMALL) == pytest.approx(40 / 50)
    assert converted(share, "tokens", SMALL) == 80


@given(room=rooms, share=st.integers(8500, 10000), of=st.sampled_from(MEANINGS))
def test_there_and_back_is_the_same_share(room: Room, share: int, of: Of) -> None:
    there = converted(ServerMemory(share / 10000), of, room)
    back = converted(ServerMemory(there, of), "device", room)
    # Whole tokens are coarser than the digits of a share.
    assert back == pytest.approx(share / 10000, abs=2e-4 if of == "tokens" else 1e-9)


@given(room=rooms, share=st.floats(0.85, 1.0))
def test_weights_and_cache_are_less_than_everything(room: Room, share: float) -> None:
    assert converted(ServerMemory(share), "static", room) < share + 1e-6
    assert 0 < converted(ServerMemory(share), "free", room) <= 1


@given(room=rooms, less=st.floats(0.85, 0.99))
def test_more_memory_is_more_by_every_meaning(room: Room, less: float) -> None:
    for of in MEANINGS:
        assert converted(ServerMemory(less + 0.01), of, room) >= converted(
            ServerMemory(less), of, room
        )


def test_no_room_is_said_and_not_written() -> None:
    with pytest.raises(InfeasibleError, match="no room is left for a cache"):
        converted(ServerMemory(0.4), "free", SMALL)


def test_weights_on_the_host_by_hand() -> None:
    assert kept_outside(OffloadedWeights(0.25), "bytes", SMALL) == 10
    assert kept_outside(OffloadedWeights(0.25), "resident", SMALL) == 6
    assert kept_outside(OffloadedWeights(10.0, "bytes"), "layers", SMALL) == 0.25
    assert kept_outside(OffloadedWeights(6.0, "resident"), "layers", SMALL) == 0.25
    # A part of a layer cannot stay: the device never gets more than was asked for.
    assert kept_outside(OffloadedWeights(0.3), "resident", SMALL) == 5
