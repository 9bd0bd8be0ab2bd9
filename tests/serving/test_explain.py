"""Derivations: trees that end in sources, and whose numbers give the value they explain."""

from collections.abc import Iterator
from typing import Final

import pytest

from roofline import api
from roofline.cost.adapters import Lora
from roofline.cost.deployment import Offload
from roofline.cost.layout import Layout
from roofline.errors import UnknownNameError
from roofline.records import replace
from roofline.serving.explain import operators
from roofline.serving.explain.figures import explain_all
from roofline.serving.result import result_of
from roofline.serving.static import StaticBatch, static_batch
from roofline.serving.workload import Workload
from roofline.table import BASES, Derivation
from tests.formulas import evaluated
from tests.serving.deployments import on

CASES: Final = {
    "default": lambda: static_batch(on(), Workload()),
    "adapters": lambda: static_batch(on(lora=Lora(9, max_loras=5)), Workload(4, 512, 20)),
    "shared adapters": lambda: static_batch(
        on("llama-3.1-70b", layout=Layout(tp=16, pp=2), lora=Lora(9)), Workload(4, 512, 20)
    ),
    "one token": lambda: static_batch(on(), Workload(4, 512, 1)),
    "in turns": lambda: static_batch(on(), Workload(16, 512, 20, prefill_batch=4)),
    "no cache": lambda: static_batch(on(), Workload(2, 64, 20, kv_cache=False)),
    "across a window": lambda: static_batch(on("gemma-2-9b"), Workload(8, 3500, 1500)),
    "eight devices": lambda: static_batch(on("llama-3.1-70b", tp=8), Workload()),
    "repeated heads": lambda: static_batch(on("gemma-2-2b", tp=8), Workload()),
    "int4": lambda: static_batch(on(weights="int4", kv="fp8"), Workload()),
    "naive": lambda: static_batch(on(attention="naive"), Workload(4, 512, 8)),
    "does not fit": lambda: static_batch(on("llama-3.1-70b"), Workload()),
    "encoder": lambda: static_batch(on("bert-base-uncased", weights="int8"), Workload(8, 128, 1)),
    "learned positions": lambda: static_batch(
        on("opt-350m", layout=Layout(tp=2, pp=2), weights="int4"), Workload(4, 64, 8)
    ),
    "mesh": lambda: static_batch(on("llama-3.1-70b", "mi300x", tp=4), Workload()),
    "two nodes": lambda: static_batch(on("llama-3.1-405b", tp=16, node="hgx-h100-8"), Workload()),
    "pipeline": lambda: static_batch(
        on("llama-3.1-405b", layout=Layout(tp=8, pp=2), node="hgx-h100-8"), Workload(16, 512, 20)
    ),
    "pipeline of odd parts": lambda: static_batch(
        on(
            "llama-3.1-8b",
            layout=Layout(tp=2, pp=3, microbatches=2, sequence_parallel=True, stages=(10, 10, 12)),
        ),
        Workload(5, 512, 20),
    ),
    "experts in groups": lambda: static_batch(
        on("mixtral-8x7b-v0.1", layout=Layout(tp=4, ep=4)), Workload(4, 512, 20)
    ),
    "experts apart": lambda: static_batch(
        on("deepseek-v3", layout=Layout(dp=16, ep=16), node="hgx-h800-8"), Workload(64, 512, 20)
    ),
    "experts apart and shared": lambda: static_batch(
        on("deepseek-v3", layout=Layout(tp=2, dp=8, ep=8), node="hgx-h800-8"),
        Workload(64, 512, 20),
    ),
    "experts padded": lambda: static_batch(
        on("mixtral-8x7b-v0.1", layout=Layout(tp=1, dp=3, ep=3)), Workload(6, 512, 20)
    ),
    "context": lambda: static_batch(
        on(layout=Layout(tp=2, cp=4), overlap=0.5), Workload(2, 8192, 20)
    ),
    "ring of contexts": lambda: static_batch(
        on(layout=Layout(cp=4), ring_attention=True), Workload(2, 8192, 20)
    ),
    "overlap": lambda: static_batch(on("llama-3.1-70b", tp=8, overlap=0.8), Workload(16, 512, 20)),
    "weights on the host": lambda: static_batch(
        on("llama-3.1-70b", "rtx-4090", weights="int4-awq", offload=Offload(weights=0.6)),
        Workload(1, 512, 20),
    ),
    "weights and cache on a drive": lambda: static_batch(
        on(tp=2, offload=Offload(weights=0.3, kv=0.5, to="nvme", prefetch=False)),
        Workload(64, 2048, 20),
    ),
    "all of it on the host": lambda: static_batch(
        on(offload=Offload(weights=1.0, kv=1.0)), Workload(8, 2048, 20)
    ),
    "experts outside": lambda: static_batch(
        on("mixtral-8x7b-v0.1", "rtx-4090", offload=Offload(weights=0.9, kv=0.5)),
        Workload(1, 64, 20),
    ),
}


@pytest.fixture(scope="module", params=CASES)
def batch(request: pytest.FixtureRequest) -> StaticBatch:
    return CASES[request.param]()


def entries(derivation: Derivation) -> Iterator[Derivation]:
    yield derivation
    for entry in derivation.inputs:
        yield from entries(entry)


def test_every_metric_is_explained_by_its_own_value(batch: StaticBatch) -> None:
    every = explain_all(batch)
    held = batch.memory
    alone = replace(batch.workload, batch=1, prefill_batch=0)
    idle = every.pop("ttft_idle").value
    assert idle == static_batch(batch.deployment, alone, utilization=batch.utilization).ttft_s
    assert {name: entry.value for name, entry in every.items()} == {
        "ttft": batch.ttft_s,
        "tpot": batch.tpot_s,
        "latency": batch.latency_s,
        "throughput": batch.throughput_tok_s,
        "memory": held.weights
        + held.activations
        + held.runtime
        + held.graphs
        + held.kv
        + held.buffer,
        "weights": held.weights - held.adapters,
        **({"adapters": held.adapters} if held.adapters else {}),
        "kv": held.kv,
        "cost": batch.usd_per_mtok,
        "energy": batch.joule_per_mtok,
        "ridge": batch.deployment.node.gpu.ridge(batch.deployment.precision.linear_arithmetic),
    }


def test_every_branch_ends_in_a_source_or_a_formula(batch: StaticBatch) -> None:
    bare = {
        f"{metric}: {entry.name} = {entry.value:g} {entry.unit}"
        for metric, derived in explain_all(batch).items()
        for entry in entries(derived)
        if not (entry.inputs or entry.source or entry.formula)
    }
    assert bare == set()


def test_every_basis_is_one_that_is_known(batch: StaticBatch) -> None:
    for derived in explain_all(batch).values():
        for entry in entries(derived):
            assert entry.basis in ("", *BASES), entry


@pytest.mark.slow
def test_numbers_put_into_a_formula_give_its_value(batch: StaticBatch) -> None:
    # Quantities are shown to three digits, so a few of them together are right to a few per cent.
    wrong = {
        f"{metric}: {entry.name}": f"{entry.substituted} is not {entry.value}"
        for metric, derived in explain_all(batch).items()
        for entry in entries(derived)
        if entry.substituted and "mean over" not in entry.substituted
        if evaluated(entry.substituted) != pytest.approx(entry.value, rel=0.02, abs=1e-12)
    }
    assert wrong == {}


def test_a_weight_and_a_cached_element_have_the_bytes_of_their_format(batch: StaticBatch) -> None:
    precision = batch.deployment.precision
    widths = {
        "KV cache moved": {precision.kv.width},
        "weights moved": {precision.weights.width, precision.head.width},
    }
    every = explain_all(batch)
    for metric in ("ttft", "tpot"):
        for entry in entries(every[metric]):
            if entry.name in widths and entry.substituted:
                texts = (text.split(" · ") for text in (entry.formula, entry.substituted))
                pairs = zip(*texts, strict=True)
                found = next(
                    number
                    for name, number in pairs
                    if name.startswith(("weight_width", "kv_width", "width"))
                )
                each = float(found.partition(" + ")[0])
                assert any(each == pytest.approx(w, rel=1e-9) for w in widths[entry.name]), entry


def test_operators_of_a_step_add_up_to_it(batch: StaticBatch) -> None:
    every = explain_all(batch)
    for metric in ("ttft", "tpot"):
        for entry in entries(every[metric]):
            if entry.formula.startswith("sum over operators"):
                parts = [part.value for part in entry.inputs if part.unit == "s"]
                assert sum(parts) == pytest.approx(entry.value)


def test_every_wire_and_load_is_derived_from_a_rate_and_from_what_is_moved(
    batch: StaticBatch,
) -> None:
    for ops in (batch.prefill, batch.decode):
        for entry in ops.values():
            if entry.op.kind not in ("collective", "host"):
                continue
            derived = operators.operator(entry, batch.deployment)
            assert "B/s" in derived.substituted or "is hidden" in derived.formula, derived
            moved = [e for e in derived.inputs if e.name.startswith(("sent", "loaded"))]
            assert moved
            assert all(each.formula and each.substituted for each in moved), derived


def test_weights_are_the_sum_of_their_parts(batch: StaticBatch) -> None:
    for entry in entries(explain_all(batch)["weights"]):
        if entry.unit == "B" and entry.substituted:
            assert evaluated(entry.substituted) == pytest.approx(entry.value, rel=2e-3)
            assert "others" not in entry.name or entry.value < 0.01 * batch.memory.weights


def test_figures_of_all_replicas_are_explained_by_their_own_value() -> None:
    batch = CASES["eight devices"]()
    several = explain_all(batch, 4)
    assert several["throughput"].value == 4 * batch.throughput_tok_s
    for name in ("throughput", "cost", "energy"):
        entry = several[name]
        assert evaluated(entry.substituted) == pytest.approx(entry.value, rel=0.02)
    assert several["cost"].value == batch.usd_per_mtok


def test_wires_have_what_a_round_costs_below_them() -> None:
    entry = explain_all(CASES["experts apart"]())["tpot"]
    below = {
        part.name: {each.name: (each.basis, bool(each.source)) for each in part.inputs}
        for part in entries(entry)
        if part.name in ("W", "W network")
    }
    assert below["W"] == {"α": ("assumed", True), "s": ("assumed", True)}
    assert below["W network"] == {"α network": ("datasheet", True), "s network": ("assumed", True)}
    assert entry.basis == "assumed"


def test_the_wires_to_a_host_that_no_node_describes_are_those_of_the_gpu() -> None:
    parts = {e.name: e for e in entries(explain_all(CASES["weights on the host"]())["tpot"])}
    assert "PCI Express" in parts["W host"].source
    assert parts["W host"].basis == "datasheet"
    assert parts["share kept outside"].value == 0.6
    derived = explain_all(CASES["weights and cache on a drive"]())
    drive = {e.name: e for e in entries(derived["tpot"])}
    assert drive["W host"].value == 7e9
    assert drive["a drive"].basis == "assumed"


def test_a_metric_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(UnknownNameError) as caught:
        api.explain(result_of(CASES["default"](), 1), "tppt")
    assert "tpot" in caught.value.hint


def test_an_assumed_price_makes_the_cost_assumed() -> None:
    made = CASES["default"]()
    assert explain_all(made)["cost"].basis == "assumed"
    assert explain_all(made)["ttft"].basis == "datasheet"


def test_the_reader_of_formulas_reads() -> None:
    assert evaluated("2 · max(3.00 µs, 4.00 ms)") == 2 * 4e-3
    assert evaluated("1,024 · (2 + min(S, 4096)) / 2, S = 9,000") == 1024 * 4098 / 2
    assert evaluated("3.6 $/h · 2 / 2.00 ktoken/s · 1,000,000 / 3600 s/h") == pytest.approx(1.0)
