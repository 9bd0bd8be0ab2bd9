"""Requests beyond the network's context: refused, left out or cut, with the count told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline import api
from roofline.api.workload import curve_of
from roofline.errors import InputError
from roofline.serving.requests import clipped, picked_rows, requests
from roofline.table import Result

TABLE = "arrival_s,prompt,output\n0,100,50\n0.5,200000,100\n1,300,20\n2,131000,200\n"
LIMIT = 131_072
"""Context of the network, which the second request and the fourth exceed. [token]"""


def served(tmp_path: Path, table: str = TABLE, **asked: Any) -> Result:
    path = tmp_path / "trace.csv"
    path.write_text(table, "utf-8")
    return api.simulate("llama-3.1-8b", "h100-sxm", trace=path, with_requests=True, **asked)


def test_what_is_too_long_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 of 4 requests are longer") as refused:
        served(tmp_path)
    assert "`drop_over_length`" in refused.value.hint
    assert "`clip`" in refused.value.hint
    with pytest.raises(InputError, match="beside"):
        served(tmp_path, clip=True, drop_over_length=True)


@pytest.mark.slow
def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    result = served(tmp_path, drop_over_length=True)
    assert list(result.tables["requests"]["prompt"]) == [100, 300]
    said = next(note for note in result.notes if note.startswith("2 of 4 requests were longer"))
    assert said.endswith("left out: the others are 0.75 a second.")  # half of 3 gaps in 2 s
    clients = served(tmp_path, drop_over_length=True, concurrency=1)
    assert any(note.endswith("and are left out.") for note in clients.notes)


@pytest.mark.slow
def test_what_is_cut_ends_at_the_context(tmp_path: Path) -> None:
    """The answer stays: 100 and 200 tokens of it, and the prompt takes what is left."""
    result = served(tmp_path, clip=True)
    assert list(result.tables["requests"]["prompt"]) == [100, LIMIT - 100, 300, LIMIT - 200]
    assert list(result.tables["requests"]["output"]) == [50, 100, 20, 200]
    assert any("2 of 4 requests were longer" in note and "cut" in note for note in result.notes)


@pytest.mark.slow
def test_nothing_is_said_where_all_fit(tmp_path: Path) -> None:
    table = "arrival_s,prompt,output\n0,100,50\n1,300,20\n"
    plain, told = served(tmp_path, table), served(tmp_path, table, clip=True)
    assert plain.tables["requests"]["prompt"] == told.tables["requests"]["prompt"]
    assert plain.notes == told.notes


@pytest.mark.slow
def test_a_trace_of_texts_wants_a_rate_or_clients(tmp_path: Path) -> None:
    turns = (
        '{"conversations": [{"from": "human", "value": "abcd"}, {"from": "gpt", "value": "ef"}]}\n'
    )
    path = tmp_path / "chats.json"
    path.write_text(turns * 3, "utf-8")
    with pytest.raises(InputError, match="does not say when") as refused:
        api.simulate("llama-3.1-8b", "h100-sxm", trace=path)
    assert "`rate`" in refused.value.hint
    with pytest.raises(InputError, match="does not say when"):
        curve_of(path)
    result = api.simulate("llama-3.1-8b", "h100-sxm", trace=path, rate=2.0, seed=1)
    assert any("estimated" in note for note in result.notes)


def test_blocks_of_a_prompt_that_is_cut_are_those_that_are_left() -> None:
    made = requests([0.0, 1.0], [12, 8], [2, 2], blocks=[(1, 2, 3), (1, 4)], block=4)
    short = clipped(made, 10)
    assert short.prompt.tolist() == [8, 8]
    assert short.prefix.tolist() == [0, 2, 4]
    assert short.hashes.tolist() == [1, 2, 1, 4]
    assert picked_rows(short, np.array([1])).hashes.tolist() == [1, 4]
