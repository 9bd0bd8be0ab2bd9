"""The catalog of harnesses: what each says of its clients, and whose rows it is read for."""

from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.content import shipped
from roofline.errors import DocumentError, InputError, UnknownNameError
from roofline.serving.traffic.harnesses import (
    RowOrigin,
    harness_named,
    harness_names,
    harness_of,
    harnesses,
    read_harness,
)
from roofline.serving.traffic.lengths import ConstantLength, Uniform

FOLDER = shipped("hwspecs") / "harnesses"
ASKED: dict[str, Any] = {"with_intervals": False, "prompt": 1000, "output": 100}


@pytest.mark.parametrize("name", harness_names())
def test_every_harness_says_how_it_drives_its_clients(name: str) -> None:
    how = harness_named(name.upper())
    assert how.name == name
    assert 0 <= how.shortest <= how.longest < 2
    assert how.sent(4) >= 1
    assert how.title in how.words


def test_what_was_inferred_is_called_so() -> None:
    """A figure without a document is inferred from rows, in a file of that name, or assumed."""
    for name in harness_names():
        inferred = "source: inferred" in (FOLDER / f"{name}.yaml").read_text()
        assert inferred == name.startswith("inferred-"), name


def test_the_closest_use_decides() -> None:
    def name(
        family: str = "",
        engine: str = "vllm",
        prompt: float = 1024,
        date: str = "",
        network: str = "",
    ) -> str:
        releases = {"vllm-sync": "vllm", "trtllm-1.0": "trtllm", "trtllm-1.1": "trtllm"}
        engines = (engine, releases.get(engine, ""))
        return harness_of(RowOrigin(family, engines, prompt, date, network)).name

    assert name() == name("", "vllm-sync") == name("", "llama.cpp") == "unnamed"
    assert name("inferencemax", "trtllm-1.0") == "inferencex"
    assert name("inferencemax", date="2025-12-31") == "inferencemax"
    assert name("nvidia-dynamo-lab") == name("nvidia-dynamo-lab", "trtllm-1.0") == "dynamo-guide"
    late: dict[str, Any] = {"engine": "trtllm-1.0", "network": "llama-3.1-8b"}
    assert name("nvidia-dynamo-lab", **late) == "inferred-trtllm-1.0"
    assert name("", **late) == "unnamed"
    assert name("nvidia-dynamo-lab", prompt=4000) == "dynamo-lab"
    assert name("aiperf", "sglang") == "aiperf"


def test_no_two_uses_are_of_the_same_rows() -> None:
    uses = [use for each in harnesses() for use in each.used_by]
    assert len(uses) == len(set(uses))


def test_lengths_are_shares_of_the_nominal_one() -> None:
    assert harness_named("inferencex").around(1000) == Uniform(800, 1000)
    assert harness_named("sglang-bench").around(1000) == Uniform(1, 1000)
    assert harness_named("aiperf").around(1000) == ConstantLength(1000)


def workload(**asked: Any) -> dict[str, str]:
    table = roofline.simulate(**ASKED | asked).tables["workload"]
    return dict(list(row.values())[:2] for row in table.rows())


def test_a_simulation_is_driven_like_a_benchmark_but_for_what_is_asked() -> None:
    told = workload(harness="inferencex", concurrency=8)
    assert told["requests"] == "80"
    assert told["prompt"] == "800 to 1,000 tokens"
    own = workload(harness="inferencex", concurrency=8, requests=16, length_spread=0.1)
    assert own["requests"] == "16"
    assert own["prompt"] == "900 to 1,100 tokens"
    assert workload(harness="llmperf")["arrivals"].startswith("10 clients")
    assert "100 different prompts" in workload(harness="aiperf", concurrency=8)["prompt"]
    assert workload(harness="guidellm", concurrency=2)["statistic"] == "median"
    assert workload(harness="vllm-bench", rate=5.0)["requests"] == "1,000"


def test_a_simulation_names_the_harness() -> None:
    run = roofline.simulate(**ASKED, harness="inferencex", concurrency=2)
    assert any("10 requests of each client, lengths of 0.8 to 1" in note for note in run.notes)


def test_a_typo_is_told_the_names() -> None:
    with pytest.raises(UnknownNameError) as refused:
        roofline.simulate(**ASKED, harness="inferencx", concurrency=8)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("did you mean inferencex? harnesses: aiperf, ")


def test_clients_that_nobody_counts_are_asked_for() -> None:
    with pytest.raises(InputError, match="as many clients as it is told"):
        roofline.simulate(**ASKED, harness="inferencex")
    with pytest.raises(InputError, match="does not take `harness`"):
        roofline.simulate(harness="inferencex", trace="requests.csv")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rounds: {", "requests: {value: 10, source: assumed, note: x}\nrounds: {", "two numbers"),
        ("shortest: {value: 0.8", "shortest: {value: 1.8", "longer than longest"),
        ("pool: {value: 0", "pool: {value: 0.5", "pool cannot be"),
        ("value: 0 s, source: scripts", "value: 0 s, source: nobody", "not listed"),
        ("{family: inferencemax}", "{famly: inferencemax}", "famly"),
    ],
)  # fmt: skip
def test_a_broken_file_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (FOLDER / "inferencex.yaml").read_text()
    assert old in text
    path = tmp_path / "inferencex.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(DocumentError, match=said):
        read_harness(path)
