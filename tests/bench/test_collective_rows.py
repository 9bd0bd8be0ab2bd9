"""Measured collectives as columns: what joins the ranks decides the rate."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from roofline.bench.columns import prepared
from roofline.bench.datasheet import datasheet
from roofline.bench.exchange_rows import FEW, LEAST, collective_groups
from roofline.bench.kernel_rows import RowGroup
from roofline.bench.predictors import PredictedTimes
from roofline.bench.validation import validate
from roofline.cost.kernels.catalog import FORMS
from roofline.errors import LayoutError, RooflineError, UnknownNameError

BASE = {
    "gpu": "h100_sxm",
    "backend": "nccl-tests",
    "op": "all_reduce",
    "dtype": "half",
    "n_ranks": 8,
    "bytes": 2**20,
    "time_s": 1e-4,
}


def groups(*changes: Mapping[str, object]) -> list[RowGroup]:
    rows, refused = prepared("collective", pd.DataFrame([{**BASE, **c} for c in changes]))
    assert not refused
    return list(collective_groups(rows))


def test_ranks_beyond_the_devices_of_a_node_meet_over_the_network() -> None:
    inside, across = groups(
        {"topology": "h100_dgx_dpn4", "n_ranks": 4}, {"topology": "h100_dgx_dpn4", "n_ranks": 8}
    )
    assert inside.dims["bytes_per_s"].tolist() == [450e9]
    # Four adapters of 400 Gb/s.
    assert across.dims["bytes_per_s"].tolist() == [4 * 50e9]
    assert inside.dims["in_switch"].tolist() == [1]
    assert across.dims["in_switch"].tolist() == [0]


def test_pairs_of_cards_meet_over_their_bridge_and_more_over_the_host() -> None:
    place = {"gpu": "a100_pcie_pairnvlink", "topology": "a100_pairwise_nvlink_dpn4"}
    (pair,) = groups({**place, "n_ranks": 2})
    (four,) = groups({**place, "n_ranks": 4})
    (host,) = groups({"gpu": "l40s", "topology": "l40s_pcie_1node"})
    assert pair.dims["bytes_per_s"].tolist() == [300e9]
    assert four.dims["bytes_per_s"].tolist() == [31.5e9]
    # Four pairs share the host's bridge.
    assert host.dims["bytes_per_s"].tolist() == [31.5e9 / 4]


def test_only_floats_are_added_in_the_switch_and_only_by_some_switches() -> None:
    many: list[dict[str, object]] = [{}] * FEW
    (both,) = groups({}, {"dtype": "int8"}, *many)
    assert both.dims["in_switch"].tolist()[:2] == [1, 0]
    (older,) = groups(*({**each, "gpu": "a100_sxm"} for each in many))
    assert older.dims["in_switch"].tolist() == [0] * FEW
    assert len(older.form.constants) < len(both.form.constants)


def test_few_rows_are_told_by_the_shortest_algorithm_and_the_widest() -> None:
    (few,) = groups({"backend": "vllm-custom"}, {"backend": "vllm-custom", "bytes": 2**24})
    (enough,) = groups(*({"backend": "vllm-custom"} for _ in range(FEW)))
    assert len(few.form.constants) < len(enough.form.constants)
    assert few.form in FORMS.values()


def test_releases_of_few_rows_are_taken_together_under_the_latest() -> None:
    (both,) = groups({"version": "0.5.9"}, {"version": "0.5.14"})
    assert (len(both), both.name["version"]) == (2, "0.5.14")
    apart = groups(*({"version": each} for each in ("0.5.9", "0.5.14") for _ in range(LEAST)))
    assert {group.name["version"] for group in apart} == {"0.5.9", "0.5.14"}


def test_an_octave_of_sizes_is_a_family() -> None:
    (group,) = groups({"bytes": 1024}, {"bytes": 2047}, {"bytes": 2048})
    assert group.families.tolist() == [10, 10, 11]


def test_the_least_bytes_over_the_link_are_the_datasheet() -> None:
    plain, two = (datasheet(groups({"n_ranks": n, "dtype": "int8"})[0])[0] for n in (8, 2))
    # A ring sends 2·(n − 1)/n tensors.
    assert plain == pytest.approx(2 * 7 / 8 * 2**20 / 450e9)
    assert two == pytest.approx(2**20 / 450e9)
    (switched,) = groups({})
    assert datasheet(switched)[0] == pytest.approx((1 + 1 / 8) * 2**20 / 450e9)


def test_what_nothing_is_known_of_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no known algorithm of 'gather'"):
        groups({"op": "gather"})
    with pytest.raises(UnknownNameError, match="no known algorithm of 'all_gather'"):
        groups({"op": "all_gather", "backend": "vllm-custom"})
    with pytest.raises(LayoutError):
        groups({"gpu": "a40", "topology": "a40_pairwise_nvlink_dpn2", "n_ranks": 4})


def test_columns_are_in_step() -> None:
    (group,) = groups({"bytes": 2**30, "time_s": 2.0}, {"bytes": 2**10, "time_s": 1.0})
    assert group.index.tolist() == [0, 1]
    np.testing.assert_array_equal(group.dims["payload"], [2**30, 2**10])
    np.testing.assert_array_equal(group.measured, [2.0, 1.0])


def test_a_validation_fits_together_what_the_calibrations_do() -> None:
    rows = [{**BASE, "version": version} for version in ("2.23", "2.27.3")]
    rows += [{**row, "dtype": "int8"} for row in rows]
    sizes: list[int] = []

    def seen(groups: Sequence[RowGroup]) -> Iterator[PredictedTimes | RooflineError]:
        sizes.extend(map(len, groups))
        yield from (PredictedTimes(each.measured, np.ones(len(each)), "") for each in groups)

    found = validate("collective", pd.DataFrame(rows), seen)
    assert sizes == [4]
    assert not found.refused
