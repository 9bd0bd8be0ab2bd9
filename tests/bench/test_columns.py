"""Files of measurements that leave columns out, and rows that mean nothing."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from roofline.bench.columns import COLUMNS, prepared
from roofline.errors import InputError

GEMM = {"gpu": "h100_sxm", "m": 64, "n": 128, "k": 256, "time_s": 1e-5}
DECODE = {"gpu": "a100", "batch": 2, "seq_kv": 100, "n_heads": 8, "time_s": 1e-5}


def frame(base: Mapping[str, object], *changes: Mapping[str, object]) -> pd.DataFrame:
    return pd.DataFrame([{**base, **change} for change in changes or ({},)])


def test_what_is_missing_has_its_usual_value() -> None:
    rows, refused = prepared("attention-decode", frame(DECODE))
    (row,) = rows.to_dict("records")
    assert not refused
    assert row["gpu"] == "a100-sxm"
    assert (row["seq_q"], row["n_kv_heads"], row["head_dim"], row["window"]) == (1, 8, 128, 0)
    assert (row["dtype"], row["kv_dtype"]) == ("bfloat16", "bfloat16")
    assert (row["backend"], row["version"], row["kernel"]) == ("", "", "")


def test_a_prefill_is_from_an_empty_cache_unless_it_says_otherwise() -> None:
    rows, _ = prepared("attention-prefill", frame(DECODE))
    assert rows.seq_q.tolist() == [100]
    rows, _ = prepared("attention-prefill", frame(DECODE, {"seq_q": 10}, {"seq_q": None}))
    assert rows.seq_q.tolist() == [10, 100]


def test_a_module_decodes_where_a_sequence_has_one_new_token() -> None:
    base = {**DECODE, "n_heads": 16}
    rows, _ = prepared("mla-module", frame(base, {"seq_q": 1}, {"seq_q": 7}))
    assert rows.phase.tolist() == ["decode", "prefill"]
    assert rows.gemm_dtype.tolist() == ["bfloat16", "bfloat16"]


def test_a_missing_value_is_as_good_as_a_missing_column() -> None:
    changes: list[dict[str, object]] = [
        {"dtype": None, "backend": np.nan},
        {"dtype": "fp8", "backend": "trtllm"},
    ]
    rows, refused = prepared("gemm", frame(GEMM, *changes))
    assert not refused
    assert rows.dtype.tolist() == ["bfloat16", "fp8"]
    assert rows.backend.tolist() == ["", "trtllm"]


def test_formats_have_other_names() -> None:
    rows, refused = prepared("gemm", frame(GEMM, {"dtype": "bf16"}, {"dtype": "half"}))
    assert not refused
    assert rows.dtype.tolist() == ["bfloat16", "float16"]


@pytest.mark.parametrize(
    ("change", "where", "why"),
    [
        ({"time_s": np.nan}, "time_s", "time_s is no number above 0: nan"),
        ({"time_s": 0.0}, "time_s", "time_s is no number above 0: 0"),
        ({"time_s": -1.0}, "time_s", "time_s is no number above 0: -1"),
        ({"time_s": np.inf}, "time_s", "time_s is no number above 0: inf"),
        ({"m": 0}, "m", "m is no number from 1 up: 0"),
        ({"m": 0.5}, "m", "m is no number from 1 up: 0.5"),
        ({"n": "wide"}, "n", "n is no number from 1 up: nan"),
        ({"k": 1e300}, "k", "k is no number from 1 up"),
        ({"dtype": "fp3"}, "dtype=fp3", "no form of gemm is for dtype 'fp3', only for bfloat16"),
        ({"gpu": "h100_smx"}, "gpu=h100_smx", "did you mean h100-sxm"),
        ({"gpu": None}, "gpu=", "no GPU is called ''"),
    ],
)
def test_a_row_without_meaning_is_refused_and_stops_no_other(
    change: Mapping[str, object], where: str, why: str
) -> None:
    rows, refused = prepared("gemm", frame(GEMM, {}, change, {"m": 65}))
    assert rows.index.tolist() == [0, 2]
    assert [r.index.tolist() for r in refused] == [[1]]
    assert refused[0].where == where
    assert why in refused[0].why


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        ("attention-decode", {"seq_q": 101}, "seq_q is above seq_kv"),
        ("attention-decode", {"n_kv_heads": 16}, "n_kv_heads is above n_heads"),
        ("attention-decode", {"kv_dtype": "int3"}, "no form of attention-decode is for kv_dtype"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(
    kind: str, change: Mapping[str, object], why: str
) -> None:
    rows, (refused,) = prepared(kind, frame(DECODE, change))
    assert rows.empty
    assert why in refused.why


def test_a_window_below_zero_is_none() -> None:
    rows, _ = prepared("attention-decode", frame(DECODE, {"window": -1}))
    assert rows.window.tolist() == [0]


def test_a_row_is_refused_once() -> None:
    _, refused = prepared("gemm", frame(GEMM, {"time_s": 0.0, "m": -1, "gpu": "none"}))
    assert sum(r.rows for r in refused) == 1


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_needed_column_that_is_missing_is_named_with_its_file(kind: str) -> None:
    with pytest.raises(InputError, match="the measurements have no column") as caught:
        prepared(kind, pd.DataFrame({"gpu": ["h100"], "time_s": [1e-5]}), "rows.csv")
    assert str(caught.value).startswith("rows.csv: ")
    assert kind in caught.value.hint


def test_the_way_a_source_wires_a_gpu_is_no_part_of_its_name() -> None:
    base = {"op": "all_reduce", "n_ranks": 2, "bytes": 1024, "time_s": 1e-5}
    rows, refused = prepared("collective", frame({**base, "gpu": "a100_pcie_pairnvlink"}))
    assert not refused
    assert rows.gpu.tolist() == ["a100-pcie"]
