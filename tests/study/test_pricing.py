"""The work of chunks: how they are cut, what crosses to other processes, what is empty."""

import json
import pickle
from typing import Any

import pytest

from roofline.api.lanes import ScenarioLanes
from roofline.cost.calibration import remembered
from roofline.cost.calibration.remembered import PriceCache
from roofline.study import pricing as chunks
from roofline.study.pricing import LANES, ONE_BY_ONE, TOGETHER, Pricing, chunk_size
from roofline.study.scenario.crossing import grid_of
from roofline.study.store.chunk import Chunk
from roofline.study.store.parts import TALLY
from tests.study.scenario.documents import BATCH, TRAFFIC, scenario


def pricing(base: dict[str, Any], **changes: Any) -> Pricing:
    asked = scenario(base, **changes)
    lanes = ScenarioLanes(asked)
    return Pricing(asked, grid_of(asked, lanes.found), lanes)


@pytest.mark.parametrize(
    ("base", "changes", "size"),
    [
        (BATCH, {}, LANES * 2),
        (BATCH, {"batch": {"from": 1, "to": 2**17, "step": 1}}, TOGETHER),
        (BATCH, {"batch": {"from": 1, "to": 2**20, "step": 1}}, TOGETHER),
        (BATCH, {"techniques": {"offload": {"weights": "auto"}}}, ONE_BY_ONE),
        (BATCH, {"patches": [{"name": "p", "technique": {"offload": {"weights": "auto"}}}]}, 256),
        (TRAFFIC, {}, 4 * 2),
    ],
)
def test_chunks_are_some_seconds_of_work(
    base: dict[str, Any], changes: dict[str, Any], size: int
) -> None:
    work = pricing(base, **changes)
    assert chunk_size(work.scenario, work.grid) == size


def test_prices_do_not_cross_to_other_processes() -> None:
    work = pricing(BATCH)
    size = len(pickle.dumps(work))
    table = work(Chunk(0, 0, 2))
    assert len(pickle.dumps(work)) == size
    assert pickle.loads(pickle.dumps(work))(Chunk(0, 0, 2)).equals(table)


def test_a_chunk_of_nothing_good_has_all_columns_and_no_rows() -> None:
    nothing = pricing(BATCH, constraints={"tpot_s": "1 ns"})(Chunk(0, 0, 2))
    something = pricing(BATCH)(Chunk(0, 0, 2))
    assert nothing.schema.equals(something.schema)
    assert len(nothing) == 0
    assert json.loads(nothing.schema.metadata[TALLY]) == {"tpot_s": 2}
    assert json.loads(something.schema.metadata[TALLY]) == {"feasible": 2}


def test_points_of_many_and_of_one_lane_are_the_same() -> None:
    work = pricing(BATCH, gpus=["h100-sxm", "a100-sxm"], batch=[1, 3, 7], keep="all")
    whole = work(Chunk(0, 0, 6)).to_pylist()
    for number in range(6):
        (row,) = work(Chunk(0, number, number + 1)).to_pylist()
        for name, value in whole[number].items():
            figure = isinstance(value, float)
            assert row[name] == (pytest.approx(value, rel=1e-14) if figure else value)


MIXED: dict[str, Any] = {
    "models": [
        "llama-3.1-8b",
        "qwen3-30b-a3b",
        {"model": "llama-3.1-8b", "name": "sparse", "with": "sparsity=2:4"},
    ],
    "gpus": ["h100-sxm", "a100-sxm", "v100-sxm"],
    "layouts": ["tp1", "tp2", "tp1-pp2"],
    "weights": ["bf16", "fp8"],
    "batch": [1, 3, 7, 64],
    "prompt": [128, 1024, 200_000],
    "output": {"from": 1, "to": 4096, "points": 40, "scale": "log"},
    "keep": "all",
}


@pytest.mark.slow
def test_bytes_do_not_depend_on_what_is_looked_up_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = []
    for ahead, points in ((24, 2**19), (1, 2**19), (5, 2**19), (24, 1000)):
        monkeypatch.setattr(remembered, "SHARED", PriceCache())
        monkeypatch.setattr(chunks, "AHEAD", ahead)
        monkeypatch.setattr(chunks, "POINTS_AHEAD", points)
        work = pricing(BATCH, **MIXED)
        tables.append(work(Chunk(0, 0, len(work.grid))))
    first, *others = tables
    limits = set(first["limit"].to_pylist())
    assert {"", "memory", "context", "format"} <= limits
    assert all(other.equals(first) for other in others)
