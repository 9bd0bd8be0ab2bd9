"""A deployment, its command, and the deployment that the command starts."""

import shlex
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline
from roofline.api import deployment_of_command
from roofline.api.setting import make_deployment
from roofline.cli import run
from roofline.cost import layout as layouts
from roofline.cost.deployment import Deployment
from roofline.errors import InfeasibleError, InputError, LayoutError, RooflineError
from roofline.hardware import catalog as machines
from roofline.hardware.engine import engine
from roofline.model import catalog as networks
from roofline.model import parameters
from roofline.records import replace
from roofline.serving.requests import requests
from roofline.serving.simulate.server import ServerOptions, server_of
from tests.cases import examples

H100 = machines.gpu("h100-sxm")
PRICED = ("vllm", "sglang", "trtllm", "llamacpp")
WORKS = {
    "llama-3.1-8b": ("tp1", "tp2", "tp8", "pp2", "tp4-pp2"),
    "qwen3-30b-a3b": ("tp2", "tp4-ep4", "dp4-ep4", "dp8", "tp2-dp2-ep4"),
}


@st.composite
def asked(draw: st.DrawFn) -> dict[str, str]:
    model = draw(st.sampled_from(list(WORKS)))
    return {
        "model": model,
        "layout": draw(st.sampled_from(WORKS[model])),
        "kv": draw(st.sampled_from(["auto", "fp8", "bf16"])),
        "weights": draw(st.sampled_from(["", "fp8", "fp16"])),
        "gpu": draw(st.sampled_from(["h100-sxm", "h200-sxm"])),
    }


def wanted(asked: dict[str, str], target: str, lost: list[str]) -> Deployment:
    """The deployment that was asked for, made without any command."""
    network = networks.architecture(asked["model"])
    return make_deployment(
        network,
        machines.gpu(asked["gpu"]),
        None,
        layouts.parse(asked["layout"]),
        weights=None if "weights" in lost else asked["weights"] or None,
        kv="auto" if "kv" in lost else asked["kv"],
        engine=target,
    )


@settings(max_examples=examples(40), deadline=None)
@given(asked=asked(), target=st.sampled_from(PRICED), share=st.integers(850, 990))
def test_the_deployment_of_a_command_is_the_one_it_was_written_for(
    asked: dict[str, str], target: str, share: int
) -> None:
    try:
        result = roofline.serve_command(
            asked["model"],
            asked["gpu"],
            target=target,
            layout=asked["layout"],
            kv=asked["kv"],
            weights=asked["weights"] or None,
            memory_utilization=share / 1000,
        )
    except LayoutError:
        return  # the engine has no such layout, and says so
    meta = result.metadata
    found = deployment_of_command(meta["script"], asked["gpu"], model=asked["model"])
    assert found == wanted(asked, target, meta["lost"])
    read = roofline.parse_command(meta["script"], asked["gpu"], model=asked["model"]).metadata
    for name in ("max_sequences", "token_budget", "max_context"):
        said = dict(zip(*(result.tables["settings"][c] for c in ("setting", "value")), strict=True))
        label = {
            "max_sequences": "sequences at once",
            "token_budget": "new tokens of a step",
            "max_context": "longest sequence",
        }[name]
        value = "the engine's own" if read[name] is None else f"{read[name]:,}"
        assert said[label] == value
    # What a lost format would have changed of the memory is not in the share that is read.
    if not meta["lost"]:
        assert read["memory_utilization"] == pytest.approx(share / 1000, abs=2e-4)


def test_the_catalog_finds_the_network_by_its_hub_id() -> None:
    result = roofline.serve_command("llama-3.1-8b")
    assert "meta-llama/Llama-3.1-8B" in result.metadata["command"]
    assert deployment_of_command(result.metadata["script"]).architecture.name == "llama-3.1-8b"


def knob(engine: str, flag: str, share: float) -> float:
    words = roofline.serve_command(
        "llama-3.1-8b", target=engine, memory_utilization=share, max_context=8192
    ).metadata["command"]
    return float(words[words.index(flag) + 1])


def test_memory_means_the_same_bytes_for_every_engine() -> None:
    """Shares of the device for vLLM, less activations for SGLang, of the rest for TensorRT-LLM."""
    capacity = machines.gpu("h100-sxm").memory_bytes
    weights = parameters.weight_bytes(networks.architecture("llama-3.1-8b"))
    reserved = {
        name: engine(name).runtime_bytes + engine(name).graph_bytes for name in ("sglang", "trtllm")
    }
    whole = knob("vllm", "--gpu-memory-utilization", 0.8)
    static = knob("sglang", "--mem-fraction-static", 0.8)
    free = knob("trtllm", "--kv_cache_free_gpu_memory_fraction", 0.8)
    assert whole == 0.8
    # What SGLang leaves out of the share is activations, which are the same for all of them.
    activations = (whole - static) * capacity - reserved["sglang"]
    assert activations > 0
    taken = weights + activations + reserved["trtllm"]
    assert free == pytest.approx((whole * capacity - taken) / (capacity - taken), rel=1e-5)


def test_a_context_that_does_not_fit_is_shortened_and_said() -> None:
    result = roofline.serve_command("llama-3.1-8b", "l4", memory_utilization=0.95)
    words = result.metadata["command"]
    context = int(words[words.index("--max-model-len") + 1])
    assert context < 131072
    assert any(f"{context:,}" in note for note in result.notes)
    with pytest.raises(InfeasibleError, match="one sequence of 131,072 tokens takes"):
        roofline.serve_command("llama-3.1-8b", "l4", max_context=131072)
    # A page more does not fit, which the engine would find out only when it starts.
    with pytest.raises(InfeasibleError):
        roofline.serve_command(
            "llama-3.1-8b", "l4", memory_utilization=0.95, max_context=context + 1024
        )


def test_a_network_that_does_not_fit_has_no_command() -> None:
    with pytest.raises(InfeasibleError, match="before any cache"):
        roofline.serve_command("llama-3.1-70b")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"target": "ollama"}, "target is 'ollama'"),
        ({"target": "sglang", "engine": "vllm"}, "the command is for sglang"),
        ({"target": "ray-serve", "engine": "sglang"}, "runs vLLM"),
        ({"layout": "auto"}, "one layout"),
        ({"port": 0}, "port is 0"),
        ({"draft": "mtp"}, "no layer that predicts"),
        ({"draft": "medusa"}, "draft is 'medusa'"),
        ({"draft": "eagle"}, "needs a checkpoint"),
        ({"draft_model": "x"}, "without `draft`"),
        ({"max_context": 1000}, "longer than `max_context="),
        ({"prompt": 200_000}, "longer than the 131,072 that llama-3.1-8b is made for"),
        ({"max_context": 200_000}, "`max_context=200,000` is longer than the 131,072"),
        ({"prompt": 0}, "prompt is 0"),
        ({"concurrency": -1, "output": -5}, "output is -5"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"max_sequences": 256, "token_budget": 100}, "step, 100 here, than sequences at once"),
        ({"max_sequences": 0}, "max sequences is 0"),
        ({"memory_utilization": 2.0}, "memory utilization is 2"),
    ],
    ids=str,
)
def test_a_mistake_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        roofline.serve_command("llama-3.1-8b", **given)


def test_the_usual_sequences_are_no_more_than_the_tokens_of_a_step() -> None:
    command = roofline.serve_command("llama-3.1-8b", token_budget=100).metadata["command"]
    assert command[command.index("--max-num-seqs") + 1] == "100"
    assert roofline.parse_command(" ".join(command)).metadata["token_budget"] == 100


DEVICES = ["h100-sxm", "a100-sxm", "l40s", "h200-sxm"]
BARE = {
    "vllm": "vllm serve meta-llama/Llama-3.1-8B",
    "sglang": "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B",
    "trtllm": "trtllm-serve meta-llama/Llama-3.1-8B",
}


@pytest.mark.parametrize("gpu", DEVICES)
@pytest.mark.parametrize("named", BARE)
def test_a_bare_command_has_the_defaults_of_every_other_question(named: str, gpu: str) -> None:
    read = roofline.parse_command(BARE[named], gpu)
    found = deployment_of_command(BARE[named], gpu)
    device = machines.gpu(gpu)
    assert found == make_deployment(
        networks.architecture("llama-3.1-8b"), device, None, engine=named
    )
    # Nothing of the engine's own has to be told to another question.
    same = ["llama-3.1-8b", "--gpu", gpu, "--engine", named]
    for question in ("analyze", "simulate"):
        assert shlex.split(read.metadata[question]) == ["roofline", question, *same]
    server = server_of(found, ServerOptions(), requests(np.arange(4.0), np.full(4, 500), 100), None)
    known = engine(named)
    assert server.max_sequences == known.sequences_on(device)
    assert server.token_budget == max(known.step_tokens_on(device), server.max_sequences)


def test_a_bare_command_of_vllm_takes_as_much_memory_as_analyze_says() -> None:
    read = roofline.parse_command(BARE["vllm"], "h100-sxm").metadata
    memory = roofline.analyze("llama-3.1-8b", "h100-sxm").tables["memory"]
    (unused,) = (row["share"] for row in memory.rows() if row["part"] == "not used by the engine")
    assert read["memory_utilization"] == pytest.approx(1 - unused, rel=1e-12)
    told = roofline.parse_command(f"{BARE['vllm']} --gpu-memory-utilization 0.92", "h100-sxm")
    assert told.metadata["memory_utilization"] == read["memory_utilization"]


def test_a_command_says_the_defaults_as_the_engine_does() -> None:
    knobs = {
        "vllm": ("--gpu-memory-utilization", 0.92),
        "sglang": ("--mem-fraction-static", engine("sglang").memory_utilization_on(H100)),
        "trtllm": ("--kv_cache_free_gpu_memory_fraction", 0.9),
    }
    for named, (flag, value) in knobs.items():
        words = roofline.serve_command("llama-3.1-8b", target=named).metadata["command"]
        assert float(words[words.index(flag) + 1]) == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("target", ["vllm", "sglang", "trtllm"])
def test_a_server_without_cuda_graphs_has_their_memory_for_its_cache(target: str) -> None:
    made = {
        graphs: roofline.serve_command("llama-3.1-8b", target=target, cuda_graphs=graphs).metadata
        for graphs in (True, False)
    }
    for graphs, each in made.items():
        found = deployment_of_command(each["script"])
        assert (found.options.cuda_graphs, found.cuda_graphs) == (graphs, graphs)
        assert found.graph_bytes == graphs * engine(target).graph_bytes
    read = roofline.parse_command(made[False]["script"]).metadata
    assert read["cuda_graphs"] is False
    assert read["analyze"].endswith(" --no-cuda-graphs")


def test_offloaded_layers_come_back() -> None:
    for target in ("vllm", "llamacpp"):
        made = roofline.serve_command("llama-3.1-8b", target=target, offload_weights=0.25).metadata
        found = deployment_of_command(made["script"], model="llama-3.1-8b")
        assert found.offload.weights == 0.25
        assert replace(found.offload, weights=0.0).any is False


def test_an_unknown_checkpoint_can_be_named() -> None:
    with pytest.raises(RooflineError, match="no network 'org/nothing-of-the-kind'"):
        roofline.parse_command("vllm serve org/nothing-of-the-kind")
    found = roofline.parse_command("vllm serve org/nothing", model="llama-3.1-8b")
    assert found.metadata["model"] == "llama-3.1-8b"


def test_the_question_it_gives_is_one_that_roofline_answers() -> None:
    result = roofline.parse_command("vllm serve meta-llama/Llama-3.1-8B -tp 2 --kv-cache-dtype fp8")
    words = shlex.split(result.metadata["analyze"])
    assert words[0] == "roofline"
    assert run([*words[1:], "--format", "csv"]) == 0
