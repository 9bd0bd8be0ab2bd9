"""The bound, and changes that would help: every factor is that of running the change."""

from collections.abc import Mapping
from typing import Any

import pytest

import roofline
from roofline.cost.deployment import Deployment
from roofline.cost.layout import Layout
from roofline.hardware.catalog import default_node
from roofline.model.precision import resolve
from roofline.records import replace
from roofline.serving.advice import changes, sentences, shares
from roofline.serving.room import largest_batch
from roofline.serving.static import static_batch
from roofline.serving.workload import MOST_SEQUENCES, Workload
from tests.serving.deployments import on


def changed(deployment: Deployment, work: Workload, name: str) -> tuple[Deployment, Workload]:
    """The change carried out from its name alone."""
    gpu, formats = deployment.node.gpu, deployment.precision
    machine: Mapping[str, Any] = {
        "twice the memory bandwidth": {"hbm_bytes_per_s": 2 * gpu.hbm_bytes_per_s},
        "twice the arithmetic": {"flops_per_s": {k: 2 * v for k, v in gpu.flops_per_s.items()}},
    }
    if name in machine:
        node = replace(deployment.node, gpu=replace(gpu, **machine[name]))
        return replace(deployment, node=node), work
    if name == "twice the rate of the interconnect":
        link = deployment.node.link
        assert link is not None
        faster = replace(link, bytes_per_s=2 * link.bytes_per_s)
        return replace(deployment, node=replace(deployment.node, link=faster)), work
    if name == "twice the batch":
        return deployment, replace(work, batch=2 * work.batch)
    if name.endswith("GPUs"):
        tp = int(name.split()[0])
        return replace(deployment, node=default_node(gpu, tp), layout=Layout(tp=tp)), work
    what, part = name.split(" ", 1)
    weights = what if part == "weights" else formats.weights.name
    kv = what if part == "KV cache" else formats.kv.name
    return replace(deployment, precision=resolve(weights, kv, gpu)), work


@pytest.mark.parametrize(
    ("model", "device", "tp", "work"),
    [
        ("llama-3.1-8b", "h100-sxm", 1, Workload()),
        ("llama-3.1-8b", "a100-sxm", 1, Workload(64, 300, 1)),
        ("llama-3.1-70b", "h100-sxm", 4, Workload(32, 4000, 500, prefill_batch=8)),
        ("gemma-2-9b", "l40s", 1, Workload(4, 100, 50, kv_cache=False)),
    ],
)
def test_the_factors_of_a_change_are_those_of_running_it(
    model: str, device: str, tp: int, work: Workload
) -> None:
    deployment = on(model, device, tp=tp)
    base = static_batch(deployment, work)
    priced = changes(base)
    assert {"twice the batch", "twice the memory bandwidth", "twice the arithmetic"} <= {
        change.name for change in priced
    }
    for change in priced:
        other = static_batch(*changed(deployment, work, change.name))
        assert change.ttft == pytest.approx(other.ttft_s / base.ttft_s), change.name
        if base.tpot_s:
            assert change.tpot == pytest.approx(other.tpot_s / base.tpot_s), change.name
        # Of each GPU: more GPUs for more tokens is no gain.
        each = other.throughput_tok_s / other.devices
        ours = each / (base.throughput_tok_s / base.devices)
        assert change.throughput == pytest.approx(ours), change.name
        assert change.fits == other.memory.fits, change.name


def test_the_largest_batch_allowed_still_has_advice() -> None:
    batch = static_batch(on(), Workload(MOST_SEQUENCES, 8, 8))
    assert "twice the batch" not in {change.name for change in changes(batch)}


def test_shares_of_a_step_add_up_to_one() -> None:
    for tp in (1, 8):
        batch = static_batch(on("llama-3.1-70b", tp=tp), Workload())
        for ops in (batch.prefill, batch.decode):
            assert sum(shares(ops).values()) == pytest.approx(1.0)
            assert (shares(ops)["wires"] > 0) is (tp > 1)


def test_weights_bind_a_small_decode_and_arithmetic_a_large_prefill() -> None:
    batch = static_batch(on(), Workload(1, 4096, 32))
    assert max(shares(batch.decode), key=lambda k: shares(batch.decode)[k]) == "weights"
    assert max(shares(batch.prefill), key=lambda k: shares(batch.prefill)[k]) == "arithmetic"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "tp", "work"),
    [
        ("llama-3.1-8b", 1, Workload(2000, 2048, 256)),
        ("llama-3.1-70b", 1, Workload()),
        ("llama-3.1-405b", 8, Workload(1, 100, 10)),
    ],
)
def test_the_way_out_of_a_full_memory_is_one_that_fits(model: str, tp: int, work: Workload) -> None:
    deployment = on(model, tp=tp)
    batch = static_batch(deployment, work)
    assert not batch.memory.fits
    most = largest_batch(deployment, work, None)
    sentence = sentences(batch, changes(batch), most)[0]
    assert sentence.startswith("Does not fit")
    if "A batch of" in sentence:
        most = int(sentence.split("A batch of ")[1].split(" ")[0].replace(",", ""))
        assert static_batch(deployment, replace(work, batch=most)).memory.fits
    elif "`tp=" in sentence:
        wider = int(sentence.split("`tp=")[1].split("`")[0])
        assert static_batch(replace(deployment, layout=Layout(tp=wider)), work).memory.fits
    else:
        assert "`layout=auto`" in sentence
        found = roofline.analyze(model, gpus=2 * tp, layout="auto", batch=1, prompt=100, output=10)
        assert found.metadata["fits"]
