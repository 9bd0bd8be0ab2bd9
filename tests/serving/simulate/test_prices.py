"""Prices from tables against the price of the step itself."""

from dataclasses import dataclass

import numpy as np
import pytest

from roofline.cost.deployment import Deployment, Offload
from roofline.cost.engine_costs import IDEAL, NO_ENGINE, EngineCosts, EngineProfile
from roofline.cost.layout import parse
from roofline.cost.measured import MeasuredTime
from roofline.cost.step import SequenceGroup, step
from roofline.cost.work import Op
from roofline.errors import InputError
from roofline.hardware.machine import Gpu
from roofline.records import replace
from roofline.serving.simulate import prices
from roofline.serving.simulate.prices import step_prices
from tests.pricing import seconds
from tests.serving.deployments import on
from tests.serving.simulate.reference_prices import step_s

ALLOWED = 0.005
INTERPOLATED = 3.0


@dataclass(frozen=True)
class Planted:
    """Times that bend where the datasheet's do not: launches, rates that are reached slowly."""

    name: str = "planted"
    basis: str = "interpolated"
    profile: EngineProfile = NO_ENGINE

    def price(self, op: Op, gpu: Gpu) -> MeasuredTime | None:
        if op.kind == "collective":
            return None
        compute = op.work.flops / gpu.rate(op.arithmetic) if op.arithmetic else 0.0
        memory = op.work.hbm_bytes / gpu.hbm_bytes_per_s
        parts = (np.asarray(compute) / 0.7) ** 3 + (np.asarray(memory) / 0.8) ** 3
        return MeasuredTime(4e-6 + parts ** (1 / 3), 0.1, INTERPOLATED)


def planted(deployment: Deployment) -> Deployment:
    return replace(deployment, calibration=Planted())


DEPLOYMENTS = {
    "dense": lambda: on(),
    "windows": lambda: on("gemma-2-9b"),
    "experts": lambda: on("mixtral-8x7b", tp=2),
    "latent": lambda: on("deepseek-v3", "h200-sxm", tp=8, weights="fp8"),
    "tensor parallel": lambda: on("llama-3.1-70b", tp=8),
    "context parallel": lambda: on("llama-3.1-70b", layout=parse("cp2-tp4")),
    "groups": lambda: on("deepseek-v3", "h200-sxm", layout=parse("dp8-ep8"), weights="fp8"),
    "recurrent": lambda: on("granite-4.0-h-tiny"),
    "cache on the host": lambda: on(offload=Offload(kv=0.5, prefetch=False)),
    "weights on the host": lambda: on(offload=Offload(weights=0.3, prefetch=False)),
    "overlapped wires": lambda: on("llama-3.1-70b", tp=8, overlap=0.5),
    "calibrated": lambda: planted(on()),
    "calibrated experts": lambda: planted(on("mixtral-8x7b", tp=2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_tables_price_a_step_within_half_a_percent(name: str) -> None:
    deployment = DEPLOYMENTS[name]()
    table = step_prices(deployment, sequences=1024, engine=IDEAL)
    random, worst = np.random.default_rng(0), 0.0
    longest = deployment.architecture.max_context or 131_072
    groups = int(deployment.layout.dp)
    for _ in range(150):
        batch = int(2 ** random.uniform(-0.5, 10)) // groups * groups
        context = float(int(2 ** random.uniform(1, np.log2(longest))))
        chunks = []
        for _ in range(int(random.integers(0, 4))):
            new = int(2 ** random.uniform(0, 13))
            before = int(2 ** random.uniform(0, 14)) if random.random() < 0.5 else 0
            chunks.append((new, min(before, longest - new)))
        loaded = int(random.integers(1, groups + 1))
        made = [SequenceGroup(float(batch), 1.0, context, "d")] if batch else []
        made += [
            # One token as an array is prefilled, not decoded.
            SequenceGroup(float(loaded), np.array([float(n)]), np.array([float(n + s)]), f"p{i}")
            for i, (n, s) in enumerate(chunks)
        ]
        if made:
            direct = float(np.squeeze(seconds(step(deployment, made), deployment)))
            places = [place for place in range(loaded) for _ in chunks]
            ours = step_s(table, batch, batch * context, chunks * loaded, None, places)
            worst = max(worst, abs(ours / direct - 1.0))
    print(f"\n  {name}: {worst:.3%} at most from the price of the step")
    assert worst < ALLOWED


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-2-9b", "gemma-3-12b", "gpt-oss-20b"])
def test_sequences_of_many_lengths_are_priced_within_half_a_percent(model: str) -> None:
    """Some of them fill a window, some do not."""
    deployment = on(model, "h200-sxm")
    table = step_prices(deployment)
    random, worst = np.random.default_rng(0), 0.0
    longest = deployment.architecture.max_context or 131_072
    for mean in (50, 500, 1500, 4000, 8000):
        for spread in (0.3, 1.0, 2.0):
            lengths = random.lognormal(np.log(mean), spread, 48)
            contexts = np.minimum(lengths.astype(int) + 2, longest)
            groups = [SequenceGroup(1.0, 1.0, float(x), f"d{i}") for i, x in enumerate(contexts)]
            direct = float(np.squeeze(seconds(step(deployment, groups), deployment)))
            seen = float(np.minimum(contexts, table.window).sum())
            ours = step_s(table, len(contexts), float(contexts.sum()), [], seen)
            worst = max(worst, abs(ours / direct - 1.0))
    print(f"\n  {model}: {worst:.3%} at most from the price of the step")
    assert worst < ALLOWED


def test_what_is_loaded_ahead_has_no_price_by_parts() -> None:
    with pytest.raises(InputError, match="hidden behind the rest of a step"):
        step_prices(on(offload=Offload(kv=0.5)))


def test_a_network_that_does_not_decode_is_refused() -> None:
    with pytest.raises(InputError, match="does not decode token by token"):
        step_prices(on("bert-base-uncased"))


def test_the_tables_used_last_are_forgotten_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "_KNOWN", {})
    monkeypatch.setattr(prices, "MOST_TABLES", 1)
    first, second = on("llama-3.1-8b"), on("qwen3-8b")
    step_prices(first)
    step_prices(second)
    again = step_prices(first)
    assert step_prices(first).decode_s is again.decode_s


def test_a_pipeline_decodes_in_rounds_of_its_micro_batches() -> None:
    from roofline.serving.static import static_batch
    from roofline.serving.workload import Workload

    deployment = on("llama-3.1-70b", layout=parse("tp2-pp4"))
    table = step_prices(deployment, sequences=64)
    for batch in (1, 3, 16, 64):
        work = Workload(batch, 1000, 2)
        ours = step_s(table, batch, batch * 1001.0, [])
        assert ours == pytest.approx(static_batch(deployment, work).tpot_s, rel=ALLOWED)


def test_an_engine_adds_what_its_record_says() -> None:
    deployment = on()
    engine = EngineCosts(1e-3, 1e-5, 2e-3, decode_gain=1.1, prefill_gain=1.2)
    bare = step_prices(deployment, sequences=16)
    dressed = replace(bare, engine=engine)
    decode, chunks = step_s(bare, 8, 8 * 500.0, []), [(256, 0)]
    added = step_s(bare, 8, 8 * 500.0, chunks) - decode
    assert step_s(dressed, 8, 8 * 500.0, []) == pytest.approx(1.1 * decode + 1e-3 + 8e-5)
    whole = 1.1 * decode + 1.2 * added + 1e-3 + 8e-5 + 2e-3
    assert step_s(dressed, 8, 8 * 500.0, chunks) == pytest.approx(whole)
    slow = replace(bare, engine=EngineCosts(launch_s=1.0))
    assert step_s(slow, 8, 8 * 500.0, chunks) == 1.0
    assert step_s(slow, 8, 8 * 500.0, []) == decode


@pytest.mark.slow
@pytest.mark.parametrize(("model", "tp"), [("llama-3.1-8b", 1), ("llama-3.1-70b", 8)])
def test_tables_of_measured_kernels_follow_the_price_of_a_step(model: str, tp: int) -> None:
    """Tiles make jumps that straight lines cut, and so do activations that just fit into the
    last-level cache: nine of ten steps are within half a percent.
    """
    from roofline.api.setting import make_deployment
    from roofline.cost.layout import Layout
    from roofline.hardware.catalog import gpu
    from roofline.model.catalog import architecture

    layout = Layout(tp=float(tp))
    deployment = make_deployment(
        architecture(model), gpu("h100-sxm"), None, layout, calibration="auto"
    )
    table = step_prices(deployment, longest=8192, engine=IDEAL)
    random, off = np.random.default_rng(0), []
    for _ in range(80):
        batch = int(2 ** random.uniform(0, 8))
        context = float(int(2 ** random.uniform(1, 13)))
        new = int(2 ** random.uniform(0, 12))
        before = int(2 ** random.uniform(0, 12)) if random.random() < 0.5 else 0
        made = [
            SequenceGroup(float(batch), 1.0, context, "d"),
            SequenceGroup(1.0, np.array([float(new)]), np.array([float(new + before)]), "p"),
        ]
        direct = float(np.squeeze(seconds(step(deployment, made), deployment)))
        off.append(abs(step_s(table, batch, batch * context, [(new, before)]) / direct - 1.0))
    print(
        f"\n  {model}: median {np.median(off):.3%}, at most {max(off):.3%} from the price of a step"
    )
    assert np.quantile(off, 0.9) < ALLOWED
    assert max(off) < 4.1 * ALLOWED
