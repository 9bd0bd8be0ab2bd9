"""Rows that come again are priced once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost.kernels.form import distinct

SOME = st.sampled_from([-2.0, -0.0, 0.0, 1.0, 2.0**40])


@given(st.lists(st.tuples(SOME, SOME, SOME), min_size=1, max_size=40))
def test_rows_that_differ_are_told_apart_in_the_order_of_their_numbers(
    rows: list[tuple[float, float, float]],
) -> None:
    table = np.array(rows)
    dims = dict(zip("mnk", table.T.copy(), strict=True))
    first, place = distinct(dims)
    assert (table[first][place] == table).all()
    found = [tuple(row) for row in table[first].tolist()]
    assert found == sorted(set(found))
    for number, row in enumerate(table):
        # The first of equal rows stands for them.
        assert first[place[number]] == np.flatnonzero((table == row).all(axis=1))[0]
