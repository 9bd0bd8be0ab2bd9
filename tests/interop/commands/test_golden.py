"""The commands as they are, one text for each version of an engine."""

from pathlib import Path

import pytest

from roofline.cost.layout import Layout
from roofline.interop.commands import targets
from roofline.interop.commands.command import ServeCommand
from roofline.interop.commands.served import (
    DraftSettings,
    OffloadedWeights,
    PrefillServers,
    ReplicaServer,
    ServerMemory,
)
from roofline.records import replace
from tests.interop.commands.serving import SITE

GOLDEN = Path(__file__).with_name("golden")
FULL = ReplicaServer(
    "vllm",
    "org/Some-Model",
    Layout(tp=4, pp=2, stages=(31, 29)),
    replicas=2,
    weights="fp8",
    kv="fp8",
    max_sequences=128,
    token_budget=4096,
    max_context=32768,
    memory=ServerMemory(0.9),
    prefix_caching=False,
    offloaded=OffloadedWeights(0.25),
    speculation=DraftSettings("eagle", 3, "org/Head"),
)
EXPERTS = replace(
    FULL, layout=Layout(dp=8, ep=8), speculation=DraftSettings("mtp", 1), weights="", offloaded=None
)
CASES = {
    "vllm-0.33.0": ("vllm", FULL),
    "vllm-0.33.0-experts": ("vllm", EXPERTS),
    "sglang-0.5.23": ("sglang", replace(FULL, engine="sglang")),
    "sglang-0.5.23-experts": ("sglang", replace(EXPERTS, engine="sglang")),
    "trtllm-1.2": ("trtllm", replace(FULL, engine="trtllm")),
    "trtllm-1.2-experts": ("trtllm", replace(EXPERTS, engine="trtllm")),
    "llamacpp-00dc8057": (
        "llamacpp",
        replace(FULL, engine="llamacpp", layout=Layout(pp=2, stages=(31, 29))),
    ),
    "k8s-vllm-0.33.0": ("k8s", FULL),
    "k8s-trtllm-1.2": ("k8s", replace(EXPERTS, engine="trtllm")),
    "ray-2.60": ("ray-serve", FULL),
    "dynamo-1.6.1-vllm": ("dynamo", FULL),
    "dynamo-1.6.1-sglang-split": ("dynamo", replace(FULL, engine="sglang")),
    "llm-d-0.9-split": ("llm-d", FULL),
    "ray-2.60-experts": ("ray-serve", EXPERTS),
}


def written_for(name: str) -> ServeCommand:
    """The command of a case, with a pool of prefill where its name says so."""
    target, served = CASES[name]
    before = replace(served, layout=Layout(tp=2), replicas=3, speculation=None)
    pool = PrefillServers(before, SITE) if name.endswith("split") else None
    return targets.write(target, served, SITE, pool)


@pytest.mark.parametrize("name", CASES)
def test_a_command_is_as_it_was(name: str) -> None:
    written = written_for(name)
    parts = [
        written.title,
        *(f"--- {file}\n{text.rstrip()}" for file, text in written.files.items()),
        f"--- command\n{written.line}",
        "--- benchmark\n" + " \\\n  ".join(" ".join(part) for part in written.benchmark),
        "--- notes\n" + "\n".join(written.notes),
    ]
    assert "\n".join(parts) + "\n" == (GOLDEN / f"{name}.txt").read_text("utf-8")


def test_every_golden_text_is_compared() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)


def test_texts_fit_a_page() -> None:
    for path in GOLDEN.glob("*.txt"):
        text, _, _ = path.read_text("utf-8").partition("--- notes")
        assert max(map(len, text.splitlines())) <= 100, path.name
