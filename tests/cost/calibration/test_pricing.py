"""Operators priced by shipped fits: what is priced, from where, and how surely."""

import numpy as np
import pytest

from roofline.api.setting import make_deployment
from roofline.bench.calibrations import calibration_of
from roofline.bench.shipping.files import fit_of, labels
from roofline.cost.calibration.by_kind import kernel_query
from roofline.cost.calibration.kernel import (
    MEASURED,
    PASSES,
    FitLabel,
    FittedKernel,
    KernelFit,
    nearest,
    passed_over,
)
from roofline.cost.calibration.pricing import GpuCalibration
from roofline.cost.deployment import Deployment
from roofline.cost.kernels import encoder, experts, hyper, recurrent
from roofline.cost.kernels.form import (
    EXTRAPOLATED,
    INTERPOLATED,
    TRANSFERRED,
    FittedForm,
    Form,
    log_sd,
    machine,
    octaves,
    predict,
    seconds,
)
from roofline.cost.kernels.gemm import CYCLED, GEMM
from roofline.cost.kernels.residual import TOUCHING, Hull, outside
from roofline.cost.layout import SINGLE, Layout
from roofline.cost.measured import MeasuredTime
from roofline.cost.roof import roof
from roofline.cost.step import SequenceGroup, decode, prefill, step
from roofline.cost.work import Op
from roofline.hardware.catalog import gpu
from roofline.model.catalog import architecture
from roofline.records import replace
from roofline.table import BASES

UNPRICED = {"scan", "index", "host"}
"""Kinds that were not measured."""


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("device", MEASURED)
def test_products_that_were_timed_with_more_than_a_step_does_are_passed_over(
    device: str, engine: str
) -> None:
    """Then no operator asks for those of them that are for few rows or odd widths, either."""
    calibration = calibration_of("auto", gpu(device), engine)
    assert isinstance(calibration, GpuCalibration)
    found = calibration.find(gpu(device), "gemm", ("fp8_block",))
    assert found is not None
    assert not passed_over(found.fit.label)


def test_blocks_start_alike_on_all_devices_whose_products_are_one_library_s() -> None:
    """SGLang's rows have the scales of weights packed before each product on Blackwell alone."""
    starts = {
        device: fit_of(FitLabel(device, "sglang", "gemm", "fp8_block")).model.constants["start"]
        for device in ("h100-sxm", "h200-sxm", "b200-sxm", "gb200", "b300-sxm", "gb300")
    }
    over = {
        device for device in starts if passed_over(FitLabel(device, "sglang", "gemm", "fp8_block"))
    }
    assert over == {device for device, start in starts.items() if start > 8e-6}
    assert over == {"b200-sxm", "gb200", "b300-sxm", "gb300"}


@pytest.mark.parametrize(
    ("engine", "kind", "devices"),
    [
        ("vllm", "latent-decode", ("a100-sxm", "l40s", "h100-sxm", "h200-sxm")),
        ("vllm", "latent-prefill", ("a100-sxm", "l40s", "h100-sxm", "h200-sxm")),
        ("sglang", "latent-prefill", ("l40s", "h100-sxm", "h200-sxm")),
    ],
)
def test_what_a_step_does_otherwise_than_was_measured_is_another_engines(
    engine: str, kind: str, devices: tuple[str, ...]
) -> None:
    """Rows of those kernels are still predicted by their own fits."""
    for device in map(gpu, devices):
        calibration = calibration_of("auto", device, engine)
        assert isinstance(calibration, GpuCalibration)
        variants = ("bfloat16-bfloat16",)
        step = calibration.find(device, kind, variants)
        row = nearest(labels(), fit_of, device, engine, kind, variants, in_steps=False)
        assert step is not None
        assert row is not None
        assert step.borrowed
        assert step.fit.label.provider != engine
        assert not row.borrowed
        assert row.fit.label.provider == engine


@pytest.mark.parametrize("variant", ["add", "attn_rope", "emb", "input_layernorm", "mlp_act"])
@pytest.mark.parametrize("device", ["a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm"])
def test_passes_of_a_step_are_those_of_a_graph(device: str, variant: str) -> None:
    """Rows of passes that were launched one by one are predicted by their own fits."""
    asked = gpu(device), "vllm", "pointwise", (variant,)
    step = nearest(labels(), fit_of, *asked, in_steps=True)
    row = nearest(labels(), fit_of, *asked, in_steps=False)
    assert step is not None
    assert row is not None
    assert step.fit.label == FitLabel("h200-sxm", PASSES, "pointwise", variant)
    assert not step.borrowed
    assert row.fit.label.provider == ("vidur" if device in ("a100-sxm", "h100-sxm") else PASSES)


def deployment(
    model: str = "llama-3.1-8b",
    device: str = "h100-sxm",
    layout: Layout = SINGLE,
    engine: str = "vllm",
    weights: str | None = None,
) -> Deployment:
    """Priced by measured kernels, and by nothing else."""
    given = make_deployment(
        architecture(model),
        gpu(device),
        None,
        layout,
        engine=engine,
        weights=weights,
        calibration="auto",
    )
    assert isinstance(given.calibration, GpuCalibration)
    return replace(given, calibration=replace(given.calibration, fallback=False))


def priced(given: Deployment, op: Op) -> MeasuredTime | None:
    assert given.calibration is not None
    return given.calibration.price(op, given.node.gpu)


def found(given: Deployment, name: str) -> KernelFit:
    known = priced(given, step(given, decode(16.0, 2048.0))[name])
    assert known is not None
    assert known.found is not None
    return known.found


@pytest.mark.parametrize(
    ("device", "engine", "kernel"),
    [
        ("b200-sxm", "sglang", "deepgemm"),
        ("gb300", "vllm", "deepgemm"),
        ("h200-sxm", "vllm", "sglang_deepgemm_gemm_nt_f8f8bf16"),
        ("l40s", "vllm", ""),
    ],
)
def test_blocks_of_one_library_are_known_better_than_those_of_another_kernel(
    device: str, engine: str, kernel: str
) -> None:
    """A kernel that stands in for Triton's, which vLLM has on an L40S, is not of one library."""
    given = deployment("llama-3.1-8b", device, engine=engine, weights="fp8-block")
    known = priced(given, step(given, decode(16.0, 2048.0))["down"])
    assert known is not None
    assert known.found is not None
    assert known.found.borrowed
    assert BASES[int(known.basis)] == ("extrapolated" if kernel else "transferred")
    other = known.found._replace(one_library=False).spread
    assert (known.found.spread < other) == bool(kernel)
    if kernel:
        assert known.found.fit.name == kernel


@pytest.mark.parametrize("device", ["a100-sxm", "h100-sxm", "h200-sxm"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gemma-2-9b"])
def test_every_kernel_of_common_networks_is_priced(model: str, device: str) -> None:
    given = deployment(model, device)
    for group in (prefill(2.0, 1024.0), decode(16.0, 2048.0)):
        for name, op in step(given, group).items():
            if op.kind not in UNPRICED and op.kind != "collective":
                known = priced(given, op)
                assert known is not None, name
                assert np.all(np.isfinite(known.seconds)), name
                assert np.all(np.asarray(known.seconds) >= 0.0), name


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_column_prices_like_its_rows(model: str, phase: str) -> None:
    given = deployment(model)
    sizes = np.array([1.0, 7.0, 64.0])

    def group(batch: np.ndarray | float) -> dict[str, Op]:
        made = prefill(batch, 512.0) if phase == "prefill" else decode(batch, 512.0)
        return step(given, made)

    column = group(sizes)
    for place, size in enumerate(sizes.tolist()):
        for name, op in group(size).items():
            one, every = priced(given, op), priced(given, column[name])
            assert (one is None) == (every is None)
            if one is not None and every is not None:
                for field in ("seconds", "log_sd", "basis"):
                    wide = np.broadcast_to(getattr(every, field), sizes.shape)
                    assert wide[place] == pytest.approx(getattr(one, field), rel=1e-9), name


def test_more_tokens_take_longer_over_octaves() -> None:
    given = deployment()
    batch = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
    total = np.zeros_like(batch)
    for op in step(given, prefill(batch, 128.0)).values():
        total += roof(op, given, float(op.repeat)).seconds
    assert np.all(np.diff(total) > 0)


def test_a_step_takes_longer_than_the_roof_allows() -> None:
    given = deployment()
    bare = replace(given, calibration=None)
    for group in (prefill(1.0, 2048.0), decode(1.0, 2048.0), decode(128.0, 2048.0)):
        times = [
            sum(
                float(roof(op, each, float(op.repeat)).seconds) for op in step(each, group).values()
            )
            for each in (given, bare)
        ]
        assert times[0] > times[1]


@pytest.mark.parametrize("device", ["v100-sxm", "t4", "mi250x", "tpu-v5e", "gaudi3"])
def test_devices_unlike_any_measured_keep_the_datasheet(device: str) -> None:
    assert calibration_of("auto", gpu(device), "vllm") is None


def test_a_fit_of_the_device_itself_is_its_own() -> None:
    here = found(deployment(), "attention")
    assert (here.foreign, here.far, here.borrowed) == (False, False, False)
    assert here.spread == 0.0


def test_a_fit_is_less_sure_the_farther_it_is_carried() -> None:
    near = found(deployment(device="h800-sxm"), "attention")
    far = found(deployment(device="rtx-pro-6000"), "attention")
    assert (near.foreign, near.far) == (True, False)
    assert (far.foreign, far.far) == (True, True)
    assert 0.0 < near.spread < far.spread


def test_kernels_of_another_engine_say_so() -> None:
    assert not found(deployment(engine="trtllm"), "attention").borrowed
    assert found(
        deployment("deepseek-v3", device="a100-sxm", engine="sglang"), "attention-absorbed"
    ).borrowed
    assert not found(deployment(engine="vllm"), "attention").borrowed
    assert not found(deployment(engine="sglang"), "qkv").borrowed  # products in 16 bits are cuBLAS


def test_what_was_not_measured_is_assumed_with_a_reason() -> None:
    given = deployment(weights="nf4")
    known = priced(given, step(given, decode(16.0, 2048.0))["gate-up"])
    assert known is not None
    assert BASES[int(known.basis)] == "assumed"
    assert "nf4" in known.assumed


def test_quantisation_is_in_the_product_that_it_feeds() -> None:
    given = deployment(weights="fp8")
    ops = step(given, decode(16.0, 2048.0))
    known = priced(given, ops["quantise-qkv"])
    assert known is not None
    assert known.seconds == 0.0


def test_narrow_weights_are_read_faster_than_wide_ones() -> None:
    times = []
    for weights in ("bf16", "int8-wo", "int4-awq"):
        given = deployment("llama-3.1-70b", weights=weights)
        known = priced(given, step(given, decode(1.0, 512.0))["gate-up"])
        assert known is not None
        times.append(float(known.seconds))
    assert times == sorted(times, reverse=True)


def test_parts_of_a_fused_mixture_add_up_to_it() -> None:
    given = deployment("mixtral-8x7b", engine="trtllm")
    device = given.node.gpu
    ops = step(given, decode(np.array([1.0, 16.0, 4096.0]), 512.0))
    names = ("experts-gate-up", "experts-down", "experts-combine", "experts-activation")
    wanted = kernel_query(ops[names[0]], device)
    assert wanted is not None
    assert isinstance(given.calibration, GpuCalibration)
    kernel = given.calibration.find(device, wanted.kind, wanted.variants)
    assert kernel is not None
    model, rates = kernel.fit.model, machine(device, "bf16")
    whole = seconds(model, wanted.dims, rates)
    every = [
        experts.of_part(part, whole, wanted.dims, rates, model.constants)
        for part in ("first", "second", "around", "none")
    ]
    np.testing.assert_allclose(sum(every), whole)
    times = [priced(given, ops[name]) for name in names]
    assert all(time is not None for time in times)
    rest = times[3]
    assert rest is not None
    assert float(np.max(rest.seconds)) == 0.0


def test_what_is_not_used_takes_no_time() -> None:
    given = deployment()
    op = step(given, decode(16.0, 2048.0))["qkv"]
    idle = replace(op, work=op.work * 0.0)
    known = priced(given, idle)
    assert known is not None
    assert known.seconds == 0.0


def test_naive_attention_is_not_taken_for_a_fused_one() -> None:
    given = deployment()
    naive = replace(given, options=replace(given.options, attention="naive"))
    for group in (prefill(1.0, 512.0), decode(1.0, 512.0)):
        assert priced(naive, step(naive, group)["attention"]) is None


def test_a_chunk_of_a_prompt_is_assumed() -> None:
    given = deployment()
    for new in (4.0, 512.0):
        op = step(given, prefill(1.0, 4096.0, 4096.0 - new))["attention"]
        known = priced(given, op)
        assert known is not None
        assert BASES[int(np.max(known.basis))] == "assumed"


def test_sums_inside_a_node_are_priced_and_across_nodes_are_not() -> None:
    inside = deployment("llama-3.1-70b", layout=Layout(tp=8.0))
    known = priced(inside, step(inside, decode(16.0, 2048.0))["all-reduce"])
    assert known is not None
    assert float(known.seconds) > 0.0
    across = deployment("llama-3.1-70b", layout=Layout(tp=16.0))
    assert priced(across, step(across, decode(16.0, 2048.0))["all-reduce"]) is None


def test_devices_without_nvlink_keep_the_datasheet_of_their_wires() -> None:
    given = deployment(device="l40s", layout=Layout(tp=2.0))
    assert priced(given, step(given, decode(16.0, 2048.0))["all-reduce"]) is None


def test_one_look_up_gives_what_three_give() -> None:
    given = deployment("mixtral-8x7b")
    assert isinstance(given.calibration, GpuCalibration)
    for op in step(given, prefill(np.array([1.0, 64.0, 4096.0]), 700.0)).values():
        wanted = None if op.kind == "collective" else kernel_query(op, given.node.gpu)
        if wanted is None:
            continue
        kernel = given.calibration.find(given.node.gpu, wanted.kind, wanted.variants)
        assert kernel is not None
        assert isinstance(kernel.fit, FittedKernel)
        model, device = kernel.fit.model, machine(given.node.gpu, "bf16")
        time, spread, known = predict(model, wanted.dims, device)
        np.testing.assert_allclose(time, seconds(model, wanted.dims, device), rtol=1e-12)
        np.testing.assert_allclose(spread, log_sd(model, wanted.dims, device), rtol=1e-12)
        beyond = outside(model.hull, octaves(model.form, wanted.dims)) > TOUCHING
        found = np.where(beyond, EXTRAPOLATED, INTERPOLATED)
        np.testing.assert_array_equal(known, TRANSFERRED if model.transferred else found)


def test_prompts_and_chunks_in_one_column_are_priced_as_alone() -> None:
    given = deployment()
    cached = np.array([0.0, 0.0, 4096.0, 60_000.0])
    new = np.array([2.0, 512.0, 16.0, 300.0])
    column = priced(given, step(given, prefill(1.0, cached + new, cached))["attention"])
    assert column is not None
    for place, (one, before) in enumerate(zip(new.tolist(), cached.tolist(), strict=True)):
        alone = priced(given, step(given, prefill(1.0, before + one, before))["attention"])
        assert alone is not None
        for field in ("seconds", "log_sd", "basis"):
            value = np.broadcast_to(getattr(column, field), new.shape)[place]
            assert value == pytest.approx(getattr(alone, field), rel=1e-9), (field, place)


def with_kernels(given: Deployment, *forms: tuple[str, str, str, Form]) -> Deployment:
    """Beside what is shipped, kernels of a provider, kind and variant at the priors of a form."""
    calibration = given.calibration
    assert isinstance(calibration, GpuCalibration)
    device = given.node.gpu.name
    made = {}
    for provider, kind, variant, form in forms:
        wide = np.zeros((1, len(form.coordinates)))
        constants = {constant.name: constant.prior for constant in form.constants}
        hull = Hull(wide[0] - 50.0, wide[0] + 50.0, wide, 100.0)
        model = FittedForm(form, constants, None, {}, 0.1, hull)
        label = FitLabel(device, provider, kind, variant)
        made[label] = FittedKernel(label, "bf16", model)
    load = calibration.load
    others = tuple(label for label in calibration.labels if label not in made)
    mine = replace(
        calibration,
        labels=(*others, *made),
        load=lambda label: made[label] if label in made else load(label),
    )
    return replace(given, calibration=mine)


def test_kernels_that_run_one_after_the_other_add_up() -> None:
    """A norm after streams are mixed takes what both take."""
    given = with_kernels(
        deployment("deepseek-v4-pro", layout=Layout(tp=8)),
        ("vllm", "hyper-connections", "post", hyper.HYPER["post"]),
    )
    op = step(given, decode(64.0, 1024.0))["norm"]
    known, wanted = priced(given, op), kernel_query(op, given.node.gpu)
    assert known is not None
    assert wanted is not None
    assert wanted.then is not None
    form = hyper.HYPER["post"]
    device = machine(given.node.gpu, "bf16")
    priors = {constant.name: constant.prior for constant in form.constants}
    mixing = form.seconds(wanted.dims, device, priors)[0]
    assert isinstance(given.calibration, GpuCalibration)
    norm = given.calibration.find(given.node.gpu, "pointwise", wanted.then.variants)
    assert norm is not None
    after = seconds(norm.fit.model, wanted.then.dims, device)[0]
    assert known.seconds == pytest.approx(mixing + after, rel=0.05)
    assert after > 0.1 * mixing


def test_a_state_is_read_from_memory_and_an_input_of_a_convolution_is_warm() -> None:
    given = with_kernels(
        deployment("qwen3-next-80b-a3b-instruct"),
        ("vllm", "linear-attention", "gdn-decode-state", recurrent.STEP),
        ("vllm", "linear-attention", "gdn-prefill-convolution", recurrent.CONVOLUTION),
    )
    device = machine(given.node.gpu, "bf16")
    for group, name, form, cold in (
        (decode(8.0, 1024.0), "gated-delta", recurrent.STEP, True),
        (prefill(1.0, 512.0), "convolution", recurrent.CONVOLUTION, False),
    ):
        op = step(given, group)[name]
        known, wanted = priced(given, op), kernel_query(op, given.node.gpu)
        assert known is not None
        assert wanted is not None
        priors = {constant.name: constant.prior for constant in form.constants}
        blind = replace(device, l2_bytes=0.0) if cold else device
        assert known.seconds == pytest.approx(form.seconds(wanted.dims, blind, priors)[0])
        other = device if cold else replace(device, l2_bytes=0.0)
        assert known.seconds > form.seconds(wanted.dims, other, priors)[0] or not cold


def test_weights_of_a_step_come_from_memory_where_a_benchmark_kept_them_in_a_cache() -> None:
    """An L40S, whose cache holds six copies of most matrices of a small network."""
    kept, plain = CYCLED["cycled"]["bfloat16"], GEMM["bfloat16"]
    given = deployment("llama-3.2-1b", device="l40s")
    op = step(given, decode(1.0, 1024.0))["qkv"]
    known, other = (
        priced(with_kernels(given, ("vllm", "gemm", "bfloat16", form)), op)
        for form in (kept, plain)
    )
    wanted, device = kernel_query(op, given.node.gpu), machine(given.node.gpu, "bf16")
    assert known is not None
    assert other is not None
    assert wanted is not None
    assert known.seconds == other.seconds
    priors = {constant.name: constant.prior for constant in kept.constants}
    assert kept.seconds(wanted.dims, device, priors)[0] < 0.8 * known.seconds


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_a_recurrent_step_is_priced_by_the_kernels_of_its_engine(engine: str) -> None:
    forms = (
        ("gdn-decode-state", recurrent.STEP),
        ("gdn-decode-convolution", recurrent.CONVOLUTION_STEP),
        ("gdn-prefill-state", recurrent.SCAN),
        ("gdn-prefill-convolution", recurrent.CONVOLUTION),
    )
    kernels = [
        (provider, "linear-attention", variant, form)
        for provider in ("vllm", "sglang", "trtllm")
        for variant, form in forms
    ]
    given = with_kernels(deployment("qwen3-next-80b-a3b-instruct", engine=engine), *kernels)
    for group in (prefill(2.0, 4096.0), decode(32.0, 2048.0)):
        for name, op in step(given, group).items():
            if op.kind == "scan" or "taps" in op.dims:
                known = priced(given, op)
                assert known is not None, name
                assert known.found is not None
                assert known.found.fit.label.provider == engine
                assert known.basis == BASES.index("interpolated")


def test_phases_of_a_recurrent_layer_along_an_axis_are_priced_one_by_one() -> None:
    given = with_kernels(
        deployment("qwen3-next-80b-a3b-instruct"),
        ("vllm", "linear-attention", "gdn-decode-state", recurrent.STEP),
        ("vllm", "linear-attention", "gdn-decode-convolution", recurrent.CONVOLUTION_STEP),
        ("vllm", "linear-attention", "gdn-prefill-state", recurrent.SCAN),
        ("vllm", "linear-attention", "gdn-prefill-convolution", recurrent.CONVOLUTION),
    )
    new = np.array([1.0, 3.0, 512.0, 1.0, 4096.0])

    def seconds(tokens: np.ndarray | float) -> np.ndarray:
        total = np.zeros(np.shape(tokens))
        for op in step(given, SequenceGroup(4.0, tokens, 8192.0)).values():
            if op.kind == "scan" or "taps" in op.dims:
                known = priced(given, op)
                assert known is not None
                total = total + known.seconds
        return total

    np.testing.assert_allclose(seconds(new), [float(seconds(each)) for each in new.tolist()])


def test_an_encoder_is_priced_with_the_blocks_of_the_kernel_of_its_engine() -> None:
    times = {}
    for engine, kernel in (("vllm", "fa3"), ("trtllm", "torch_flow")):
        given = with_kernels(
            deployment("bert-large-uncased", engine=engine),
            (engine, "encoder-attention", "bfloat16", encoder.FORM),
        )
        op = step(given, prefill(8.0, 1500.0))["attention"]
        known, wanted = priced(given, op), kernel_query(op, given.node.gpu)
        assert known is not None
        assert wanted is not None
        batch, seq, heads, width = (
            wanted.dims[name] for name in ("batch", "seq", "heads", "head_dim")
        )
        dims = encoder.encoder_dims(batch, seq, heads, width, kernel, "hopper")
        priors = {constant.name: constant.prior for constant in encoder.FORM.constants}
        times[engine] = known.seconds
        expected = encoder.FORM.seconds(dims, machine(given.node.gpu, "bf16"), priors)[0]
        assert known.seconds == pytest.approx(expected)
    assert times["vllm"] != times["trtllm"]
