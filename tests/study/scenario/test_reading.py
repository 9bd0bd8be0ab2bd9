"""Scenario files: what they mean, and errors that say where and what would fit."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import DocumentError, RooflineError, UnknownNameError
from roofline.study.grid import ListedNumbers
from roofline.study.scenario.crossing import grid_of
from roofline.study.scenario.reading import read_scenario, scenario_named
from roofline.study.scenario.scenario import BASE, PLAIN, LayoutsOnGpus
from roofline.study.sweep.keep import FigureLimit, SweepObjective
from tests.study.scenario.documents import BATCH, TRAFFIC, scenario

FILE = """\
schema_version: 1
name: mine
title: Which?
kind: batch
models: [llama-3.1-8b, {model: llama-3.1-8b, with: "window=1024,kv=fp8"}]
gpus: [h100_sxm, A100-SXM]
layouts: [tp1, TP2 x PP2]
weights: [auto, int4-awq]
techniques: [plain, {prefix_hit: 0.5}, {offload: {weights: auto}}]
patches: [{name: big, memory: 141 GiB, price: 4 $/h}]
batch: {from: 1, to: 64, points: 4, scale: log}
prompt: [512, 1024]
output: [128, 64]
zip: [[prompt, output], [gpus, layouts]]
constraints: {ttft_s: 500 ms, user_tok_s: 20, usd_per_mtok_high: "<= 3 $", memory: fits}
objectives: [min usd_per_mtok, max user_tok_s]
prices: {h100-sxm: 3}
keep: top-5
"""


def test_a_file_means_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(FILE)
    found = read_scenario(path)
    assert [model.name for model in found.models] == [
        "llama-3.1-8b",
        "llama-3.1-8b window=1024,kv=fp8",
    ]
    assert found.machines == ("h100-sxm", "a100-sxm")
    assert found.layouts == ("tp1", "tp2-pp2")
    assert found.weights == ("auto", "int4")
    assert found.techniques[0] == PLAIN
    assert found.techniques[1].prefix_hit == 0.5
    assert found.techniques[2].offload.least
    assert found.patches[0] == BASE
    assert found.patches[1].memory_bytes == 141 * 2**30
    assert found.patches[1].usd_per_hour == 4
    assert found.numbers["batch"] == ListedNumbers((1, 4, 16, 64))
    assert found.limits == (
        FigureLimit("ttft_s", 0.5),
        FigureLimit("user_tok_s", 20, at_least=True),
        FigureLimit("usd_per_mtok_high", 3),
    )
    assert found.objectives == (
        SweepObjective("usd_per_mtok"),
        SweepObjective("user_tok_s", largest=True),
    )
    assert found.prices == {"h100-sxm": 3}
    grid = grid_of(found, lambda *_: ())
    # 2 models × 2 machines with their layouts × 2 weights × 3 techniques × base and patch
    assert (grid.lanes, grid.points) == (2 * 2 * 2 * 3 * 2, 4 * 2)
    assert {(grid.lane(n)["machine"], grid.lane(n)["layout"]) for n in range(grid.lanes)} == {
        ("h100-sxm", "tp1"),
        ("a100-sxm", "tp2-pp2"),
    }
    assert grid.numbers(0, 2)["prompt"].tolist() == [512, 1024]
    assert grid.numbers(0, 2)["output"].tolist() == [128, 64]


def test_one_value_needs_no_list() -> None:
    assert scenario(BATCH, models="llama-3.1-8b", batch=8) == scenario(
        BATCH, models=["llama-3.1-8b"], batch=[8]
    )


def test_files_are_looked_for_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    shipped = scenario_named("gpus")
    assert shipped.source == "scenarios/gpus.yaml"
    network = Path("scenarios/models/llama-3.1-8b.yaml")
    root = Path(__file__).parents[3]
    (tmp_path / "network.yaml").write_text((root / network).read_text())
    path = tmp_path / "mine.yaml"
    path.write_text(FILE.replace("models: [llama-3.1-8b,", "models: [network.yaml,"))
    found = read_scenario(path)
    assert found.models[0].model == str(tmp_path / "network.yaml")
    before = found.sources.named(tmp_path)
    (tmp_path / "network.yaml").write_text((root / network).read_text() + "# touched\n")
    after = read_scenario(path).sources.named(tmp_path)
    assert [*before] == [*after] == ["network.yaml"]
    assert before != after


def test_the_digest_is_that_of_what_is_said_not_of_how() -> None:
    one = scenario(BATCH, seed=1)
    assert one.said == scenario(dict(reversed(BATCH.items())), seed=1).said
    assert one.said != scenario(BATCH, seed=2).said


def test_a_scenario_can_be_sent_to_another_process() -> None:
    found = scenario_named("chat")
    assert pickle.loads(pickle.dumps(found)) == found


def test_layouts_can_be_left_to_be_found() -> None:
    assert scenario(BATCH, layouts={"gpus": [2, 4]}).layouts == LayoutsOnGpus((2, 4))
    assert scenario(BATCH, layouts="auto").layouts == LayoutsOnGpus((1, 2, 4, 8), "cost")
    asked = scenario(BATCH, models=["llama-3.1-8b", "llama-3.1-70b"], layouts={"gpus": 2})
    grid = grid_of(asked, lambda model, *_: ("tp2",) if "70b" in model else ("tp2", "pp2"))
    assert [tuple(grid.lane(n).values())[:3] for n in range(grid.lanes)] == [
        ("llama-3.1-8b", "h100-sxm", "tp2"),
        ("llama-3.1-8b", "h100-sxm", "pp2"),
        ("llama-3.1-70b", "h100-sxm", "tp2"),
    ]


@pytest.mark.parametrize(
    ("line", "instead", "where", "message", "hint"),
    [
        ("kind: batch", "kind: batches", "4:7", "'kind' cannot be 'batches'", "'batch'"),
        ("title: Which?", "titel: Which?", "3:1", "'titel' is not a known key", "did you mean"),
        ("h100_sxm", "h100_smx", "6:8", "no GPU is called", "h100-sxm"),
        ("[llama-3.1-8b,", "[llama-3.1-8bb,", "5:10", "no network", "llama-3.1-8b"),
        ("window=1024", "windw=1024", "5:32", "no change called 'windw'", "did you mean window"),
        ("kv=fp8", "gpu=t4", "5:32", "gpu is no change of a network", "write it under gpus:"),
        ("kv=fp8", "weights=int4", "5:32", "weights are given twice", "leave one"),
        ("TP2 x PP2", "xp2", "7:16", "'xp2'", "tp8-pp2"),
        ("int4-awq", "int4-awk", "8:17", "'int4-awk'", "int4-awq"),
        ("prefix_hit: 0.5", "prefix_hit: 1", "9:34", "less than 1", "write a number"),
        ("prefix_hit: 0.5", "prefix: 0.5", "9:22", "'prefix' is not a known key", "prefix_hit"),
        ("141 GiB", "141 GHz", "10:31", "is not in B", "write it like"),
        ("4 $/h", "-4 $/h", "10:47", "price cannot be", "0 $/h"),
        ("to: 64", "to: 0", "11:8", "batch cannot be 0", "whole numbers from 1"),
        ("points: 4", "step: 4", "11:8", "step on a logarithmic scale", "points"),
        ("points: 4, ", "", "11:8", "needs a step or a number of points", "step: 1"),
        ("[512, 1024]", "[512, 512]", "12:9", "prompt has a number twice", "each number once"),
        ("[128, 64]", "[128]", "14:7", "differ in length: prompt has 2, output has 1", "equal"),
        ("[gpus, layouts]", "[gpus, output]", "14:25", "'output' is there twice", "once"),
        ("[gpus, layouts]", "[gpus, layuots]", "14:25", "no axis", "did you mean layouts"),
        ("[gpus, layouts]", "[gpus, batch]", "14:25", "names and numbers", "zip names"),
        ("ttft_s:", "ttft:", "15:15", "no figure 'ttft'", "did you mean ttft_s"),
        ("500 ms", "500 MB", "15:23", "'500 MB' is not in s", "500 ms"),
        ("memory: fits", "memory: any", "15:84", "only be asked to fit", "memory: fits"),
        ("max user_tok_s", "max users", "16:32", "no figure 'users'", "user_tok_s"),
        ("max user_tok_s", "max usd_per_mtok", "16:32", "is there twice", "say it once"),
        ("{h100-sxm: 3}", "{h200-sxm: 3}", "17:20", "not in this scenario", "a100-sxm"),
        ("{h100-sxm: 3}", "{h100-sxm: -3}", "17:20", "price cannot be '-3.0'", "0 $/h"),
        ("[512, 1024]", "[]", "12:9", "'prompt' is empty", "write something"),
        ("[512, 1024]", "[1x, 2x]", "12:10", "'prompt[0]' must be a number, not '1x'", "number"),
        ("[h100_sxm, A100-SXM]", "[]", "6:7", "'gpus' is empty", "write something"),
        ("keep: top-5", "keep: top-0", "18:7", "'keep' cannot be 'top-0'", "write it like"),
        ("A100-SXM", "h100-sxm", "6:18", "'h100-sxm' is there twice", "say it once"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(
    tmp_path: Path, line: str, instead: str, where: str, message: str, hint: str
) -> None:
    assert FILE.count(line) == 1
    path = tmp_path / "mine.yaml"
    path.write_text(FILE.replace(line, instead))
    with pytest.raises(RooflineError) as caught:
        read_scenario(path)
    assert caught.value.where == f"{path}:{where}"
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        (BATCH, {"gpus": "h100-sxm", "nodes": "hgx-h100-8"}, "both gpus and nodes"),
        (TRAFFIC, {"rate": None}, "needs a rate or a concurrency"),
        (TRAFFIC, {"concurrency": 4}, "not both"),
        (TRAFFIC, {"workloads": "chatt"}, "no workload 'chatt'"),
        (TRAFFIC, {"batch": 4}, "'batch' is not a known key"),
        (BATCH, {"rate": 4}, "'rate' is not a known key"),
        (TRAFFIC, {"constraints": {"user_tok_s": 20}}, "no figure 'user_tok_s' in a traffic"),
        (BATCH, {"constraints": {"ttft_s": "-5 ms"}}, "cannot be limited to -0.005"),
        (TRAFFIC, {"rate": 0}, "rate cannot be 0"),
        (TRAFFIC, {"policies": "static"}, "'policies'"),
        (BATCH, {"patches": [{"name": "base"}]}, "'base' is there twice"),
        (BATCH, {"each": "patches"}, "patches are no axis"),
        (BATCH, {"each": ["models", "policies"]}, "policies are no axis"),
        (TRAFFIC, {"each": "techniques"}, "techniques are no axis"),
        (BATCH, {"each": "batch"}, "'each'"),
        (BATCH, {"layouts": {"gpus": 8}, "zip": [["layouts", "gpus"]]}, "cannot be zipped"),
        (
            BATCH,
            {"techniques": {"speculation": {"draft": "eagle", "acceptance": 1.5}}},
            "acceptance is 1.5",
        ),
        (
            BATCH,
            {
                "techniques": {
                    "speculation": {"draft": "eagle", "acceptance": 0.5, "acceptance_spread": 0.6}
                }
            },
            "`acceptance_spread` is 0.6",
        ),
        (
            BATCH,
            {
                "techniques": {
                    "speculation": {"draft": "eagle", "acceptance": 0.5},
                    "disaggregation": {"prefill": "tp1"},
                }
            },
            "speculation in a pool",
        ),
        (BATCH, {"techniques": {"beams": 2, "samples": 2}}, "samples of beams"),
        (BATCH, {"techniques": {"beams": 2, "kv_cache": False}}, "a missing cache"),
    ],
)
def test_what_does_not_go_together_is_refused(
    base: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        scenario(base, **changes)
    assert message in caught.value.message
    assert caught.value.where.startswith("try.json:1:")


def test_an_unknown_scenario_has_a_neighbour() -> None:
    with pytest.raises(UnknownNameError) as caught:
        scenario_named("quantization")
    assert "did you mean quantisation?" in caught.value.hint
