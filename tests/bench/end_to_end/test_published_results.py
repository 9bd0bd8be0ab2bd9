"""Published results: facts with sources, spelled as rows where a row can spell them."""

from pathlib import Path

import pandas as pd
import pytest

from roofline.bench.end_to_end.cases import MODES, read
from roofline.bench.end_to_end.published_results import (
    FOLDER,
    POOLS,
    SERVER,
    published_results,
    read_published,
    row_of,
)
from roofline.content import shipped
from roofline.errors import DocumentError, QuantityError
from roofline.hardware.catalog import gpu
from roofline.model.catalog import architecture

RESULTS = published_results()
SHIPPED = sorted((shipped("hwspecs") / FOLDER).glob("*.yaml"))
MINE = """\
schema_version: 1
name: mine
title: Mine
results:
- name: first
  title: Llama-3.1-8B, H100
  ran: {model: llama-3.1-8b, gpu: h100-sxm, gpus: 4, engine: vllm}
  load: {mode: steady_concurrency, batch: 16, prompt: 1000, output: 100}
  measured: {throughput_tok_s: 1200 token/s, tpot_s: 12 ms}
  per: 2
  source: blog
  where: table 1
sources:
  blog: {title: A blog, url: "https://example.org/blog", date: "2025-01"}
"""


def written(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_there_are_a_dozen_or_two_and_each_has_a_name_of_its_own() -> None:
    assert 12 <= len(RESULTS) <= 25
    assert len({each.name for each in RESULTS}) == len(RESULTS)
    assert len({each.title for each in RESULTS}) == len(RESULTS)


@pytest.mark.parametrize("result", RESULTS, ids=lambda each: each.name)
def test_every_result_says_where_it_is_published(result: object) -> None:
    assert isinstance(result, type(RESULTS[0]))
    source = result.source
    assert source.title
    assert source.where
    assert source.url.startswith("https://")
    assert source.date[:4].isdigit()
    assert all(value > 0 for value in result.measured.values())


@pytest.mark.parametrize("result", RESULTS, ids=lambda each: each.name)
def test_every_result_is_of_a_known_network_and_device(result: object) -> None:
    assert isinstance(result, type(RESULTS[0]))
    assert architecture(result.ran["model"]).name
    assert gpu(result.ran["gpu"]).name == result.ran["gpu"]


@pytest.mark.parametrize("result", RESULTS, ids=lambda each: each.name)
def test_every_result_is_a_row_or_a_pool_or_says_why_it_is_neither(result: object) -> None:
    assert isinstance(result, type(RESULTS[0]))
    mode = result.load["mode"]
    if result.pool:
        assert result.unpredicted or int(result.layout.devices) == result.ran["gpus"]
        assert set(result.measured) == {"throughput_tok_s"}
    elif mode == SERVER:
        assert result.unpredicted
    else:
        rows, unread = read(pd.DataFrame([row_of(result)]))
        assert not unread
        assert rows[0].devices == result.ran["gpus"]


def test_every_load_of_a_file_is_known() -> None:
    assert {each.load["mode"] for each in RESULTS} <= {*MODES, *POOLS, SERVER}


def test_a_row_has_the_rate_of_all_devices(tmp_path: Path) -> None:
    (result,) = read_published(written(tmp_path, MINE))
    row = row_of(result)
    assert row["throughput_tok_s"] == pytest.approx(2400.0)
    assert row["tpot_s"] == pytest.approx(0.012)
    assert (row["n_gpus"], row["batch"], row["isl"], row["osl"]) == (4, 16, 1000, 100)
    assert row["tp"] is None  # as a row says nothing of it


@pytest.mark.parametrize(
    ("old", "new", "at", "says"),
    [
        ("source: blog", "source: blag", "blag", "not listed"),
        ("  source: blog\n", "", "- name: first", "source"),
        ("1200 token/s", "1200 req/s", "1200 req", "not in token/s"),
        ("1200 token/s", "0 token/s", "0 token", "throughput_tok_s is '0 token/s'"),
        ('url: "https:', 'url: "http:', '"http:', "url"),
        ('date: "2025-01"', 'date: "yesterday"', '"yesterday"', "date"),
        ("mode: steady_concurrency", "mode: fast", "fast", "mode"),
        ("gpus: 4", "gpus: 0", "0, engine", "gpus"),
        ("  per: 2", "  par: 2", "par", "par"),
    ],
)
def test_a_mistake_is_refused_where_it_is(
    tmp_path: Path, old: str, new: str, at: str, says: str
) -> None:
    text = MINE.replace(old, new)
    assert text != MINE
    with pytest.raises((DocumentError, QuantityError)) as caught:
        read_published(written(tmp_path, text))
    line = text[: text.index(at)].count("\n") + 1
    assert f"mine.yaml:{line}:" in str(caught.value)
    assert says in str(caught.value)


def test_a_source_that_nothing_uses_is_refused(tmp_path: Path) -> None:
    more = '  other: {title: Other, url: "https://example.org", date: "2024"}\n'
    with pytest.raises(DocumentError, match="'other' is listed but nothing uses it"):
        read_published(written(tmp_path, MINE + more))


def test_a_name_that_two_files_have_is_refused(tmp_path: Path) -> None:
    written(tmp_path, MINE)
    written(tmp_path, MINE, "yours")
    with pytest.raises(DocumentError, match=r"yours\.yaml: the result 'first' is there twice"):
        published_results(tmp_path)
