"""Parts of measured modules that an index and an attention to chosen keys ask for."""

import numpy as np
import pytest

from roofline.api.setting import make_deployment
from roofline.cost.calibration.attention import ATTENTION_LAUNCHES, INDEX_LAUNCHES, SPARSE
from roofline.cost.calibration.by_kind import kernel_query
from roofline.cost.calibration.kernel import FitLabel, FittedKernel, KernelQuery
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.deployment import Deployment
from roofline.cost.kernels import sparse
from roofline.cost.kernels.form import FittedForm
from roofline.cost.kernels.residual import Hull
from roofline.cost.layout import Layout
from roofline.cost.step import SequenceGroup, decode, prefill
from roofline.cost.work import Op
from roofline.hardware.catalog import gpu
from roofline.model.catalog import architecture
from roofline.records import replace
from roofline.serving.stages import price_step

DEVICE = gpu("b200-sxm")
TP8 = Layout(tp=8)


def deployment(model: str) -> Deployment:
    given = make_deployment(architecture(model), DEVICE, None, TP8, calibration="auto")
    assert isinstance(given.calibration, GpuCalibration)
    return replace(given, calibration=replace(given.calibration, fallback=False))


def ops(model: str, group: SequenceGroup) -> dict[str, Op]:
    return {name: op for name, (op, _) in price_step(deployment(model), group)[0].ops.items()}


def wanted(op: Op) -> KernelQuery:
    found = kernel_query(op, DEVICE)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("model", "attention", "module"),
    [
        ("deepseek-v3.2", "attention-absorbed", "dsa"),
        ("glm-5", "attention-absorbed", "dsa"),
        ("minimax-m3", "attention", "msa"),
    ],
)
@pytest.mark.parametrize(
    ("group", "phase"), [(decode(16.0, 8192.0), "decode"), (prefill(1.0, 16384.0), "prefill")]
)
def test_an_index_and_its_attention_are_parts_of_one_module(
    model: str, attention: str, module: str, group: SequenceGroup, phase: str
) -> None:
    found = ops(model, group)
    scores = next(op for name, op in found.items() if name.startswith("index-scores"))
    chosen = next(op for op in found.values() if "sparse" in op.dims)
    assert chosen.name.startswith(attention)
    index, rest = wanted(scores), wanted(chosen)
    for each in (index, rest):
        assert each.kind == SPARSE
        assert all(name.startswith(f"{module}-{phase}-") for name in each.variants)
        assert not each.dims["n0"].any(), "projections are operators of their own"
    assert not index.dims["attends"].any()
    assert index.dims["entries"].all()
    assert not rest.dims["entries"].any()
    assert rest.dims["attends"].all()
    np.testing.assert_array_equal(index.dims["heads"], rest.dims["heads"])
    launches = index.dims["launches"] + rest.dims["launches"]
    assert launches == pytest.approx(INDEX_LAUNCHES + ATTENTION_LAUNCHES)
    assert launches < 1.0


def test_entries_of_all_tokens_are_one_module_and_the_best_few_another() -> None:
    found = ops("deepseek-v4-flash", decode(16.0, 8192.0))
    heads = {op.dims["ratio"]: wanted(op) for op in found.values() if "ratio" in op.dims}
    modules = {ratio: each.variants[0].split("-")[0] for ratio, each in heads.items()}
    assert modules == {0.0: "hca", 4.0: "csa", 128.0: "hca"}
    assert heads[0.0].assumed
    assert not heads[128.0].assumed
    # 128 tokens and an entry for each 128 of them.
    assert heads[128.0].dims["met"][0] == pytest.approx(128 + 8192 / 128, rel=0.01)


def test_keys_that_an_index_chose_are_attended_in_the_latent() -> None:
    """DeepSeek-V3.2 has its multi-query mode for them; short prompts are expanded."""
    names = set(ops("deepseek-v3.2", prefill(1.0, 16384.0)))
    assert "attention-absorbed" in names
    assert "attention-expanded" not in names
    assert "attention-expanded" in ops("deepseek-v3.2", prefill(1.0, 1024.0))


def fitted(**over: float) -> FittedForm:
    constants = {c.name: c.prior for c in sparse.STEP_MODULE.constants} | over
    low, high = np.zeros(3), np.full(3, 20.0)
    hull = Hull(low, high, np.stack([low, high]), 20.0)
    return FittedForm(sparse.STEP_MODULE, constants, None, {}, 0.1, hull)


def test_an_engine_with_a_module_alone_has_its_part_priced_and_no_projection_twice() -> None:
    """The parts take less than the module, by what the projections and the rest of it take."""
    label = FitLabel("b200-sxm", "trtllm", SPARSE, "dsa-decode-bfloat16-bfloat16-fp8_block")
    model = fitted()
    calibration = GpuCalibration(
        "test", "trtllm", (label,), lambda _: FittedKernel(label, "bf16", model)
    )
    found = ops("deepseek-v3.2", decode(16.0, 8192.0))
    scores, chosen = found["index-scores"], found["attention-absorbed"]
    index, attention = (calibration.price(op, DEVICE) for op in (scores, chosen))
    assert index is not None
    assert attention is not None
    assert index.found is not None
    assert index.found.fit.label is label
    assert calibration.price(found["q-up"], DEVICE) is None
    slower = fitted(gemm=0.1, weights=0.1)
    other = GpuCalibration(
        "test", "trtllm", (label,), lambda _: FittedKernel(label, "bf16", slower)
    )
    again = [other.price(op, DEVICE) for op in (scores, chosen)]
    assert [each.seconds for each in again if each] == [index.seconds, attention.seconds]


def test_without_a_module_attention_is_priced_as_if_all_keys_were_those() -> None:
    found = wanted(ops("deepseek-v3.2", decode(16.0, 8192.0))["attention-absorbed"])
    assert found.otherwise is not None
    assert found.otherwise.kind == "latent-decode"
    assert found.otherwise.assumed
